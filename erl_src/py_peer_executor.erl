%% @private
%% @doc What `erlang_loop.PeerPoolExecutor' asks of Erlang, by `erlang.call'.
%%
%% A pool that an executor starts belongs to a process, its owner, which waits for the executor's
%% end: the process of an `erlang.call' ends at once. The owner ends with the application, too.
-module(py_peer_executor).

-export([start/1, stop/1, loops/1, run/2, wait/1]).
%% For proc_lib.
-export([own/1]).

-define(PEER, [settings, env, args, start_timeout, kill_after, limits]).

%% @doc Starts a pool of peers. The options of a peer stand beside those of the pool and its loops.
-spec start(#{binary() => term()}) -> {pid(), binary()}.
start(Given) ->
    Options = maps:fold(fun option/3, #{}, Given),
    Peer = maps:with(?PEER, Options),
    Pool = maps:merge(#{place => {peer, Peer}}, maps:without(?PEER, Options)),
    case proc_lib:start(?MODULE, own, [Pool]) of
        {ok, Owner, Name} -> {Owner, atom_to_binary(Name)};
        {error, {bad_option, What, Why}} -> py_event_loop_options:bad(What, Why);
        {error, Reason} -> error(Reason)
    end.

option(Name, Value, Options) ->
    try binary_to_existing_atom(Name) of
        env -> Options#{env => [{text(Key), text(Of)} || {Key, Of} <- maps:to_list(Value)]};
        args -> Options#{args => [text(Argument) || Argument <- Value]};
        Key when Key =:= settings; Key =:= limits -> Options#{Key => maps:fold(fun option/3, #{}, Value)};
        place -> py_event_loop_options:bad({place, Value}, "an executor starts peers of this machine only");
        Key -> Options#{Key => Value}
    catch
        error:badarg -> py_event_loop_options:bad({Name, Value}, "no such option")
    end.

text(Binary) when is_binary(Binary) -> unicode:characters_to_list(Binary);
text(Value) -> Value.

%% @private
-spec own(map()) -> ok.
own(Options) ->
    _ = process_flag(trap_exit, true),
    Application = monitor(process, py_event_loop_sup),
    try start_pool(Options, 1) of
        {ok, Pool, Name} ->
            ok = proc_lib:init_ack({ok, self(), Name}),
            receive
                {stop, From} ->
                    _ = py_event_loop_pool:stop(Name),
                    From ! {stopped, self()},
                    ok;
                %% It has reached its restart limit, or was stopped by its name.
                {'EXIT', Pool, _} -> ok;
                {'DOWN', Application, process, _, _} -> exit(shutdown)
            end;
        {error, Reason} ->
            proc_lib:init_ack({error, Reason})
    catch
        error:Reason -> proc_lib:init_ack({error, Reason})
    end.

start_pool(#{name := Given} = Options, _N) when is_binary(Given) ->
    start_pool(Options#{name := binary_to_atom(Given)}, 1);
start_pool(#{name := Name} = Options, _N) ->
    started(Name, py_event_loop_pool:start_link(Options));
start_pool(Options, N) ->
    %% The smallest number that is free: atoms are never freed.
    Name = list_to_atom("py_peer_executor_" ++ integer_to_list(N)),
    case started(Name, py_event_loop_pool:start_link(Options#{name => Name})) of
        {error, {already_started, _}} -> start_pool(Options, N + 1);
        Result -> Result
    end.

started(Name, {ok, Pool}) -> {ok, Pool, Name};
started(_Name, {error, Reason}) -> {error, Reason}.

%% @doc Returns when the pool has ended.
-spec stop(pid()) -> ok.
stop(Owner) ->
    Monitor = monitor(process, Owner),
    Owner ! {stop, self()},
    receive
        {'DOWN', Monitor, process, Owner, _} -> ok
    end.

%% @doc How much work may run at a time, and the names of the loops, spare ones last.
-spec loops(binary()) -> {pos_integer(), [binary()]}.
loops(Pool) ->
    case py_event_loop_pool:info(existing(Pool)) of
        {ok, Loops} ->
            {length([spare || #{spare := false} <- Loops]), [atom_to_binary(Name) || #{name := Name} <- Loops]};
        {error, noproc} ->
            error({no_pool, Pool})
    end.

existing(Name) ->
    try
        binary_to_existing_atom(Name)
    catch
        error:badarg -> error({no_pool, Name})
    end.

%% @doc Runs packed work on this loop. `refused': it has not begun there.
-spec run(binary(), binary()) -> {binary(), term()}.
run(Loop, Work) ->
    Call = {call, <<"erlang_loop.peers.work">>, <<"run">>, [{bytes, Work}], #{}},
    case whereis(existing(Loop)) of
        undefined -> {<<"refused">>, <<>>};
        Pid -> outcome(py:request_once(Pid, Call, infinity))
    end.

outcome({ok, Reply}) -> {<<"reply">>, {bytes, Reply}};
outcome({refused, Reason}) when Reason =:= loop_down; element(1, Reason) =:= peer_down -> {<<"refused">>, <<>>};
outcome({error, {peer_down, Why}}) -> {<<"peer_down">>, why(Why)};
outcome({error, loop_down}) -> {<<"peer_down">>, <<"its loop was stopped">>};
outcome({_, Reason}) -> error(Reason).

why({signal, Signal}) -> iolist_to_binary(["signal ", string:uppercase(atom_to_list(Signal))]);
why({exit, Code}) -> iolist_to_binary(io_lib:format("exit code ~p", [Code]));
why({limit, Limit}) -> iolist_to_binary(io_lib:format("limit ~p", [Limit]));
why(Why) -> iolist_to_binary(io_lib:format("~tp", [Why])).

%% @doc Returns when the pool's supervisor has replaced what was down. `false': the pool has ended.
-spec wait(binary()) -> boolean().
wait(Pool) ->
    try gen_server:call(existing(Pool), count_children, infinity) of
        _ ->
            %% It may not have noticed a loop's end before it replied.
            ok = timer:sleep(1),
            true
    catch
        exit:_ -> false
    end.
