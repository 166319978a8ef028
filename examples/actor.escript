#!/usr/bin/env escript
%% A Python coroutine below an Erlang supervisor: it is called, it crashes, it is restarted.
%%
%%   ERL_LIBS=_build/default/lib escript examples/actor.escript
%%
%% The actor is in actor_account.py. If anything goes wrong, this exits with a code other
%% than 0.
-mode(compile).

-export([init/1]).

main([]) ->
    %% No reports of the crash below.
    ok = logger:set_primary_config(level, none),
    ok = application:load(erlang_loop),
    Here = filename:dirname(filename:absname(escript:script_name())),
    ok = application:set_env(erlang_loop, python_path, [Here]),
    {ok, _} = application:ensure_all_started(erlang_loop),
    {ok, Supervisor} = supervisor:start_link(?MODULE, []),

    Account = account(Supervisor),
    Account ! {deposit, 70},
    Account ! {deposit, 30},
    100 = gen_server:call(Account, balance),
    io:format("the balance is 100~n"),

    Monitor = monitor(process, Account),
    Account ! {deposit, <<"a lot">>},
    receive
        {'DOWN', Monitor, process, Account, {py_exception, #{type := Type, message := Message}}} ->
            io:format("it crashed: ~s: ~s~n", [Type, Message])
    end,

    New = account(Supervisor),
    0 = gen_server:call(New, balance),
    io:format("its supervisor has started a new one, with a balance of 0~n"),
    ok = gen_server:stop(Supervisor),
    ok = application:stop(erlang_loop).

init([]) ->
    Account = py_actor:child_spec(#{
        id => account, module => actor_account, function => account, args => [0]
    }),
    {ok, {#{strategy => one_for_one}, [Account]}}.

%% It replies when the child is running, also after a crash.
account(Supervisor) ->
    [{account, Account, worker, _}] = supervisor:which_children(Supervisor),
    Account.
