%% @doc Do the examples run? Each ends with an exit code other than 0 if something in it does not
%% hold.
-module(py_examples_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0]).
-export([every_example_runs/1]).

suite() -> [{timetrap, {minutes, 10}}].

all() ->
    [every_example_runs].

every_example_runs(_Config) ->
    Examples = filelib:wildcard(project:file("examples/*.escript")),
    ?assert(length(Examples) > 1),
    Ended = [{filename:basename(Example), run(Example)} || Example <- Examples],
    ct:pal("~ts", [[["--- ", Name, "\n", Text] || {Name, {_, Text}} <- Ended]]),
    ?assertEqual([], [Failed || {_, {Code, _}} = Failed <- Ended, Code =/= 0]).

run(Example) ->
    Libs = filename:dirname(code:lib_dir(erlang_loop)),
    Port = open_port({spawn_executable, os:find_executable("escript")}, [
        {args, [Example]},
        {env, [{"ERL_LIBS", Libs}]},
        exit_status,
        stderr_to_stdout,
        binary
    ]),
    collect(Port, []).

%% It prints, then ends; one that does neither for a minute hangs.
collect(Port, Printed) ->
    receive
        {Port, {data, Data}} -> collect(Port, [Printed, Data]);
        {Port, {exit_status, Status}} -> {Status, Printed}
    after 60_000 ->
        {os_pid, Pid} = erlang:port_info(Port, os_pid),
        _ = os:cmd("kill -KILL " ++ integer_to_list(Pid)),
        {hangs, Printed}
    end.
