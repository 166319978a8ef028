"""Do signals reach the loops that want them, and no others?"""

from __future__ import annotations

import asyncio
import contextvars
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import erlang_loop
import pytest
from command import PATIENCE, ROOT, environment, not_ignored
from erlang_loop import ErlangEventLoop

BY_ERLANG = [
    signal.SIGHUP,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGCHLD,
    signal.SIGQUIT,
    signal.SIGTSTP,
]
#: OTP has no name for these, or not in every release; Python's own handler brings them.
BY_PYTHON = [signal.SIGINT, signal.SIGPROF, signal.SIGURG, signal.SIGRTMIN + 5]


@pytest.fixture
def loop() -> Iterator[ErlangEventLoop]:
    # asyncio, too, gives a signal its default effect when its handler is removed.
    with not_ignored(BY_ERLANG):
        loop = erlang_loop.new_event_loop()
        before = caught()
        yield loop
        loop.close()
        # Every signal does again what it did before.
        assert caught() == before


def caught() -> dict[str, int]:
    """What the process does with signals: those it handles, and those it ignores.

    Without the real-time signals that no test sends: the watchdog handles one of them once it has
    reported a loop, as it does where a busy machine keeps one waiting.
    """
    tested = (1 << max(BY_PYTHON)) - 1
    lines = Path("/proc/self/status").read_text().splitlines()
    masks = dict(line.split() for line in lines if line.startswith(("SigCgt", "SigIgn")))
    return {name: int(mask, 16) & tested for name, mask in masks.items()}


def send(number: int) -> None:
    os.kill(os.getpid(), number)


def wait(loop: asyncio.AbstractEventLoop, future: asyncio.Future[object]) -> object:
    return loop.run_until_complete(asyncio.wait_for(future, PATIENCE))


@pytest.mark.parametrize("number", [*BY_ERLANG, *BY_PYTHON], ids=str)
def test_handler_is_called_in_the_loop(loop: ErlangEventLoop, number: int) -> None:
    called = loop.create_future()

    def handler(*args: object) -> None:
        called.set_result((args, asyncio.get_running_loop()))

    loop.add_signal_handler(number, handler, "a", 1)
    loop.call_soon(send, number)
    assert wait(loop, called) == (("a", 1), loop)
    assert loop.remove_signal_handler(number) is True
    assert loop.remove_signal_handler(number) is False


def test_parked_loop_is_woken_by_a_signal(loop: ErlangEventLoop) -> None:
    """The loop is parked in the VM when the signal comes, with nothing else to wake it."""
    loop.add_signal_handler(signal.SIGUSR1, loop.stop)
    parked = loop._counters()["parks"]

    def send_when_parked() -> None:
        while loop._counters()["parks"] == parked:
            pass
        send(signal.SIGUSR1)

    thread = threading.Thread(target=send_when_parked)
    thread.start()
    loop.run_forever()
    thread.join()


def test_signal_before_the_loop_runs_is_not_lost(loop: ErlangEventLoop) -> None:
    for number in (signal.SIGUSR1, signal.SIGINT):
        called = loop.create_future()
        loop.add_signal_handler(number, called.set_result, number)
        send(number)
        assert wait(loop, called) == number


def test_every_one_of_many_signals_is_seen(loop: ErlangEventLoop) -> None:
    """Each is sent after the one before was handled: none may be lost on any of the ways."""
    left = 300

    def handler() -> None:
        nonlocal left
        left -= 1
        if left:
            send(signal.SIGUSR2)
        else:
            loop.stop()

    loop.add_signal_handler(signal.SIGUSR2, handler)
    loop.call_soon(send, signal.SIGUSR2)
    loop.call_later(PATIENCE, loop.stop)
    loop.run_forever()
    assert left == 0


def test_new_handler_replaces_the_old(loop: ErlangEventLoop) -> None:
    called = loop.create_future()
    loop.add_signal_handler(signal.SIGHUP, called.set_result, "old")
    loop.add_signal_handler(signal.SIGHUP, called.set_result, "new")
    send(signal.SIGHUP)
    assert wait(loop, called) == "new"


def test_handler_runs_in_the_context_it_was_added_in(loop: ErlangEventLoop) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")
    called = loop.create_future()

    def add() -> None:
        variable.set("added")
        loop.add_signal_handler(signal.SIGHUP, lambda: called.set_result(variable.get()))

    contextvars.copy_context().run(add)
    send(signal.SIGHUP)
    assert wait(loop, called) == "added"


def test_error_of_a_handler_goes_to_the_exception_handler(loop: ErlangEventLoop) -> None:
    seen = loop.create_future()
    loop.set_exception_handler(lambda _loop, context: seen.set_result(context["exception"]))
    loop.add_signal_handler(signal.SIGHUP, lambda: 1 / 0)
    send(signal.SIGHUP)
    assert isinstance(wait(loop, seen), ZeroDivisionError)


