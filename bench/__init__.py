"""Benchmarks: ErlangEventLoop beside the other loops of the same Python. `make bench` runs them.

cases/         what is measured; runs on any loop
erlang/        Erlang asking Python, as an escript
front_ends/    the echo servers of the other front ends and their rivals
load/          the client, in Rust
peers/         peers, and executors over processes: `make bench-peers`
asgi_apps.py   the applications of cases/serving.py
baseline.py    what `make bench-check` compares with, and how
checking.py    comparing a run with the baseline
conditions.py  the same for all
contenders.py  who takes part, and the command that runs one
counted.py     a fixed amount of work, for counting.py
counting.py    instructions instead of seconds
load_client.py building and running the client
machine.py     where a run took place
native.py      the core's own benchmarks, by criterion
page.py        README.md
plot.py        ratios.svg
registry.py    what a case is, and the table of them
rounds.py      the samples, interleaved, each in a process of its own
servers.py     Redis and PostgreSQL for the cases that use them
steps.py       counts instructions by single steps
store.py       the samples of the last run
summary.py     medians, ratios, means
tls_client.py  the client of the TLS case
worker.py      one sample, in its own process
"""
