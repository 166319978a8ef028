%% @doc Looks at everything that erlang_loop needs, and for each fault says how to fix it.
%%
%% ```
%% py_doctor:run().
%% '''
%% prints a line for each thing it has looked at, and returns `ok' or the number of faults. `make
%% doctor' and `erlang-loop --doctor' do the same. It works without the native library, and before
%% the project is built.
-module(py_doctor).

-export([run/0, check/0]).
%% For bin/erlang-loop.
-export([main/0]).

-export_type([finding/0]).

-type finding() ::
    {ok, What :: unicode:chardata()}
    %% Something that is needed for some uses only.
    | {note, What :: unicode:chardata(), Fix :: unicode:chardata()}
    | {fault, What :: unicode:chardata(), Fix :: unicode:chardata()}.

%% @doc Prints what {@link check/0} finds.
-spec run() -> ok | {faults, pos_integer()}.
run() ->
    report(check()).

report(Findings) ->
    io:put_chars(unicode:characters_to_binary([line(Finding) || Finding <- Findings])),
    case length([fault || {fault, _, _} <- Findings]) of
        0 -> ok;
        Faults -> {faults, Faults}
    end.

%% @doc Looks at everything, from the VM to a call of Python. The last step is left out if there is
%% a fault before it, or if the application is not running.
-spec check() -> [finding()].
check() ->
    with_call(fun() -> {ok, []} end).

with_call(Start) ->
    Findings = lists:append([Check() || Check <- py_doctor_checks:all()]),
    case lists:keymember(fault, 1, Findings) of
        true ->
            Findings;
        false ->
            Findings ++ called(Start())
    end.

called({ok, _}) ->
    py_doctor_checks:call();
called({error, Reason}) ->
    [{fault, io_lib:format("the application does not start: ~tp", [Reason]), "see docs/faults.md"}].

%% @doc Prints the findings and ends the node: 1 if there is a fault.
-spec main() -> no_return().
main() ->
    %% Its messages are for the log of a node: the findings say the same.
    ok = logger:set_primary_config(level, none),
    _ = application:load(erlang_loop),
    ok = from_environment(os:getenv("VIRTUAL_ENV", "")),
    case report(with_call(fun() -> application:ensure_all_started(erlang_loop) end)) of
        ok ->
            io:put_chars("no faults\n"),
            halt(0);
        {faults, N} ->
            io:put_chars([integer_to_list(N), [" fault" | [$s || N > 1]], "\n"]),
            halt(1)
    end.

%% The command line uses this environment, as bin/erlang-loop does.
from_environment("") ->
    ok;
from_environment(Venv) ->
    case application:get_env(erlang_loop, venv) of
        {ok, Set} when Set =/= undefined -> ok;
        _ -> application:set_env(erlang_loop, venv, Venv)
    end.

line({ok, What}) -> ["ok     ", What, $\n];
line({note, What, Fix}) -> ["note   ", What, "\n       to fix it: ", Fix, $\n];
line({fault, What, Fix}) -> ["FAULT  ", What, "\n       to fix it: ", Fix, $\n].
