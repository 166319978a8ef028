%% @doc Waits for what a loop reports; processes that wait for it.
-module(loop_events).

-export([await/2, keeper/1, waiting/1, answer/1, write_when_waiting/1]).

%% @doc Takes events from the loop until all of these have come, in any order; more may come.
-spec await(py_nif:loop_ref(), [py_nif:event()]) -> ok.
await(_Loop, []) ->
    ok;
await(Loop, Events) ->
    case py_nif:poll_events(Loop, 10_000) of
        Count when Count > 0 -> await(Loop, Events -- py_nif:get_pending(Loop));
        Nothing -> error({Nothing, still_expected, Events})
    end.

-spec keeper(py_nif:loop_ref()) -> pid() | undefined.
keeper(Loop) ->
    {ok, #{keeper := Keeper}} = py_nif:event_loop_info(Loop),
    Keeper.

%% @doc A process in `py_nif:poll_events/2'; returns when it waits. answer/1 has what it got.
-spec waiting(py_nif:loop_ref()) -> pid().
waiting(Loop) ->
    Self = self(),
    Pid = spawn_link(fun() -> Self ! {self(), py_nif:poll_events(Loop, infinity)} end),
    ok = is_waiting(Pid),
    Pid.

-spec answer(pid()) -> term().
answer(Pid) ->
    receive
        {Pid, Answer} -> Answer
    after 10_000 -> error(no_answer)
    end.

%% @doc A process that writes as soon as the caller waits for something.
-spec write_when_waiting(integer()) -> pid().
write_when_waiting(Fd) ->
    Self = self(),
    spawn_link(fun() ->
        ok = is_waiting(Self),
        ok = py_nif:write_test_fd(Fd, <<"x">>)
    end).

is_waiting(Pid) ->
    eventually:is({status, waiting}, fun() -> process_info(Pid, status) end).