def test_closed_loop_has_no_handlers() -> None:
    before = caught()
    loop = erlang_loop.new_event_loop()
    loop.add_signal_handler(signal.SIGUSR1, print)
    loop.add_signal_handler(signal.SIGINT, print)
    assert caught() != before
    loop.close()
    assert caught() == before
    with pytest.raises(RuntimeError, match="Event loop is closed"):
        loop.add_signal_handler(signal.SIGUSR1, print)


@pytest.mark.parametrize("isolated", [False, True])
def test_loops_of_several_threads_receive_one_signal(isolated: bool) -> None:
    """asyncio has this in the main thread only, and for one loop."""
    count = 3
    ready = threading.Barrier(count + 1)
    heard: list[int] = []

    def run(index: int) -> None:
        loop = ErlangEventLoop(isolated=isolated)

        def handler() -> None:
            heard.append(index)
            loop.stop()

        loop.add_signal_handler(signal.SIGUSR1, handler)
        loop.call_soon(ready.wait)
        loop.run_forever()
        loop.close()

    before = caught()
    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    ready.wait()
    send(signal.SIGUSR1)
    for thread in threads:
        thread.join()
    assert sorted(heard) == list(range(count))
    assert caught() == before


def test_last_of_two_loops_restores_the_signal(loop: ErlangEventLoop) -> None:
    other = erlang_loop.new_event_loop()
    before = caught()
    other.add_signal_handler(signal.SIGUSR2, print)
    called = loop.create_future()
    loop.add_signal_handler(signal.SIGUSR2, called.set_result, "still")
    other.close()
    assert caught() != before
    send(signal.SIGUSR2)
    assert wait(loop, called) == "still"
    loop.remove_signal_handler(signal.SIGUSR2)
    assert caught() == before


def test_getsignal_shows_the_handler_of_the_loop(loop: ErlangEventLoop) -> None:
    """As on asyncio. A program that handled SIGTERM in its loop, and served with uvicorn meanwhile,
    was ended by it: uvicorn sets its own handler, then restores the one that
    `signal.getsignal` returned, which was the default, and sends itself the signal again.
    """
    told: list[str] = []
    loop.add_signal_handler(signal.SIGTERM, told.append, "loop")
    before = signal.getsignal(signal.SIGTERM)
    assert before is not signal.SIG_DFL
    signal.signal(signal.SIGTERM, lambda *_: told.append("server"))
    send(signal.SIGTERM)
    loop.run_until_complete(asyncio.sleep(0.01))
    assert sorted(told) == ["loop", "server"]
    signal.signal(signal.SIGTERM, before)
    send(signal.SIGTERM)
    loop.run_until_complete(asyncio.sleep(0.01))
    assert sorted(told) == ["loop", "loop", "server"]
    loop.remove_signal_handler(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize("main_first", [True, False])
def test_loops_of_the_main_and_another_thread_receive_one_signal(
    loop: ErlangEventLoop, main_first: bool
) -> None:
    """Python delivers it to the first, Erlang to the second: both must get it."""
    heard: list[str] = []
    ready = threading.Event()
    other = erlang_loop.new_event_loop()

    def run() -> None:
        other.add_signal_handler(signal.SIGUSR1, lambda: (heard.append("other"), other.stop()))
        other.call_soon(ready.set)
        other.run_forever()
        other.close()

    called = loop.create_future()
    if main_first:
        loop.add_signal_handler(signal.SIGUSR1, called.set_result, "main")
    thread = threading.Thread(target=run)
    thread.start()
    ready.wait()
    if not main_first:
        loop.add_signal_handler(signal.SIGUSR1, called.set_result, "main")
    send(signal.SIGUSR1)
    assert wait(loop, called) == "main"
    thread.join()
    assert heard == ["other"]
    loop.remove_signal_handler(signal.SIGUSR1)


def refused(loop: ErlangEventLoop, add: Callable[[], None], error: type, text: str) -> None:
    """Ours refuses as asyncio does, and nothing has changed."""
    before = caught()
    with pytest.raises(error, match=text):
        add()
    assert caught() == before
    assert not loop._signal_handlers


def test_what_cannot_be_handled_is_refused(loop: ErlangEventLoop) -> None:
    async def coroutine() -> None: ...

    add = loop.add_signal_handler
    refused(loop, lambda: add("SIGHUP", print), TypeError, "sig must be an int, not 'SIGHUP'")
    refused(loop, lambda: add(0, print), ValueError, "invalid signal number 0")
    refused(loop, lambda: add(65, print), ValueError, "invalid signal number 65")
    refused(loop, lambda: add(-1, print), ValueError, "invalid signal number -1")
    refused(loop, lambda: add(signal.SIGKILL, print), RuntimeError, "sig 9 cannot be caught")
    refused(loop, lambda: add(signal.SIGSTOP, print), RuntimeError, "sig 19 cannot be caught")
    refused(loop, lambda: add(signal.SIGHUP, coroutine), TypeError, "coroutines cannot be used")
    with pytest.raises(TypeError, match="sig must be an int"):
        loop.remove_signal_handler("SIGHUP")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="invalid signal number 99"):
        loop.remove_signal_handler(99)


