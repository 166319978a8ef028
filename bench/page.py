"""Writes README.md: every figure of a run, including the bad and the missing ones."""

# ruff: noqa: RUF001  the dash for no figure, and the sign for times

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from bench import machine
from bench.contenders import BARE, OURS
from bench.registry import CASES, GROUPS, LONGER, LONGER_GROUPS, LOOPS, Case
from bench.rounds import Results
from bench.store import Run
from bench.summary import (
    Ratio,
    cost_ratio,
    failure,
    mean_cost_ratio,
    mean_ratio,
    median,
    median_of,
    ratio,
    ratios,
    samples,
)

OTHERS = tuple(loop for loop in LOOPS if loop != OURS)
PLOT = "ratios.svg"
LONGEST_REASON = 200
#: Groups whose contenders are loops.
LOOP_GROUPS = [group for group in GROUPS if group not in ("front_ends", "serving", "erlang")]
FRONT_ENDS = (
    "`callbacks` and `generators` are `erlang_loop.callbacks` and `erlang_loop.generators`; "
    "`epoll_` is a minimal equivalent in plain Python, on `select.epoll`. Requests/s."
)
SERVERS = (
    "One worker each. uvicorn parses with httptools if that is installed, otherwise with h11. "
    "granian's CPU time includes its own threads. Requests/s."
)

HOW = """\
Each sample runs in its own process. Within a round the loops take turns at each case, starting
with a different loop in each round. erlang_loop runs in a node (`bin/erlang-loop`), the others
in the plain interpreter of the same Python, as their users run them. Figures are medians over
the rounds. The columns with × say how many times better erlang_loop is: the median of the
ratios within each round, with `?` if the rounds disagree about which loop is better. ↓ marks
cases in which less is better. Every case checks the replies it gets, and counts only correct
ones.

The client is a native single-threaded program on epoll, in a process of its own (TLS: a Python
program). `bare` is an echo server in Rust without any loop: the limit of this machine. CPU is
that of the server's whole process, in a node including the VM's threads. Some loops read each
message into a new object of 256 KiB. Whether that is fast depends on what the process has
allocated and freed before: all start in the state in which it is fast."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right_from: int = 1) -> list[str]:
    rule = ["---:" if column >= right_from else "---" for column in range(len(head))]
    return ["| " + " | ".join(cells) + " |" for cells in (head, rule, *rows)]


def figure(value: float | None) -> str:
    if value is None:
        return "–"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def times(value: Ratio | None) -> str:
    if value is None:
        return "–"
    return f"{value.value:.2f}{'' if value.certain else '?'}"


def cell(results: Results, case: Case, contender: str) -> str:
    found = failure(results, case.name, contender)
    if found is not None:
        return "n/a" if found.unavailable else "FAILS"
    return figure(median(results, case.name, contender))


def unit(case: Case) -> str:
    return case.unit + (" ↓" if case.less_is_better else "")


def measured(results: Results, group: str) -> list[Case]:
    return [case for case in CASES.values() if case.group == group and case.name in results.samples]


def write(run: Run) -> str:
    """The page's text."""
    results = run.results
    lines = ["# Benchmarks", "", _opening(run), ""]
    lines += table(("", ""), machine.describe(), right_from=2)
    lines += ["", *_in_short(results), "", f"![Times better than the other loops]({PLOT})", ""]
    lines += ["## How it was measured", "", HOW, ""]
    for group in LOOP_GROUPS:
        lines += _loops(results, group)
    lines += _early(results)
    lines += _cpu(results)
    lines += _named(results, "front_ends", FRONT_ENDS)
    lines += _named(results, "serving", SERVERS)
    lines += _erlang(results)
    lines += _native(run.native)
    lines += _what(results)
    lines += _missing(results)
    return "\n".join(lines).rstrip("\n") + "\n"


