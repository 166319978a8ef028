%% @doc Killing processes, and waiting until that is done.
-module(mortal).

-export([kill/1, kill_registered/1]).

-spec kill(pid()) -> ok.
kill(Pid) ->
    Monitor = monitor(process, Pid),
    exit(Pid, kill),
    receive
        % Or it had just ended by itself.
        {'DOWN', Monitor, _, _, _} -> ok
    end.

%% @doc Kills a supervised process and returns the pid of its successor.
-spec kill_registered(atom()) -> pid().
kill_registered(Name) ->
    Old = whereis(Name),
    ok = kill(Old),
    eventually:is(true, fun() ->
        New = whereis(Name),
        is_pid(New) andalso New =/= Old
    end),
    whereis(Name).
