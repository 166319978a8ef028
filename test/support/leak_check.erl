%% @doc What a test must release: fds, loops, threads of the operating system, processes.
%%
%% A suite calls `begin_case/1' in init_per_testcase/2 and `end_case/1' in end_per_testcase/2.
-module(leak_check).

-export([begin_case/1, end_case/1]).
-export([snapshot/0, back_to/1, more_than/1, fds/0, threads/0, resident_bytes/0]).

-opaque snapshot() :: #{fds | loops | threads | processes => non_neg_integer()}.
-export_type([snapshot/0]).

-spec begin_case([{atom(), term()}]) -> [{atom(), term()}].
begin_case(Config) ->
    [{leak_check, snapshot()} | Config].

%% @doc The result of end_per_testcase/2: a leak fails the test, unless it has failed before.
-spec end_case([{atom(), term()}]) -> ok | {fail, term()}.
end_case(Config) ->
    try
        proplists:get_value(tc_status, Config) =:= ok andalso
            back_to(proplists:get_value(leak_check, Config)),
        ok
    catch
        error:Reason -> {fail, {leak, Reason}}
    end.

-spec snapshot() -> snapshot().
snapshot() ->
    collect_garbage(),
    #{
        fds => length(fds()),
        loops => py_nif:event_loop_count(),
        threads => threads(),
        processes => length(processes())
    }.

%% @doc Waits until there is no more than there was.
-spec back_to(snapshot()) -> ok.
back_to(Before) ->
    eventually:is(#{}, fun() -> more_than(Before) end).

%% @doc Of what there is more now, with both numbers.
-spec more_than(snapshot()) -> #{atom() => {non_neg_integer(), non_neg_integer()}}.
more_than(Before) ->
    maps:filtermap(
        fun(What, Now) ->
            Then = maps:get(What, Before),
            Now > Then andalso {true, {Then, Now}}
        end,
        snapshot()
    ).

%% @doc The fds of the kinds that loops and their users have. (Not files: Common Test opens
%% those as it goes along. Nor timers: a loop that stays makes its own when it first needs it,
%% and a leaked one has other fds as well.)
-spec fds() -> [{string(), string()}].
fds() ->
    [
        {Fd, What}
     || Fd <- listed("/proc/self/fd"),
        {ok, What} <- [file:read_link(filename:join("/proc/self/fd", Fd))],
        What =/= "anon_inode:[timerfd]",
        lists:any(fun(Kind) -> lists:prefix(Kind, What) end, ["pipe:", "socket:", "anon_inode:"])
    ].

-spec threads() -> non_neg_integer().
threads() ->
    length(listed("/proc/self/task")).

%% @doc The resident memory of this node.
-spec resident_bytes() -> non_neg_integer().
resident_bytes() ->
    {ok, Status} = file:read_file("/proc/self/status"),
    {match, [Kilobytes]} =
        re:run(Status, "VmRSS:\\s+(\\d+) kB", [{capture, all_but_first, list}]),
    1024 * list_to_integer(Kilobytes).

listed(Directory) ->
    {ok, Names} = file:list_dir(Directory),
    Names.

%% References to loops live on the heaps of processes.
collect_garbage() ->
    lists:foreach(fun erlang:garbage_collect/1, processes()).
