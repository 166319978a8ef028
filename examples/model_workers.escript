#!/usr/bin/env escript
%% A pool of model workers, each in an operating system process of its own. One input crashes its worker;
%% the node and the other worker go on, and the pool starts another one.
%%
%%   ERL_LIBS=_build/default/lib escript examples/model_workers.escript
-mode(compile).

main([]) ->
    ok = application:load(erlang_loop),
    Here = filename:dirname(filename:absname(escript:script_name())),
    ok = application:set_env(erlang_loop, python_path, [Here]),
    {ok, _} = application:ensure_all_started(erlang_loop),
    %% The report of the crash would only clutter the output.
    ok = logger:set_primary_config(level, none),
    {ok, _} = py_event_loop_pool:start_link(#{
        name => models, size => 2, place => peer, init => <<"import model_workers">>
    }),
    Before = [{ok, _} = predict(<<"hello">>) || _ <- lists:seq(1, 4)],
    say("1. ~b predictions by ~b processes", [length(Before), processes(Before)]),
    {error, {peer_down, Why}} = predict(<<"poison">>),
    say("2. One input crashed its worker: ~p", [Why]),
    After = [{ok, _} = predicted(<<"hello">>) || _ <- lists:seq(1, 4)],
    say("3. ~b predictions after it, the same as before: ~p", [length(After), values(After) =:= values(Before)]),
    ok = py_event_loop_pool:stop(models),
    ok = application:stop(erlang_loop).

predict(Text) ->
    py_event_loop_pool:run(models, model_workers, predict, [Text]).

%% A prediction can be repeated, so a request that a dying worker took along is sent again.
predicted(Text) ->
    case predict(Text) of
        {ok, Prediction} -> {ok, Prediction};
        {error, {peer_down, _}} -> predicted(Text);
        {error, {no_loop, _}} -> predicted(Text);
        {error, loop_down} -> predicted(Text)
    end.

processes(Predictions) -> length(lists:usort([Process || {ok, {Process, _}} <- Predictions])).

values(Predictions) -> lists:usort([Value || {ok, {_, Value}} <- Predictions]).

say(Format, Args) -> io:format(Format ++ "~n", Args).