def _opening(run: Run) -> str:
    results, plan = run.results, run.plan
    seconds = f"{plan.budget.seconds:g} s"
    text = f"Written by `{run.command}`: {plan.rounds} rounds of {seconds} per case."
    longer = ", ".join(f'"{GROUPS[group]}"' for group in LONGER_GROUPS)
    text += f" Samples of {longer} take {LONGER} times as long."
    if plan.budget.scale != 1:
        text += f" Sizes are {plan.budget.scale:g} of the full ones: the figures are meaningless."
    if results.foreign:
        share = statistics.median(results.foreign)
        text += f" Meanwhile other programs used {share:.0%} of the machine's CPU time (median)."
    if plan.in_node:
        text += " All loops ran in a node."
    return text


def _in_short(results: Results) -> list[str]:
    names = [case.name for group in LOOP_GROUPS for case in measured(results, group)]
    rows = []
    for other in OTHERS:
        mean = mean_ratio(results, other, names)
        if mean is None:
            continue
        found = ratios(results, other, names)
        below = [
            f"{name} {times(one)}{_less_cpu(results, name, other)}"
            for name, one in sorted(found.items(), key=lambda item: item[1].value)
            if one.value < 1 and CASES[name].counts
        ]
        counted = sum(CASES[name].counts for name in found)
        cost = mean_cost_ratio(results, other, names)
        less = "–" if cost is None else f"{cost:.2f}"
        rows.append((other, f"{mean:.2f}", less, str(counted), ", ".join(below) or "none"))
    if not rows:
        return []
    head = ("all cases, against", "times better", "times less CPU", "cases", "cases below 1")
    text = (
        "Geometric means over the cases of each group, over all cases, and over those whose CPU "
        "time was measured. In brackets: how many times less CPU time the case took. A rate does "
        "not show that if the client is as busy as the server."
    )
    groups = ("times better than", *OTHERS, "cases")
    return [
        *("## In short", "", text, ""),
        *table(groups, _means_of_groups(results)),
        *("", *table(head, rows)),
    ]


def _means_of_groups(results: Results) -> list[tuple[str, ...]]:
    rows = []
    for group in LOOP_GROUPS:
        names = [case.name for case in measured(results, group) if case.counts]
        means = [mean_ratio(results, other, names) for other in OTHERS]
        if any(mean is not None for mean in means):
            cells = ["–" if mean is None else f"{mean:.2f}" for mean in means]
            rows.append((GROUPS[group], *cells, str(len(names))))
    return rows


def _less_cpu(results: Results, name: str, other: str) -> str:
    if not median_of(results, name, OURS, "cpu_us"):
        return ""
    cost = cost_ratio(results, CASES[name], other)
    return "" if cost is None else f" ({cost:.2f})"


def _loops(results: Results, group: str) -> list[str]:
    cases = measured(results, group)
    if not cases:
        return []
    bare = any(samples(results, case.name, BARE) for case in cases)
    columns = [*LOOPS, *([BARE] if bare else [])]
    rows = [
        [
            case.name,
            unit(case),
            *(cell(results, case, name) for name in columns),
            *(times(ratio(results, case, other)) for other in OTHERS),
        ]
        for case in cases
    ]
    names = [case.name for case in cases]
    means = [mean_ratio(results, other, names) for other in OTHERS]
    if len(cases) > 1:
        means_cells = ["–" if mean is None else f"**{mean:.2f}**" for mean in means]
        rows.append(["geometric mean", "", *("" for _ in columns), *means_cells])
    head = ("case", "unit", *columns, *(f"× {other}" for other in OTHERS))
    return [f"## {GROUPS[group]}", "", *table(head, rows, right_from=2), ""]


def _early(results: Results) -> list[str]:
    """Timers that ran too early, in any round."""
    rows = []
    for case in measured(results, "timers"):
        most = [_most_early(results, case, name) for name in LOOPS]
        if any(value is not None for value in most):
            rows.append([case.name, *("–" if value is None else f"{value:.0f}" for value in most)])
    if not rows:
        return []
    text = "The largest number of microseconds a timer was early; asyncio allows none to be early."
    return ["## Early timers", "", text, "", *table(("case", *LOOPS), rows), ""]


