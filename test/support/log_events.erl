%% @doc Sends what `logger' gets as messages `{log_event, Event}', of this domain and every level.
-module(log_events).

-export([start/0, stop/0, next/0, next/1]).
-export([log/2]).

%% @doc From now on, to the calling process.
-spec start() -> ok.
start() ->
    #{level := Before} = logger:get_primary_config(),
    ok = logger:set_primary_config(level, all),
    logger:add_handler(?MODULE, ?MODULE, #{
        config => #{pid => self(), level_before => Before},
        filter_default => stop,
        filters => [{python, {fun logger_filters:domain/2, {log, sub, [python]}}}]
    }).

-spec stop() -> ok.
stop() ->
    {ok, #{config := #{level_before := Before}}} = logger:get_handler_config(?MODULE),
    ok = logger:remove_handler(?MODULE),
    ok = logger:set_primary_config(level, Before),
    flush().

flush() ->
    receive
        {log_event, _} -> flush()
    after 0 -> ok
    end.

%% @doc Waits for the next event.
-spec next() -> logger:log_event().
next() ->
    receive
        {log_event, Event} -> Event
    after 10_000 -> error(no_log_event)
    end.

%% @doc Waits for an event whose text has this in it.
-spec next(string()) -> logger:log_event().
next(Part) ->
    Event = next(),
    Line = logger_formatter:format(Event, #{single_line => false, template => [msg]}),
    case string:find(unicode:characters_to_list(Line), Part) of
        nomatch -> next(Part);
        _ -> Event
    end.

%% @private Called by logger.
-spec log(logger:log_event(), logger:handler_config()) -> ok.
log(Event, #{config := #{pid := Pid}}) ->
    Pid ! {log_event, Event},
    ok.
