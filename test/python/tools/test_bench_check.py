"""Is a loss of speed noticed? The comparing of `make bench-check`, with made-up samples."""

from __future__ import annotations

import json
import os
import sys
from xml.etree import ElementTree

import pytest

import bench.cases  # noqa: F401  fills the registry
from bench import baseline, checking, counting, machine, page, plot, steps, store, summary
from bench.baseline import Baseline
from bench.registry import CASES, Budget, Sample
from bench.rounds import Failure, Plan, Results, run_sample

PLAN = Plan(rounds=3, budget=Budget(0.1), contenders=checking.CONTENDERS)


def results(ours: list[float], theirs: list[float], case: str = "call_soon_chain") -> Results:
    found = Results()
    for value in ours:
        found.add(case, "erlang_loop", Sample(value))
    for value in theirs:
        found.add(case, "uvloop", Sample(value))
    return found


def test_same_speed_is_no_loss():
    expected = {"call_soon_chain": {"uvloop": 2.0}}
    assert baseline.lost_ratios(expected, results([200, 210, 190], [100, 100, 100])) == []
    assert baseline.lost_ratios(expected, results([181], [100])) == []
    assert baseline.lost_instructions(Baseline({}, {"push": 100}), {"push": 110}) == []


def test_doctored_baseline_fails():
    measured = results([200, 210, 190], [100, 100, 100])
    (loss,) = baseline.lost_ratios({"call_soon_chain": {"uvloop": 2.3}}, measured)
    assert loss.text == "call_soon_chain: 2.00 times uvloop, was 2.30"
    (loss,) = baseline.lost_instructions(Baseline({}, {"push": 90}), {"push": 100})
    assert loss.text == "push: 100 instructions, were 90"


def test_cpu_time_counts_where_it_is_known():
    """As fast as before, but only because the machine had nothing else to do."""
    expected = {"call_soon_chain": {"uvloop": 2.0}}
    measured = Results()
    measured.add("call_soon_chain", "erlang_loop", Sample(200, cpu_us=10))
    measured.add("call_soon_chain", "uvloop", Sample(100, cpu_us=10))
    (loss,) = baseline.lost_ratios(expected, measured)
    assert loss.text == "call_soon_chain: 1.00 times uvloop, was 2.00"


def test_one_lucky_sample_of_a_rival_is_no_loss():
    """Ours is as fast as it was, and only uvloop has a good day; then ours is slower, too."""
    expected = {"call_soon_chain": {"uvloop": 2.0, "asyncio": 4.0}}
    for ours, texts in (
        (200, []),
        (180, ["call_soon_chain: 1.50 times uvloop, was 2.00; 3.60 times asyncio, was 4.00"]),
    ):
        measured = results([ours], [120])
        measured.add("call_soon_chain", "asyncio", Sample(50))
        assert [loss.text for loss in baseline.lost_ratios(expected, measured)] == texts


def test_less_is_better_turns_the_ratio_round():
    expected = {"memory_timer": {"uvloop": 2.0}}
    assert baseline.lost_ratios(expected, results([50], [100], "memory_timer")) == []
    assert len(baseline.lost_ratios(expected, results([100], [100], "memory_timer"))) == 1


def test_case_that_fails_now_is_lost():
    expected = {"call_soon_chain": {"uvloop": 2.0}}
    measured = results([], [100])
    measured.add("call_soon_chain", "erlang_loop", Failure("it hung"))
    (loss,) = baseline.lost_ratios(expected, measured)
    assert "it hung" in loss.text


def test_absent_rival_is_no_loss():
    expected = {"call_soon_chain": {"uvloop": 2.0}}
    measured = results([100], [])
    measured.add("call_soon_chain", "uvloop", Failure("not installed", unavailable=True))
    assert baseline.lost_ratios(expected, measured) == []


