%% @doc What this node uses: fds, loops, threads, processes, atoms, tables, memory. For tests that
%% do something very often and want all of it back.
-module(footprint).

-export([measure/0, back_to/2]).
-export_type([measured/0]).

-opaque measured() :: #{atom() => term()}.

%% @doc Python must have run a call before: its threads and the default loop stay.
-spec measure() -> measured().
measure() ->
    collect_garbage(),
    #{
        leaks => leak_check:snapshot(),
        atoms => erlang:system_info(atom_count),
        tables => length(ets:all()),
        resident => leak_check:resident_bytes()
    }.

%% @doc Waits until this node uses no more than before, except for this many bytes; raises with what it
%% uses. Returns the bytes.
-spec back_to(measured(), non_neg_integer()) -> integer().
back_to(#{leaks := Leaks, atoms := Atoms, tables := Tables, resident := Resident}, Bytes) ->
    %% Python's collector finds what is in cycles, of loops that end a little later than the rest.
    ok = eventually:is(
        #{},
        fun() ->
            %% Threads of calls end after three seconds without one, which the next line is.
            timer:sleep(3500),
            collect_garbage(),
            Now = #{
                atoms => erlang:system_info(atom_count) - Atoms,
                tables => length(ets:all()) - Tables,
                resident => leak_check:resident_bytes() - Resident
            },
            Allowed = #{atoms => 200, tables => 0, resident => Bytes},
            More = maps:filter(fun(What, Count) -> Count > maps:get(What, Allowed) end, Now),
            maps:merge(More, leak_check:more_than(Leaks))
        end,
        60_000
    ),
    leak_check:resident_bytes() - Resident.

collect_garbage() ->
    {ok, _} = py:call(gc, collect, [], #{}, 60_000),
    ok.
