# The project's commands. Each installs what it needs first (scripts/setup) and does no work twice.
#
#   make test STEPS="ct pytest"           some steps only
#   make build PYTHON=/path/to/python3.13  another interpreter than python3 on the PATH

export PYTHON ?= python3

.DEFAULT_GOAL := help
.PHONY: help run test check build shell lint format bench bench-check bench-baseline docs clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: build ## Start a node and show what a loop does in it
	@ERL_LIBS=_build/default/lib escript examples/tour.escript

test: ## Run all checks and tests; the last line counts them
	@scripts/setup test
	@scripts/test $(STEPS)

check: test ## The same as test

build: ## Build the native library and the OTP application
	@scripts/setup build
	@rebar3 compile

shell: build ## An Erlang shell with the application started
	@rebar3 shell

lint: ## Run the checkers only: rustfmt, clippy, xref, dialyzer, ruff, mypy, shellcheck
	@scripts/setup lint
	@scripts/test rustfmt clippy compile xref dialyzer ruff ruff-format mypy shellcheck

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

docs: build ## Write the API pages of Erlang and Rust
	@scripts/docs

clean: ## Remove everything that was built, but not .venv
	@rm -rf _build target priv/py_nif.so priv/build_info
