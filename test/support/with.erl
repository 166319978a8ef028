%% @doc Native loops and pipes for as long as a function runs.
-module(with).

-export([loop/1, pipe/1]).

-spec loop(fun((py_nif:loop_ref()) -> Result)) -> Result.
loop(Fun) ->
    {ok, Loop} = py_nif:event_loop_new(),
    try
        Fun(Loop)
    after
        ok = py_nif:event_loop_destroy(Loop)
    end.

%% The function may close the ends of the pipe itself.
-spec pipe(fun((py_nif:loop_ref(), Read :: integer(), Write :: integer()) -> Result)) -> Result.
pipe(Fun) ->
    {ok, {Read, Write}} = py_nif:create_test_pipe(),
    try
        loop(fun(Loop) -> Fun(Loop, Read, Write) end)
    after
        _ = [py_nif:close_test_fd(Fd) || Fd <- [Read, Write]]
    end.
