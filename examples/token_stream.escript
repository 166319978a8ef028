#!/usr/bin/env escript
%% A reply that comes token by token, and a Stop button that cancels it at its `await', in Python.
%%
%%   ERL_LIBS=_build/default/lib escript examples/token_stream.escript
-mode(compile).

main([]) ->
    ok = application:load(erlang_loop),
    Here = filename:dirname(filename:absname(escript:script_name())),
    ok = application:set_env(erlang_loop, python_path, [Here]),
    {ok, _} = application:ensure_all_started(erlang_loop),
    whole_answer(),
    stop_button(),
    closed_window(),
    many_at_once(),
    ok = application:stop(erlang_loop).

%% The simple case: a fold over the tokens.
whole_answer() ->
    io:format("1. The whole answer:"),
    Show = fun(Token, Count) -> io:format(" ~ts", [Token]), Count + 1 end,
    {ok, Count} = py:fold(Show, 0, token_stream, answer, [<<"What is a loop?">>]),
    io:format("~n   ~p tokens; ~ts~n", [Count, counts({0, 1, 0})]).

%% A window that shows tokens as they come, requesting one at a time, until its button is pressed.
stop_button() ->
    io:format("2. An answer that is stopped:"),
    User = self(),
    Window = spawn_link(fun() ->
        {ok, Answer} = py:stream(token_stream, answer, [<<"What is a loop?">>], #{}, #{demand => 1}),
        window(User, Answer, 0)
    end),
    receive
        {shown, 5} -> Window ! stop
    end,
    receive
        stopped -> io:format("~n   Stop; ~ts~n", [counts({0, 1, 1})])
    end.

window(User, Answer, Shown) ->
    receive
        {py_stream, Answer, {data, Token}} ->
            io:format(" ~ts", [Token]),
            User ! {shown, Shown + 1},
            ok = py:demand(Answer, 1),
            window(User, Answer, Shown + 1);
        stop ->
            %% No token is in the mailbox after this, and none comes.
            ok = py:cancel(Answer),
            receive
                {py_stream, Answer, _} -> error(stray_token)
            after 50 -> User ! stopped
            end
    end.

%% Without Stop: the reader dies, and its stream is cancelled.
closed_window() ->
    {Reader, Monitor} = spawn_monitor(fun() ->
        {ok, Answer} = py:stream(token_stream, answer, [<<"What is a loop?">>], #{}, #{demand => 100}),
        receive
            {py_stream, Answer, {data, _}} -> exit(window_closed)
        end
    end),
    receive
        {'DOWN', Monitor, process, Reader, window_closed} -> ok
    end,
    io:format("3. A reader died in the middle of its answer; ~ts~n", [counts({0, 1, 2})]).

many_at_once() ->
    Count = fun(_Token, N) -> N + 1 end,
    Readers = [
        spawn_monitor(fun() -> exit(py:fold(Count, 0, token_stream, answer, [<<"And?">>, 0.02])) end)
     || _ <- lists:seq(1, 200)
    ],
    Counts = [
        receive
            {'DOWN', Monitor, process, Reader, {ok, Tokens}} -> Tokens
        end
     || {Reader, Monitor} <- Readers
    ],
    io:format("4. 200 answers at the same time: ~p tokens; ~ts~n", [
        lists:sum(Counts), counts({0, 201, 2})
    ]).

%% Python agrees, as soon as finalizers have run.
counts(Expected) ->
    counts(Expected, 100).

counts({AtWork, Finished, Stopped} = Expected, Tries) ->
    case py:call(token_stream, counts, []) of
        {ok, Expected} ->
            io_lib:format("~p at work, ~p finished, ~p stopped", [AtWork, Finished, Stopped]);
        {ok, _} when Tries > 0 ->
            timer:sleep(20),
            counts(Expected, Tries - 1);
        {ok, Other} ->
            error({counted, Other, expected, Expected})
    end.
