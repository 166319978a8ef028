"""What is measured. Every module registers its cases; the order here is the order of the page."""

# ruff: noqa: F401, I001
from bench.cases import (
    scheduling,
    timers,
    tasks,
    sockets,
    tcp,
    network,
    connections,
    processes,
    loops,
    footprint,
    web,
    databases,
    front_ends,
    serving,
    erlang,
    asking_erlang,
)
