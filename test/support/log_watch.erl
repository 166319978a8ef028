%% @doc Collects events logged as warnings or above, including those of the VM's poller.
-module(log_watch).

-export([start/0, stop/0, texts/0, forget/0]).
-export([log/2]).

%% @doc From now on, until stop/0: also if the caller, which may be there for this call only, ends.
-spec start() -> ok.
start() ->
    %% A test that failed has left its own.
    _ = [stop() || ets:whereis(?MODULE) =/= undefined],
    Heir = spawn(fun() -> receive stop -> ok end end),
    ?MODULE = ets:new(?MODULE, [named_table, public, bag, {heir, Heir, Heir}]),
    true = ets:insert(?MODULE, {heir, Heir}),
    ok = logger:add_handler(?MODULE, ?MODULE, #{level => warning}).

-spec stop() -> ok.
stop() ->
    ok = logger:remove_handler(?MODULE),
    [{heir, Heir}] = ets:lookup(?MODULE, heir),
    true = ets:delete(?MODULE),
    Heir ! stop,
    ok.

%% @doc What was logged since start/0.
-spec texts() -> [string()].
texts() ->
    [Text || {Text} <- ets:tab2list(?MODULE)].

%% @doc Nothing was logged so far.
-spec forget() -> ok.
forget() ->
    true = ets:match_delete(?MODULE, {'_'}),
    ok.

%% @private Called by logger.
-spec log(logger:log_event(), logger:handler_config()) -> ok.
log(Event, _Config) ->
    Line = logger_formatter:format(Event, #{single_line => true, depth => 30}),
    true = ets:insert(?MODULE, {lists:flatten(unicode:characters_to_list(Line))}),
    ok.