def test_pythons_signals_need_the_main_thread() -> None:
    errors: list[str] = []

    def run() -> None:
        loop = erlang_loop.new_event_loop()
        try:
            loop.add_signal_handler(signal.SIGINT, print)
        except RuntimeError as error:
            errors.append(str(error))
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert "main thread" in errors[0]


def test_other_users_of_the_wakeup_fd_get_it_back(loop: ErlangEventLoop) -> None:
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer)
    try:
        loop.run_until_complete(asyncio.sleep(0))
    finally:
        assert signal.set_wakeup_fd(-1) == writer
        os.close(reader)
        os.close(writer)


def test_a_wakeup_fd_that_was_closed_meanwhile_is_not_restored(loop: ErlangEventLoop) -> None:
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer)

    async def close() -> None:
        os.close(writer)

    loop.run_until_complete(close())
    assert signal.set_wakeup_fd(-1) == -1
    os.close(reader)


def test_a_wakeup_fd_set_while_the_loop_runs_stays(loop: ErlangEventLoop) -> None:
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    async def replace() -> None:
        signal.set_wakeup_fd(writer)

    loop.run_until_complete(replace())
    assert signal.set_wakeup_fd(-1) == writer
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("remove_in_loop", [True, False])
def test_a_loop_with_handlers_leaves_no_wakeup_fd_behind(remove_in_loop: bool) -> None:
    """Python would write signals into whatever has the number of the closed file next."""
    loop = erlang_loop.new_event_loop()
    loop.add_signal_handler(signal.SIGINT, print)

    async def serve() -> None:
        if remove_in_loop:
            loop.remove_signal_handler(signal.SIGINT)

    loop.run_until_complete(serve())
    loop.close()
    assert signal.set_wakeup_fd(-1) == -1
    erlang_loop.run(asyncio.sleep(0))


def test_a_handler_of_a_loop_that_waits_is_kept_for_it(loop: ErlangEventLoop) -> None:
    """While another loop runs in the main thread."""
    told: list[int] = []
    other = erlang_loop.new_event_loop()
    other.add_signal_handler(signal.SIGINT, told.append, signal.SIGINT)

    async def interrupt() -> None:
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(0.01)

    loop.run_until_complete(interrupt())
    assert told == []
    other.run_until_complete(asyncio.sleep(0.01))
    assert told == [signal.SIGINT]
    other.close()
    assert signal.set_wakeup_fd(-1) == -1


def test_closing_another_loop_keeps_this_ones_handler(loop: ErlangEventLoop) -> None:
    told: list[int] = []
    other = erlang_loop.new_event_loop()
    other.add_signal_handler(signal.SIGINT, print)

    async def interrupt() -> None:
        loop.add_signal_handler(signal.SIGINT, told.append, signal.SIGINT)
        other.close()
        loop.add_signal_handler(signal.SIGINT, told.append, signal.SIGINT)
        signal.signal(signal.SIGINT, lambda *_: None)
        signal.raise_signal(signal.SIGINT)
        while not told:
            await asyncio.sleep(0.001)

    loop.run_until_complete(asyncio.wait_for(interrupt(), 10))


# In an ordinary node, whose signals belong to the VM


def node(tmp_path: Path, program: str, erlang: str = "") -> subprocess.CompletedProcess[str]:
    """Starts a node, runs `erlang` and then `program` on Python's main thread."""
    script = tmp_path / "program.py"
    script.write_text(program)
    code = f"""
        {{ok, _}} = application:ensure_all_started(erlang_loop),
        {erlang}
        case py_interpreter:run(<<"runpy">>, <<"run_path">>, [<<"{script}">>]) of
            % What Python printed is with the group leader: an empty request waits for its turn.
            {{ok, _}} -> io:put_chars(""), halt(0);
            {{error, Text}} -> io:put_chars(standard_error, Text), halt(1)
        end.
    """
    ebin = next(
        folder
        for folder in (ROOT / "_build" / "default" / "lib" / "erlang_loop" / "ebin", ROOT / "ebin")
        if folder.exists()
    )
    return subprocess.run(
        ["erl", "-noshell", "-noinput", "-pa", str(ebin), "-eval", code],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=environment(ERL_CRASH_DUMP_SECONDS="0"),
    )


