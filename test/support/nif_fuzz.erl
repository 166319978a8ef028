%% @doc Calls every function of {@link py_nif} with random arguments, and reports wrong results.
%%
%% The results (loops, references, fds) go into a pool, from which later calls take arguments: so most
%% calls pass most checks, with one argument that is wrong, stale, or of another loop. A batch of calls is made by a process of its own, which ends with it and leaves all it
%% holds to the garbage collector; a batch is the same for the same seed.
-module(nif_fuzz).

-export([batch/3]).
-export_type([outcome/0]).

-type outcome() :: #{calls := non_neg_integer(), atom() => non_neg_integer()}.
-type signatures() :: #{atom() => [atom()]}.

%% Results used as arguments, by the kind nif_signatures:all/0 gives them.
-type pool() :: #{atom() => [term()]}.

%% As many of a kind as are worth keeping.
-define(KEPT, 12).

%% @doc Makes `Count' calls, and returns how many there were and what came of them. Raises
%% `{wrong, Function, Args, Got}' for a result that is neither a documented one nor `badarg'.
-spec batch({integer(), integer()}, pos_integer(), signatures()) -> outcome().
batch({Seed, Number}, Count, Signatures) ->
    {Pid, Monitor} = spawn_monitor(fun() ->
        _ = rand:seed(exsss, {Seed, Number, Count}),
        Functions = [{F, kinds(F, Arity, Signatures)} || {F, Arity} <- exported()],
        exit({done, calls(Count, Functions, pool(), #{calls => 0})})
    end),
    receive
        {'DOWN', Monitor, _, Pid, {done, Outcome}} -> Outcome;
        {'DOWN', Monitor, _, Pid, Reason} -> error({Reason, {seed, Seed, Number}})
    end.

exported() ->
    [FA || {F, _} = FA <- py_nif:module_info(exports), F =/= module_info].

%% A function without a description gets any arguments.
kinds(Function, Arity, Signatures) ->
    maps:get(Function, Signatures, lists:duplicate(Arity, term)).

%% A sink takes the messages that a keeper would get, and never replies.
pool() ->
    Sink = spawn_link(fun Loop() -> receive _ -> Loop() end end),
    {Dead, Monitor} = spawn_monitor(fun() -> ok end),
    receive
        {'DOWN', Monitor, _, Dead, _} -> ok
    end,
    #{pid => [Sink, Dead, self(), whereis(py_event_router), whereis(py_default_loop)]}.

-spec calls(non_neg_integer(), [{atom(), [atom()]}], pool(), outcome()) -> outcome().
calls(0, _Functions, Pool, Outcome) ->
    _ = [py_nif:event_loop_destroy(Loop) || Loop <- maps:get(loop, Pool, [])],
    _ = [py_nif:close_test_fd(Fd) || Fd <- maps:get(fd, Pool, [])],
    Outcome;
calls(Left, Functions, Pool, Outcome) ->
    {Function, Kinds} = any_term:pick(Functions),
    %% Mostly one argument is wrong, sometimes all are.
    Wrong = rand:uniform(length(Kinds) + 2),
    Args = [
        case Wrong =:= Position orelse Wrong =:= length(Kinds) + 1 of
            true -> anything(Pool);
            false -> good(Kind, Pool)
        end
     || {Position, Kind} <- lists:zip(lists:seq(1, length(Kinds)), Kinds)
    ],
    Got = call(Function, Args),
    Class = classify(Got),
    Class =:= wrong andalso exit({wrong, Function, Args, Got}),
    Counted = maps:update_with(Class, fun(N) -> N + 1 end, 1, Outcome),
    empty_mailbox(),
    calls(
        Left - 1,
        Functions,
        keep(Function, Args, Got, Pool),
        maps:update_with(calls, fun(N) -> N + 1 end, Counted)
    ).

%% It waits, and is left alone after a moment: a process that dies while it waits must do no harm.
call(poll_events, [Loop, Timeout]) when Timeout =/= 0 ->
    {Pid, Monitor} = spawn_monitor(fun() -> exit(raw_call(poll_events, [Loop, Timeout])) end),
    receive
        {'DOWN', Monitor, _, Pid, Answer} -> Answer
    after 1 ->
        exit(Pid, kill),
        receive
            {'DOWN', Monitor, _, Pid, killed} -> {answer, killed};
            {'DOWN', Monitor, _, Pid, Answer} -> Answer
        end
    end;
%% 0 is an fd: this node's link to the test. Through its reference it could be closed.
call(Function, [Loop, 0, Id]) when Function =:= add_reader; Function =:= add_writer ->
    raw_call(Function, [Loop, -1, Id]);
call(Function, Args) ->
    raw_call(Function, Args).

raw_call(Function, Args) ->
    try
        {answer, apply(py_nif, Function, Args)}
    catch
        Class:Reason -> {Class, Reason}
    end.

classify({answer, {error, _}}) -> error;
classify({answer, _}) -> ok;
classify({error, badarg}) -> badarg;
classify(_) -> wrong.

good(Kind, Pool) ->
    case Pool of
        #{Kind := [_ | _] = Kept} -> any_term:pick(Kept);
        _ -> made(Kind)
    end.

made(loop) -> make_ref();
made(fd) -> -1;
made(id) -> rand:uniform(100);
made(port) -> 0;
made(size) -> rand:uniform(100);
made(int) -> erlang:unique_integer();
made(timeout) -> any_term:pick([0, 1, infinity]);
made(bool) -> any_term:pick([true, false]);
made(on_or_off) -> any_term:pick([true, false, 1, 0]);
made(atom) -> any_term:pick([sigusr1, sigusr2, sighup, error, exit]);
made(none) -> none;
made(loops) -> any_term:pick([all, [], [1, 2, 3]]);
made(bin) -> any_term:pick([<<>>, <<"x">>, <<"None">>, <<"127.0.0.1">>]);
made(channel_type) -> any_term:pick([terms, bytes]);
made(token) -> any_term:pick([undefined, make_ref()]);
made(reference) -> make_ref();
made(interval) -> any_term:pick([undefined, 0.001]);
made(bins) -> [<<"x">>];
made(map) -> #{x => 1};
made(loop_options) -> loop_options();
made(_) -> any_term:make(5).

%% Right, or with one value that is not, or without one.
loop_options() ->
    #{native := Options} = py_event_loop_options:check(#{}),
    Key = any_term:pick(maps:keys(Options)),
    case rand:uniform(3) of
        1 -> Options;
        2 -> Options#{Key => any_term:make(3)};
        3 -> maps:remove(Key, Options)
    end.

%% A reference of any kind is as wrong as can be: it is nearly right.
anything(Pool) ->
    Kept = lists:append(maps:values(Pool)),
    case rand:uniform(3) of
        1 when Kept =/= [] -> any_term:pick(Kept);
        _ -> any_term:make(rand:uniform(10))
    end.

%% Numbers of fds are kept only while they are open: another's could have the number next.
keep(Function, _Args, _Got, Pool) when Function =:= close_fd; Function =:= close_test_fd ->
    Open = fun(Fd) -> py_nif:write_test_fd(Fd, <<>>) =/= {error, ebadf} end,
    Pool#{fd => lists:filter(Open, maps:get(fd, Pool, []))};
keep(_, _, {answer, {ok, Answer}}, Pool) when is_reference(Answer) ->
    kept(kind_of(Answer), Answer, Pool);
keep(create_test_pipe, _, {answer, {ok, {Read, Write}}}, Pool) ->
    kept(fd, Read, kept(fd, Write, Pool));
keep(ledger_create, _, {answer, {ok, Ledger, _Fd}}, Pool) ->
    kept(ledger, Ledger, Pool);
keep(Function, _, {answer, {ok, {Fd, _Port}}}, Pool) when
    Function =:= create_test_tcp_listener; Function =:= create_test_udp_socket
->
    kept(fd, Fd, Pool);
keep(Function, _, {answer, {ok, Fd}}, Pool) when
    Function =:= connect_test_tcp; Function =:= accept_test_tcp
->
    kept(fd, Fd, Pool);
keep(_, _, _, Pool) ->
    Pool.

%% References do not say what they are; the functions that take them do.
kind_of(Ref) ->
    Kinds = [{loop, event_loop_info}, {task, request_is_open}, {channel, channel_info}, {memory_link, memory_counts}],
    Taken = [Kind || {Kind, Function} <- Kinds, raw_call(Function, [Ref]) =/= {error, badarg}],
    case Taken of
        [Kind | _] -> Kind;
        [] -> any_term:pick([fd_ref, timer_ref, poll_set])
    end.

kept(Kind, Value, Pool) ->
    Kept = [Value | maps:get(Kind, Pool, [])],
    {Young, Old} = lists:split(min(?KEPT, length(Kept)), Kept),
    _ = [py_nif:close_test_fd(Fd) || Kind =:= fd, Fd <- Old],
    Pool#{Kind => Young}.

empty_mailbox() ->
    receive
        _ -> empty_mailbox()
    after 0 -> ok
    end.