def _most_early(results: Results, case: Case, contender: str) -> float | None:
    found = [sample.more.get("early_us") for sample in samples(results, case.name, contender)]
    return max((value for value in found if value is not None), default=None)


def _cpu(results: Results) -> list[str]:
    columns = (*LOOPS, BARE)
    rows = []
    for group in LOOP_GROUPS:
        for case in measured(results, group):
            used = [median_of(results, case.name, name, "cpu_us") for name in columns]
            if not any(used):
                continue
            tails = [median_of(results, case.name, name, "p99_us") for name in columns]
            ours, bare = used[LOOPS.index(OURS)], used[-1]
            of_bare = f"{ours / bare:.2f}" if ours and bare else "–"
            busy = median_of(results, case.name, OURS, "client_busy")
            client = "–" if busy is None else f"{busy:.0%}"
            rows.append([case.name, *map(figure, used), of_bare, *map(figure, tails), client])
    if not rows:
        return []
    head = (
        "case",
        *(f"CPU {name}" for name in columns),
        f"{OURS} / {BARE}",
        *(f"p99 {name}" for name in columns),
        "client",
    )
    return [
        "## CPU and latency",
        "",
        "Microseconds of CPU time per operation or request, and the 99th percentile of the latency "
        f"in microseconds. `client` is how busy the client was with {OURS}: below 100 % it did not "
        "limit the rate.",
        "",
        *table(head, rows),
        "",
    ]


def _named(results: Results, group: str, text: str) -> list[str]:
    """Contenders that are programs, not loops."""
    cases = measured(results, group)
    if not cases:
        return []
    columns = [name for name in cases[0].contenders if name in results.samples[cases[0].name]]
    rows = [[case.what, *(cell(results, case, name) for name in columns)] for case in cases]
    cpu = [
        [
            f"CPU us per request, {case.name}",
            *(figure(median_of(results, case.name, name, "cpu_us")) for name in columns),
        ]
        for case in cases
    ]
    return [
        f"## {GROUPS[group]}",
        "",
        text,
        "",
        *table(("case", *columns), [*rows, *cpu]),
        "",
    ]


def _erlang(results: Results) -> list[str]:
    cases = measured(results, "erlang")
    if not cases:
        return []
    rows = [
        [
            case.name,
            case.what,
            unit(case),
            cell(results, case, OURS),
            cell(results, case, BARE) if case.bare else "–",
            *(
                figure(median_of(results, case.name, OURS, name))
                for name in ("p50_us", "p99_us", "cpu_us")
            ),
        ]
        for case in cases
    ]
    head = ("case", "what", "unit", "median", "bare", "p50 us", "p99 us", "CPU us per call")
    text = (
        "`py`: in a node with default flags; each caller is a process that waits for its reply. "
        "`erlang`: tasks and threads of a Python program in a node (`bin/erlang-loop`)."
    )
    return [f"## {GROUPS['erlang']}", "", text, "", *table(head, rows, right_from=3), ""]


def _native(native: dict[str, float]) -> list[str]:
    if not native:
        return []
    rows = [(name, figure(value)) for name, value in sorted(native.items())]
    return [
        "## The core",
        "",
        "Nanoseconds per operation of `native/event_loop`, measured by criterion "
        "(`cargo bench --package event_loop --bench core`).",
        "",
        *table(("operation", "ns"), rows),
        "",
    ]


def _what(results: Results) -> list[str]:
    rows = [(case.name, case.what) for group in LOOP_GROUPS for case in measured(results, group)]
    return ["## The cases", "", *table(("case", "what happens"), rows, right_from=2), ""]


def _missing(results: Results) -> list[str]:
    rows = []
    for name, by_contender in results.samples.items():
        for contender in by_contender:
            found = failure(results, name, contender)
            if found is not None:
                reason = found.reason[:LONGEST_REASON].replace("|", "\\|")
                rows.append((name, contender, "n/a" if found.unavailable else "FAILS", reason))
    if not rows:
        return []
    head = ("case", "contender", "", "why")
    return ["## Not measured", "", *table(head, rows, right_from=4), ""]
