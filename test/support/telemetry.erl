%% @doc Stands in for the library of this name: its events become messages of the one process that
%% listens. A test loads the application, which no other test has.
-module(telemetry).

-export([listen/0, stop/0, fail/1]).
%% What the library has.
-export([execute/3]).

%% @doc From now on, until stop/0, the calling process gets `{telemetry, Event, Measurements, Metadata}'.
-spec listen() -> true.
listen() ->
    ok = application:load({application, ?MODULE, [{vsn, "1"}, {modules, [?MODULE]}, {registered, []}]}),
    true = register(?MODULE, self()),
    py_telemetry:detect().

-spec stop() -> false.
stop() ->
    true = unregister(?MODULE),
    ok = fail(false),
    ok = application:unload(?MODULE),
    py_telemetry:detect().

%% @doc Whether handlers raise.
-spec fail(boolean()) -> ok.
fail(Fails) ->
    persistent_term:put(?MODULE, Fails).

-spec execute([atom()], map(), map()) -> ok.
execute(Event, Measurements, Metadata) ->
    false = persistent_term:get(?MODULE, false),
    ?MODULE ! {?MODULE, Event, Measurements, Metadata},
    ok.
