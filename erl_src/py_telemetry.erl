%% @doc Events for the library `telemetry', if the application of that name is loaded when this one
%% starts. Nothing depends on it: without it, the check for it is one read of a persistent term.
%%
%% Handlers run in the process that executes the event: for a request that is its caller. One that
%% raises is logged, and the request goes on. The events are those of {@link events/0};
%% `docs/inside.md' has what each one carries.
-module(py_telemetry).

-include_lib("kernel/include/logger.hrl").

-export([detect/0, events/0]).
%% For the modules that have events.
-export([is_on/0, execute/3, request/3, submitted/3, question/2]).

-type event() :: [atom(), ...].

%% @doc Every event that this application executes.
-spec events() -> [event()].
events() ->
    [
        [erlang_loop, request, start],
        [erlang_loop, request, stop],
        [erlang_loop, request, submit],
        [erlang_loop, question, start],
        [erlang_loop, question, stop],
        [erlang_loop, question, exception],
        [erlang_loop, loop, start],
        [erlang_loop, loop, stop],
        [erlang_loop, loop, stuck],
        [erlang_loop, loop, resume],
        [erlang_loop, peer, start],
        [erlang_loop, peer, stop]
    ].

%% @doc Looks again whether `telemetry' is loaded. Call it if that was loaded later.
-spec detect() -> boolean().
detect() ->
    IsThere =
        lists:keymember(telemetry, 1, application:loaded_applications()) andalso
            code:ensure_loaded(telemetry) =:= {module, telemetry} andalso
            erlang:function_exported(telemetry, execute, 3),
    ok = persistent_term:put(?MODULE, IsThere),
    IsThere.

%% @private
-spec is_on() -> boolean().
is_on() ->
    persistent_term:get(?MODULE, false).

%% @private
-spec execute(event(), #{atom() => term()}, #{atom() => term()}) -> ok.
execute(Event, Measurements, Metadata) ->
    case is_on() of
        true -> executed(Event, Measurements, Metadata);
        false -> ok
    end.

%% A name that xref and dialyzer need not find.
executed(Event, Measurements, Metadata) ->
    Telemetry = telemetry,
    try
        _ = Telemetry:execute(Event, Measurements, Metadata),
        ok
    catch
        Class:Reason:Stack ->
            ?LOG_WARNING("A handler of ~p failed: ~p", [Event, {Class, Reason, Stack}])
    end.

%% @private
%% @doc Runs a request whose caller waits.
-spec request(py_nif:request_target(), py_nif:call(), fun(() -> Result)) -> Result.
request(Target, Call, Run) ->
    Metadata = about(Target, Call),
    Start = begun([erlang_loop, request, start], Metadata),
    Result = Run(),
    ended([erlang_loop, request, stop], Start, maps:merge(Metadata, outcome(Result))),
    Result.

outcome({ok, _}) -> #{result => ok};
outcome({_, Reason}) -> #{result => error, reason => Reason}.

%% @private
%% @doc A request was submitted, whose reply comes later: as a message, or never.
-spec submitted(submit | cast | stream, py_nif:request_target(), py_nif:call()) -> ok.
submitted(How, Target, Call) ->
    case is_on() of
        true ->
            Times = #{system_time => erlang:system_time(), monotonic_time => erlang:monotonic_time()},
            executed([erlang_loop, request, submit], Times, (about(Target, Call))#{how => How});
        false ->
            ok
    end.

about(Target, {with, _, Call}) ->
    about(Target, Call);
about(Target, {Kind, Module, Function, Args, _}) when Kind =:= call; Kind =:= inline ->
    #{target => Target, module => Module, function => Function, arity => length(Args)};
%% Code is a secret, perhaps, and long.
about(Target, Call) ->
    #{target => Target, code => element(1, Call)}.

%% @private
%% @doc Runs a call from Python.
-spec question(py_nif:erlang_call(), fun(() -> Result)) -> Result.
question(Call, Run) ->
    case is_on() of
        false -> Run();
        true -> watched(asked(Call), Run)
    end.

watched(Metadata, Run) ->
    Start = begun([erlang_loop, question, start], Metadata),
    try Run() of
        Value ->
            ended([erlang_loop, question, stop], Start, Metadata),
            Value
    catch
        Class:Reason:Stack ->
            Failure = Metadata#{kind => Class, reason => Reason, stacktrace => Stack},
            ended([erlang_loop, question, exception], Start, Failure),
            erlang:raise(Class, Reason, Stack)
    end.

asked({traced, _, Call}) -> asked(Call);
asked({call, Module, Function, Args}) -> #{module => Module, function => Function, arity => length(Args)};
asked({call, Node, Module, Function, Args}) -> (asked({call, Module, Function, Args}))#{node => Node};
asked({apply, Fun, Args}) -> #{function => Fun, arity => length(Args)}.

begun(Event, Metadata) ->
    Start = erlang:monotonic_time(),
    executed(Event, #{system_time => erlang:system_time(), monotonic_time => Start}, Metadata),
    Start.

ended(Event, Start, Metadata) ->
    End = erlang:monotonic_time(),
    executed(Event, #{duration => End - Start, monotonic_time => End}, Metadata).
