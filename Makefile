# The project's commands. Each installs what it needs first (scripts/setup) and does no work twice.
#
#   make test STEPS="ct pytest"           some steps only
#   make test STEPS="pytest" AGAIN=1      only the tests that failed the last time
#   make test RETRY=1                     a few tests that fail are run once more
#   make build PYTHON=/path/to/python3.13  another interpreter than python3 on the PATH
#   PERF_BUILD=1 make build               for the CPU of this machine only

export PYTHON ?= python3

.DEFAULT_GOAL := help
.PHONY: help run doctor test check build shell lint format bench bench-check bench-baseline bench-peers fuzz soak leaks segfaults cluster memcheck matrix dist wheel docs site clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: build ## Start a node and show what a loop does in it
	@ERL_LIBS=_build/default/lib escript examples/tour.escript

doctor: ## Look at everything that is needed, and say how to fix what is wrong
	@bin/erlang-loop --doctor

test: ## Run all checks and tests; the last line counts them
	@scripts/setup test
	@scripts/test $(if $(AGAIN),--again) $(if $(RETRY),--retry) $(STEPS)

check: test ## The same as test

build: ## Build the native library and the OTP application
	@scripts/setup build
	@rebar3 compile

shell: build ## An Erlang shell with the application started
	@rebar3 shell

lint: ## Run the checkers only: rustfmt, clippy, imports, xref, dialyzer, ruff, mypy, shellcheck
	@scripts/setup lint
	@scripts/test rustfmt clippy imports compile xref dialyzer ruff ruff-format mypy shellcheck

format: ## Format Rust and Python
	@scripts/setup lint
	@scripts/format

bench: build ## Compare with asyncio and other loops: bench/README.md; FULL=1 for longer
	@scripts/setup bench
	@scripts/bench run $(if $(FULL),--full)

bench-check: build ## Fail if anything is a tenth slower than bench/baseline.json
	@scripts/setup bench
	@scripts/bench check --rounds 5

bench-baseline: build ## Write bench/baseline.json
	@scripts/setup bench
	@scripts/bench baseline --rounds 5

bench-peers: build ## Measure peers: round trips, large data, spares, cores, memory; executors side by side
	@scripts/setup bench
	@escript bench/peers/figures.escript
	@bin/erlang-loop bench/peers/executors.py

fuzz: build ## Give every function anything, millions of times (INPUTS, SECONDS_EACH)
	@scripts/setup test
	@scripts/fuzz

soak: build ## All kinds of load at once while processes die, every answer checked (SOAK=600 seconds)
	@scripts/setup test
	@SOAK=$${SOAK:-600} rebar3 ct --suite test/py_soak_SUITE

leaks: build ## A million calls and timers, 100,000 connections and loops: is all given back? (LEAKS=100 %)
	@scripts/setup test
	@LEAKS=$${LEAKS:-100} rebar3 ct --suite test/py_leaks_SUITE

reloads: build ## Reloads an ASGI server under load: no request may fail (N=20 reloads in SECONDS=60)
	@RELOADS=$(or $(N),20) RELOADS_SECONDS=$(or $(SECONDS),60) RELOADS_CLIENTS=200 RELOADS_WEBSOCKETS=50 RELOADS_MINUTES=60 \
		rebar3 ct --suite test/py_asgi_SUITE --case no_request_fails_during_reloads

segfaults: build ## Peers crash under 100 callers, N times: is every call answered, and none run twice?
	@scripts/setup test
	@SEGFAULTS=$${N:-1000} rebar3 ct --suite test/py_segfault_SUITE

cluster: build ## Three nodes with a pool over them, one link cut for SECONDS=10 under load: does only its work fail?
	@scripts/setup test
	@SPLIT_SECONDS=$(or $(SECONDS),10) rebar3 ct --suite test/py_split_SUITE

memcheck: build ## The core's tests under AddressSanitizer, Miri and valgrind, as far as they are there
	@scripts/memcheck

matrix: ## The suites on other releases of OTP and Python; writes docs/compatibility.md
	@scripts/matrix

dist: ## Write prebuilt native libraries and their checksums to dist/
	@scripts/setup build
	@scripts/dist

wheel: build ## Write a wheel with the Erlang VM in it to dist/: pip install, then erlang-loop
	@$(PYTHON) scripts/make_wheel dist

docs: build ## Write the API pages of Erlang and Rust
	@scripts/docs

site: build ## Write the documentation as a static site to _build/site/html
	@scripts/setup test
	@scripts/site

clean: ## Remove everything that was built, but not .venv
	@rm -rf _build target priv/py_nif.so priv/build_info priv/cp* dist
