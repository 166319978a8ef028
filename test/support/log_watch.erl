%% @doc Collects what is logged as a warning or worse, those of the VM's poller among it.
-module(log_watch).

-export([start/0, stop/0, texts/0]).
-export([log/2]).

%% @doc From now on.
-spec start() -> ok.
start() ->
    ?MODULE = ets:new(?MODULE, [named_table, public, bag]),
    ok = logger:add_handler(?MODULE, ?MODULE, #{level => warning}).

-spec stop() -> ok.
stop() ->
    ok = logger:remove_handler(?MODULE),
    true = ets:delete(?MODULE),
    ok.

%% @doc What was logged since start/0.
-spec texts() -> [string()].
texts() ->
    [Text || {Text} <- ets:tab2list(?MODULE)].

%% @private Called by logger.
-spec log(logger:log_event(), logger:handler_config()) -> ok.
log(Event, _Config) ->
    Line = logger_formatter:format(Event, #{single_line => true, depth => 30}),
    true = ets:insert(?MODULE, {lists:flatten(unicode:characters_to_list(Line))}),
    ok.