def test_suspect_is_measured_again(monkeypatch):
    """One slow moment is not a loss; a slow case is."""
    expected = {"call_soon_chain": {"uvloop": 2.0}}
    case = CASES["call_soon_chain"]
    for later, lost in ((200.0, 0), (100.0, 1)):
        looks = iter([[100.0], [later] * 3, [later] * 3, [later] * 3])

        def take(_cases, _plan, _tell, so_far=None, looks=looks):
            found = so_far or Results()
            for value in next(looks):
                found.add("call_soon_chain", "erlang_loop", Sample(value))
                found.add("call_soon_chain", "uvloop", Sample(100))
            return found

        monkeypatch.setattr(checking, "take", take)
        said = []
        losses = checking.lost_after_second_looks(expected, [case], PLAN, said.append)
        assert len(losses) == lost
        assert said[0] == "again: call_soon_chain"


def test_processors_have_ratios_of_their_own():
    """Of one that was not measured as much is expected as all others reach."""
    fast = {"call_soon_chain": {"uvloop": 5.0, "asyncio": 9.0}}
    slow = {"call_soon_chain": {"uvloop": 4.0, "asyncio": 10.0}, "gather_100": {"uvloop": 1.1}}
    known = Baseline({"fast": fast}, {"push": 2}).including(
        Baseline({"slow": slow, "fast": {}}, {"push": 1})
    )
    assert known.instructions == {"push": 2}
    assert known.expected_on("fast") == fast
    assert known.expected_on("slow") == slow
    assert known.expected_on("new") == {
        "call_soon_chain": {"uvloop": 4.0, "asyncio": 9.0},
        "gather_100": {"uvloop": 1.1},
    }


def test_check_says_if_the_processor_has_no_baseline(monkeypatch):
    known = Baseline({"another": {"call_soon_chain": {"uvloop": 2.0}}}, {})
    monkeypatch.setattr(checking, "counted", lambda _tell: {})
    monkeypatch.setattr(checking, "take", lambda *_: results([100], [100]))
    for name, new in (("another", False), ("unknown", True)):
        monkeypatch.setattr(machine, "processor", lambda name=name: name)
        said = []
        assert len(checking.check(known, [CASES["call_soon_chain"]], PLAN, said.append)) == 1
        assert any(name in line and "no baseline" in line for line in said) is new


def test_counts_of_another_compiler_are_not_compared(monkeypatch):
    known = Baseline({machine.processor(): {}}, {"push": 1}, compiler="another one")
    monkeypatch.setattr(checking, "counted", lambda _tell: {"push": 1000})
    said = []
    assert checking.check(known, [], PLAN, said.append) == []
    assert said == ["instructions are not compared: the baseline is of another one"]
    monkeypatch.setattr(baseline, "compiler", lambda: "another one")
    assert len(checking.check(known, [], PLAN, said.append)) == 1


def test_baseline_file(tmp_path):
    path = tmp_path / "baseline.json"
    written = baseline.here({"call_soon_chain": {"uvloop": 2.0}}, {"push": 1})
    baseline.write(written, path)
    assert baseline.read(path) == written
    assert set(json.loads(path.read_text())["ratios"]) == {machine.processor()}


def test_committed_baseline_can_be_read():
    known = baseline.read()
    checked = {case.name for case in CASES.values() if case.checked}
    assert all(set(ratios) == checked for ratios in known.ratios.values())
    assert set(known.measured_on) == set(known.ratios) != set()
    assert known.instructions


def test_counts_are_read():
    assert counting.read_callgrind("==1== \n==1== Collected : 104349767\n==1== \n") == 104349767
    with pytest.raises(counting.NotCounted):
        counting.read_callgrind("valgrind: cannot run")


