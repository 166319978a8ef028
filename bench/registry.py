"""What a case is, what it returns, and the table of all cases."""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

Factory = Callable[[], asyncio.AbstractEventLoop]
Loop = asyncio.AbstractEventLoop


class WrongReply(Exception):  # noqa: N818  a result, not an error
    """The loop did not do what the case requires, so its figure would mean nothing."""


class Unavailable(Exception):  # noqa: N818
    """Something the case needs is not on this machine."""


def require(condition: object, message: str, *values: object) -> None:
    """The message gets its values only if it is needed: this is called while time counts."""
    if not condition:
        raise WrongReply(message.format(*values))


@dataclass(frozen=True)
class Budget:
    """How much a sample may cost."""

    seconds: float
    #: 1 for a real run; a fraction for a quick look whether everything works.
    scale: float = 1.0

    def count(self, full: int) -> int:
        return max(1, int(full * self.scale))

    def deadline(self) -> float:
        return time.perf_counter() + self.seconds

    def times(self, factor: int) -> Budget:
        return Budget(self.seconds * factor, self.scale)


@dataclass(frozen=True)
class Sample:
    """What one run of a case found."""

    value: float
    #: CPU time of the loop's whole process for one operation or request, in microseconds.
    cpu_us: float | None = None
    p50_us: float | None = None
    p99_us: float | None = None
    #: Whatever else is worth a footnote.
    more: dict[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Began(NamedTuple):
    """When something began, by both clocks."""

    wall: float
    cpu: float


def begin() -> Began:
    return Began(time.perf_counter(), time.process_time())


def per_second(count: int, began: Began) -> Sample:
    """So many things since then."""
    wall, cpu = time.perf_counter() - began.wall, time.process_time() - began.cpu
    return Sample(count / wall, cpu_us=cpu / count * 1e6)


LoopCase = Callable[[Loop, Budget], Awaitable[Sample]]
FactoryCase = Callable[[Factory, Budget], Sample]
BareCase = Callable[[Budget], Sample]
#: Gets the contender's name.
NamedCase = Callable[[str, Budget], Sample]

#: Samples of these groups take so many times longer: much of them is the work of other programs, of
#: the kernel and of the VM, so they scatter more.
LONGER_GROUPS = ("stacks", "processes", "erlang")
LONGER = 4

#: Loops that take part where they are installed, and what they need that not every machine has.
#: None has a package for every Python that this project supports.
OPTIONAL_LOOPS = {
    "rsloop": "is built from source with a nightly Rust compiler",
    "zloop": "needs a newer Python",
    "zuvloop": "needs Python 3.14",
}
LOOPS = (
    *("asyncio", "uvloop", "rloop"),
    *(name for name in OPTIONAL_LOOPS if importlib.util.find_spec(name)),
    "erlang_loop",
)


@dataclass(frozen=True)
class Case:
    name: str
    group: str
    unit: str
    #: The first line of its docstring.
    what: str
    run: LoopCase | FactoryCase | NamedCase | None
    #: "loop": a coroutine function; "factory": makes its loops itself; "named": gets the
    #: contender's name; "erlang": run by an escript.
    kind: str
    less_is_better: bool
    contenders: tuple[str, ...]
    #: The same without any loop, if there is such a thing.
    bare: BareCase | None
    #: Compared by `make bench-check`.
    checked: bool
    #: Counts in the geometric mean.
    counts: bool
    #: Too long for the short run.
    full_only: bool = False

    def budget(self, budget: Budget) -> Budget:
        """What a sample of it may cost."""
        return budget.times(LONGER if self.group in LONGER_GROUPS else 1)


CASES: dict[str, Case] = {}
#: In the order of the page: first what most programs do.
GROUPS = {
    "stacks": "Real programs",
    "scheduling": "Callbacks",
    "timers": "Timers",
    "tasks": "Tasks",
    "sockets": "Sockets without transports",
    "network": "Servers",
    "connections": "Connections",
    "processes": "Processes, loops, threads",
    "footprint": "Memory and idling",
    "front_ends": "Front ends",
    "serving": "ASGI servers",
    "erlang": "Calls between Erlang and Python",
}


def case(
    name: str,
    *,
    group: str,
    unit: str,
    kind: str = "loop",
    less_is_better: bool = False,
    contenders: tuple[str, ...] = LOOPS,
    bare: BareCase | None = None,
    checked: bool = False,
    counts: bool = True,
    full_only: bool = False,
) -> Callable[[Any], Any]:
    """Registers the function below it."""

    def register(function: Any) -> Any:
        what = (function.__doc__ or "").strip().splitlines()[0]
        add(
            Case(
                name, group, unit, what, function, kind, less_is_better,
                contenders, bare, checked, counts, full_only,
            )
        )  # fmt: skip
        return function

    return register


def add(case: Case) -> None:
    if case.name in CASES or case.group not in GROUPS:
        raise ValueError(f"{case.name} is there already, or there is no group {case.group}")
    CASES[case.name] = case
