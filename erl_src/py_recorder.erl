%% @doc The flight recorder: what a loop did last. It is always on: each loop keeps its last 255 events
%% and the stacks of its last 16 turns that took longer than 20 ms. So a stall that is over can still
%% be explained.
%%
%% Reading it needs neither the loop's thread nor the GIL.
%%
%% ```
%% {ok, Events} = py_recorder:events(py_default_loop),
%% ok = py_recorder:write("loops.trace.json", all).
%% '''
-module(py_recorder).

-export([events/1, trace/1, write/2, lines/2]).

-export_type([event/0]).

-type event() :: #{
    %% `slow_turn': a turn that lasted for 20 ms or more, with the stack of its thread at that time.
    %% `turn': a turn of at least 1 ms has ended; `gil_wait': the thread has waited for the GIL, for
    %% at least 0.1 ms; `fd': a descriptor became ready; `timers': the number of timers that were due;
    %% `request_in', `request_out' and `request_cancel': a request begins, ends, is cancelled.
    kind := slow_turn | turn | gil_wait | fd | timers | request_in | request_out | request_cancel,
    %% How long ago it began.
    age_us := non_neg_integer(),
    %% Of turns and waits. A slow turn may have lasted longer: up to twice as long.
    duration_us => non_neg_integer(),
    fd => non_neg_integer(),
    timers => pos_integer(),
    request => pos_integer(),
    %% Of a slow turn: the most recent call first.
    stack => [py_inspect:frame()]
}.

%% @doc The last events of a loop, the oldest first.
-spec events(py_inspect:which()) -> {ok, [event()]} | {error, {no_loop, py_inspect:which()}}.
events(Which) ->
    case py_inspect:loop(Which) of
        {ok, #{id := Id}} ->
            case read(Id) of
                undefined -> {error, {no_loop, Which}};
                Events -> {ok, Events}
            end;
        {error, Reason} ->
            {error, Reason}
    end.

read(Id) ->
    case py_nif:recorder_read(Id) of
        undefined ->
            undefined;
        {Now, Events, Slow} ->
            All = [event(Now, Event) || Event <- Events] ++ [slow(Now, Turn) || Turn <- Slow],
            lists:sort(fun(#{age_us := One}, #{age_us := Other}) -> One >= Other end, All)
    end.

event(Now, {Time, Kind, Duration}) when Kind =:= turn; Kind =:= gil_wait ->
    #{kind => Kind, age_us => age(Now, Time - Duration), duration_us => Duration div 1000};
event(Now, {Time, fd, Fd}) ->
    #{kind => fd, age_us => age(Now, Time), fd => Fd};
event(Now, {Time, timers, Count}) ->
    #{kind => timers, age_us => age(Now, Time), timers => Count};
event(Now, {Time, Kind, Request}) ->
    #{kind => Kind, age_us => age(Now, Time), request => Request}.

slow(Now, {_Turn, Began, Lasted, Stack}) ->
    Frames = [#{function => Function, file => File, line => Line} || {Function, File, Line} <- Stack],
    #{kind => slow_turn, age_us => age(Now, Began), duration_us => Lasted div 1000, stack => Frames}.

age(Now, Time) -> max(0, Now - Time) div 1000.

%% @doc The events of a loop, or of all loops, in the trace format of Chrome, for ui.perfetto.dev.
-spec trace(py_inspect:which() | all) -> {ok, iodata()} | {error, {no_loop, py_inspect:which()}}.
trace(all) ->
    {ok, traced(py_inspect:loops())};
trace(Which) ->
    case py_inspect:loop(Which) of
        {ok, Loop} -> {ok, traced([Loop])};
        {error, Reason} -> {error, Reason}
    end.

traced(Loops) ->
    Now = erlang:system_time(microsecond),
    Events = lists:append([in_trace(Loop, Now) || Loop <- Loops]),
    py_dashboard_json:encode(#{displayTimeUnit => ms, traceEvents => Events}).

in_trace(#{id := Id, name := Name}, Now) ->
    case read(Id) of
        Empty when Empty =:= undefined; Empty =:= [] ->
            [];
        Events ->
            Title = iolist_to_binary(["loop ", integer_to_list(Id), [[$\s, atom_to_list(Name)] || Name =/= undefined]]),
            [
                #{name => thread_name, ph => 'M', pid => 1, tid => Id, args => #{name => Title}}
                | [(in_trace(Event))#{pid => 1, tid => Id, ts => Now - Age} || #{age_us := Age} = Event <- Events]
            ]
    end.

in_trace(#{kind := slow_turn, duration_us := Duration, stack := Stack}) ->
    #{name => where(Stack), cat => slow, ph => 'X', dur => Duration, args => #{stack => [place(Frame) || Frame <- Stack]}};
in_trace(#{kind := Kind, duration_us := Duration}) ->
    #{name => Kind, cat => loop, ph => 'X', dur => Duration, args => #{}};
in_trace(#{kind := request_in, request := Request}) ->
    #{name => request, cat => request, ph => b, id => Request, args => #{request => Request}};
in_trace(#{kind := request_out, request := Request}) ->
    #{name => request, cat => request, ph => e, id => Request, args => #{request => Request}};
in_trace(#{kind := Kind} = Event) ->
    #{name => Kind, cat => loop, ph => i, s => t, args => maps:with([fd, timers, request], Event)}.

where([]) -> <<"C code">>;
where([Frame | _]) -> place(Frame).

place(#{function := Function, file := File, line := Line}) ->
    iolist_to_binary([Function, " (", File, $:, integer_to_binary(Line), $)]).

%% @doc Writes {@link trace/1} to a file.
-spec write(file:name_all(), py_inspect:which() | all) ->
    ok | {error, {no_loop, py_inspect:which()} | file:posix() | badarg | terminated}.
write(File, Which) ->
    case trace(Which) of
        {ok, Text} -> file:write_file(File, Text);
        {error, Reason} -> {error, Reason}
    end.

%% @doc The last events as lines, for reports; nothing if there are none.
-spec lines(pos_integer(), pos_integer()) -> unicode:chardata().
lines(Id, Count) ->
    case read(Id) of
        Empty when Empty =:= undefined; Empty =:= [] ->
            [];
        Events ->
            Last = lists:nthtail(max(0, length(Events) - Count), Events),
            ["Its last events:\n", [line(Event) || Event <- Last]]
    end.

line(#{age_us := Age} = Event) ->
    io_lib:format("  ~10.1f ms ago  ~ts~n", [Age / 1000, said(Event)]).

said(#{kind := slow_turn, duration_us := Duration, stack := Stack}) ->
    io_lib:format("in a turn for ~b ms: ~ts", [Duration div 1000, where(Stack)]);
said(#{kind := turn, duration_us := Duration}) -> io_lib:format("a turn of ~.1f ms", [Duration / 1000]);
said(#{kind := gil_wait, duration_us := Duration}) -> io_lib:format("waited ~.1f ms for the GIL", [Duration / 1000]);
said(#{kind := fd, fd := Fd}) -> io_lib:format("fd ~b ready", [Fd]);
said(#{kind := timers, timers := Count}) -> io_lib:format("~b timers due", [Count]);
said(#{kind := request_in, request := Request}) -> io_lib:format("request ~b begins", [Request]);
said(#{kind := request_out, request := Request}) -> io_lib:format("request ~b ends", [Request]);
said(#{kind := request_cancel, request := Request}) -> io_lib:format("request ~b is cancelled", [Request]).