def test_steps_are_counted():
    """Three times the work is three times as many, but for a few by which runs differ."""
    program = (
        "import sys, threading; from bench import steps\n"
        "def work(n):\n"
        "    while n: n -= 1\n"
        "work(1000); print(threading.get_native_id(), flush=True); sys.stdin.readline()\n"
        "steps.mark(); work({}); steps.mark()"
    )

    def count(times):
        return steps.count([sys.executable, "-c", program.format(times)])

    none, some, more = count(1), count(81), count(241)
    assert more - none == pytest.approx(3 * (some - none), rel=0.02)
    assert more - none > 240 * 5


def test_a_program_that_is_not_counted_says_why():
    before = os.sched_getaffinity(0)
    for program, text in (("pass", "did not say"), ("print(2**30)", "No such process")):
        with pytest.raises(OSError, match=text):
            steps.count([sys.executable, "-c", program])
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize("mute", [True, False])
def test_a_program_without_a_mark_is_killed(mute):
    number = "0" if mute else "print(threading.get_native_id(), flush=True)"
    program = f"import threading; {number}; threading.Event().wait()"
    with pytest.raises(TimeoutError, match="no mark after 1 s"):
        steps.count([sys.executable, "-c", program], limit=1)


def test_ratio_is_of_each_round():
    """The machine was half as fast in the second round, and the ratio the same."""
    found = summary.ratio(results([200, 100], [100, 50]), CASES["call_soon_chain"], "uvloop")
    assert found == summary.Ratio(2.0, certain=True)
    found = summary.ratio(results([200, 40], [100, 50]), CASES["call_soon_chain"], "uvloop")
    assert found is not None
    assert not found.certain


def cells(lines: list[str], start: str, head: str) -> dict[str, str]:
    """The cells of a row by the heads of its columns."""
    names, values = (
        next(line for line in lines if line.startswith(f"| {text}")).strip("| ").split(" | ")
        for text in (head, start)
    )
    return dict(zip(names, values))


def test_page_names_what_is_missing():
    measured = results([200], [100])
    measured.add("call_soon_chain", "rloop", Failure("it | hung"))
    measured.add("call_soon_chain", "asyncio", Failure("not here", unavailable=True))
    text = page.write(store.Run(measured, PLAN, "make bench", {"push": 12.5}))
    lines = text.splitlines()
    found = cells(lines, "call_soon_chain | call", "case | unit")
    assert [found[name] for name in ("asyncio", "uvloop", "rloop", "erlang_loop")] == [
        *("n/a", "100", "FAILS", "200"),
    ]
    means = ["–", "2.00", "–"]  # noqa: RUF001
    assert [found[f"× {name}"] for name in ("asyncio", "uvloop", "rloop")] == means  # noqa: RUF001
    found = cells(lines, "Callbacks", "times better than")
    assert [found[name] for name in ("asyncio", "uvloop", "rloop")] == means
    assert "| call_soon_chain | rloop | FAILS | it \\| hung |" in text
    assert "| push | 12.5 |" in text


def test_plot_is_a_picture():
    picture = ElementTree.fromstring(plot.draw(results([200], [100]), list(CASES)))
    titles = [element.text for element in picture.iter() if element.tag.endswith("title")]
    assert titles == ["2.00"]
    ElementTree.fromstring(plot.draw(Results(), list(CASES)))


def test_samples_are_kept(tmp_path):
    measured = results([200], [100])
    measured.add("call_soon_chain", "rloop", Failure("it hung"))
    run = store.Run(measured, PLAN, "make bench", {"push": 12.5})
    store.save(run, tmp_path / "results.json")
    assert store.load(tmp_path / "results.json") == run


def test_sample_that_hangs_crashes_or_is_not_there():
    env = {"PATH": "/usr/bin:/bin"}
    assert run_sample(["sleep", "60"], 0.1, env) == Failure("not done after 0 s")
    crashed = run_sample(["sh", "-c", "echo oh >&2; kill -SEGV $$"], 10, env)
    assert crashed == Failure("ended with -11: oh")
    gone = run_sample(["no-such-program-anywhere"], 10, env)
    assert isinstance(gone, Failure)
    assert gone.unavailable