PREAMBLE = """
import asyncio, os, signal, sys, time
import erlang_loop
async def hear(number):
    loop = asyncio.get_running_loop()
    heard = loop.create_future()
    loop.add_signal_handler(number, heard.set_result, number)
    os.kill(os.getpid(), number)
    await heard
    print("heard", int(number), flush=True)
    loop.remove_signal_handler(number)
"""


def test_node_with_a_handler_is_not_stopped_by_sigterm(tmp_path: Path) -> None:
    program = f"""{PREAMBLE}
erlang_loop.run(hear(signal.SIGTERM))
erlang_loop.run(hear(signal.SIGUSR1))
"""
    ended = node(tmp_path, program)
    assert (ended.returncode, ended.stdout) == (0, "heard 15\nheard 10\n"), ended.stderr


def test_node_without_a_handler_is_stopped_by_sigterm(tmp_path: Path) -> None:
    """Also when there was a handler before: OTP's own is back."""
    program = f"""{PREAMBLE}
erlang_loop.run(hear(signal.SIGTERM))
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(1000)
"""
    ended = node(tmp_path, program)
    assert (ended.returncode, ended.stdout.splitlines()[0]) == (0, "heard 15"), ended.stderr


def test_otp_still_handles_what_no_loop_wants(tmp_path: Path) -> None:
    """A loop handles SIGHUP; SIGTERM stops the node nevertheless."""
    program = f"""{PREAMBLE}
loop = erlang_loop.new_event_loop()
loop.add_signal_handler(signal.SIGHUP, print)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(1000)
"""
    assert node(tmp_path, program).returncode == 0


def test_handler_of_the_nodes_owner_stays(tmp_path: Path) -> None:
    """A program has replaced OTP's handler: it still gets signals, and stays when we go."""
    program = f"""{PREAMBLE}
erlang_loop.run(hear(signal.SIGTERM))
"""
    erlang = """
        ok = gen_event:delete_handler(erl_signal_server, erl_signal_handler, gone),
    """
    ended = node(tmp_path, program, erlang)
    assert (ended.returncode, ended.stdout) == (0, "heard 15\n"), ended.stderr


def test_vm_keeps_ctrl_c(tmp_path: Path) -> None:
    program = f"""{PREAMBLE}
loop = erlang_loop.new_event_loop()
try:
    loop.add_signal_handler(signal.SIGINT, print)
except RuntimeError as error:
    print(error)
loop.close()
"""
    ended = node(tmp_path, program)
    assert ended.stdout == (
        "SIGINT belongs to the Erlang VM, which does not pass it to Python: "
        "run the program with bin/erlang-loop\n"
    ), ended.stderr


def test_signals_survive_a_restart_of_py_signals(tmp_path: Path) -> None:
    """The process is killed 25 times: what loops want is not kept there."""
    program = f"""{PREAMBLE}
async def main():
    loop = asyncio.get_running_loop()
    for _ in range(200):
        heard = loop.create_future()
        loop.add_signal_handler(signal.SIGUSR2, heard.set_result, None)
        os.kill(os.getpid(), signal.SIGUSR2)
        await heard
        loop.remove_signal_handler(signal.SIGUSR2)
        await asyncio.sleep(0.001)
print(erlang_loop.run(main()))
"""
    erlang = """
        Kill = fun Kill(0) ->
            ok;
        Kill(Left) ->
            case whereis(py_signals) of
                undefined -> ok;
                Pid -> exit(Pid, kill)
            end,
            timer:sleep(20),
            Kill(Left - 1)
        end,
        spawn(fun() -> Kill(25) end),
    """
    ended = node(tmp_path, program, erlang)
    # What Erlang logs of the killed process comes first.
    assert (ended.returncode, ended.stdout.splitlines()[-1]) == (0, "None"), ended.stderr


def test_stopped_application_has_no_signals(tmp_path: Path) -> None:
    program = f"""{PREAMBLE}
loop = erlang_loop.new_event_loop()
try:
    loop.add_signal_handler(signal.SIGHUP, print)
except RuntimeError as error:
    print(error)
"""
    script = tmp_path / "program.py"
    erlang = f"""
        ok = py_interpreter:ensure_started(),
        ok = application:stop(erlang_loop),
        ok = py_nif:python_main(1, <<"runpy">>, <<"run_path">>, [<<"{script}">>]),
        receive {{py_main, 1, Result}} -> io:format("~p~n", [element(1, Result)]), halt(0) end,
    """
    ended = node(tmp_path, program, erlang)
    assert ended.stdout.endswith(
        "signals reach a loop while the erlang_loop application runs, and it does not\nok\n"
    ), ended.stderr
