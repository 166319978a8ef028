%% @doc Profiles: where the threads of Python spend their time. {@link py_inspect:profile/2} takes one;
%% this module writes it for other programs.
%%
%% Stacks are read at intervals, without the GIL and without stopping the threads, so a profile shows
%% the time that passes, waiting for the GIL included. Loops at rest are not in it.
%%
%% ```
%% {ok, Profile} = py_inspect:profile(py_default_loop, #{ms => 5000}),
%% ok = py_profile:write("profile.speedscope.json", speedscope, Profile).
%% '''
-module(py_profile).

-export([text/2, write/3]).
%% For py_inspect.
-export([checked/1, take/2]).

-export_type([profile/0, options/0, format/0, stack/0]).

-type stack() :: #{
    %% `undefined': a call thread.
    loop := pos_integer() | undefined,
    %% The task that ran; the function that a call thread was called for. `undefined': a callback,
    %% or a task that ran before the profile began.
    task := binary() | undefined,
    %% Outermost first.
    frames := [py_inspect:frame()],
    samples := pos_integer()
}.
-type profile() :: #{
    duration_us := non_neg_integer(),
    %% How often threads were looked at.
    ticks := non_neg_integer(),
    %% How often a loop was at rest.
    idle := non_neg_integer(),
    %% How often a stack changed too fast to be read.
    missed := non_neg_integer(),
    %% The most frequent one first.
    stacks := [stack()],
    %% When each sample was taken (us), and the place of its stack in the list, from 1.
    samples := [{non_neg_integer(), pos_integer()}]
}.
%% `ms': how long, 2,000 by default and an hour at most. `interval_us': 10,000 by default, at least 100.
-type options() :: #{ms => 1..3_600_000, interval_us => 100..10_000_000}.
%% `collapsed': one line for each stack, for `flamegraph.pl' and similar programs. `speedscope': for
%% speedscope.app. `firefox': for profiler.firefox.com.
-type format() :: collapsed | speedscope | firefox.

-define(DEFAULTS, #{ms => 2000, interval_us => 10_000}).

%% @private
-spec take(all | calls | [pos_integer()], #{ms := pos_integer(), interval_us := pos_integer()}) ->
    {ok, profile()} | {error, not_started | unsupported | timeout | term()}.
take(Which, #{ms := Ms, interval_us := Interval}) ->
    {Loops, Calls} = threads(Which),
    Token = erlang:unique_integer(),
    case py_nif:profile_start(Token, Loops, Calls, Ms, Interval) of
        ok -> arrives(Token, Ms);
        {error, Reason} -> {error, Reason}
    end.

%% @private With defaults. Wrong ones raise `badarg'.
-spec checked(options()) -> #{ms := pos_integer(), interval_us := pos_integer()}.
checked(Options) when is_map(Options) ->
    Merged = #{ms := Ms, interval_us := Interval} = maps:merge(?DEFAULTS, Options),
    IsRight =
        map_size(Merged) =:= map_size(?DEFAULTS) andalso
            is_integer(Ms) andalso Ms >= 1 andalso Ms =< 3_600_000 andalso
            is_integer(Interval) andalso Interval >= 100 andalso Interval =< 10_000_000,
    case IsRight of
        true -> Merged;
        false -> error(badarg)
    end;
checked(_) ->
    error(badarg).

threads(all) -> {all, true};
threads(calls) -> {[], true};
threads(Ids) -> {Ids, false}.

%% The thread that takes it sends one message, always. It may be late: it sleeps between samples.
arrives(Token, Ms) ->
    receive
        {py_profile, Token, {ok, Parts}} -> {ok, profile(Parts)};
        {py_profile, Token, {error, Reason}} -> {error, Reason}
    after Ms + 60_000 -> {error, timeout}
    end.

profile({Frames, Stacks, Samples, {Duration, Ticks, Idle, Missed}}) ->
    Counts = lists:foldl(
        fun({_, Place}, Counted) -> maps:update_with(Place, fun(Count) -> Count + 1 end, 1, Counted) end,
        #{},
        Samples
    ),
    ByPlace = list_to_tuple([frame(Frame) || Frame <- Frames]),
    Read = [
        {-map_get(Place, Counts), Place, stack(Stack, map_get(Place, Counts), ByPlace)}
     || {Place, Stack} <- lists:zip(lists:seq(0, length(Stacks) - 1), Stacks)
    ],
    Ordered = lists:sort(Read),
    New = maps:from_list([{Old, At} || {At, {_, Old, _}} <- lists:zip(lists:seq(1, length(Ordered)), Ordered)]),
    #{
        duration_us => Duration,
        ticks => Ticks,
        idle => Idle,
        missed => Missed,
        stacks => [Stack || {_, _, Stack} <- Ordered],
        samples => [{Time, map_get(Place, New)} || {Time, Place} <- Samples]
    }.

stack({Loop, Task, Places}, Count, Frames) ->
    #{
        loop => number(Loop),
        task => name(Task),
        frames => [element(Place + 1, Frames) || Place <- Places],
        samples => Count
    }.

number(0) -> undefined;
number(Loop) -> Loop.

name(Task) when is_binary(Task) -> Task;
name(_) -> undefined.

frame({Function, File, Line}) -> #{function => Function, file => File, line => Line}.

%% @doc The profile in that format.
-spec text(format(), profile()) -> iodata().
text(collapsed, #{stacks := Stacks}) ->
    [
        [lists:join($;, [in_line(Part) || Part <- thread_name(Stack) ++ [shown(Frame) || Frame <- Frames]]),
            $\s, integer_to_binary(Samples), $\n]
     || #{frames := Frames, samples := Samples} = Stack <- Stacks
    ];
text(speedscope, #{duration_us := Duration, stacks := Stacks} = Profile) ->
    {Frames, Places} = numbered(Stacks),
    py_dashboard_json:encode(#{
        '$schema' => <<"https://www.speedscope.app/file-format-schema.json">>,
        exporter => <<"erlang_loop">>,
        shared => #{frames => [#{name => Function, file => File, line => Line} ||
            #{function := Function, file := File, line := Line} <- Frames]},
        profiles => [
            #{
                type => sampled,
                name => Name,
                unit => microseconds,
                startValue => 0,
                endValue => Duration,
                samples => [[map_get(Frame, Places) || Frame <- Each] || #{frames := Each} <- Own],
                weights => [Samples * interval(Profile) || #{samples := Samples} <- Own]
            }
         || {Name, Own} <- by_thread(Stacks)
        ]
    });
text(firefox, #{stacks := Stacks} = Profile) ->
    Millis = interval(Profile) / 1000,
    py_dashboard_json:encode(#{
        meta => #{
            version => 24, interval => Millis, startTime => 0, processType => 0, stackwalk => 0, debug => 0,
            gcpoison => 0, asyncstack => 0, shutdownTime => undefined, product => <<"erlang_loop">>,
            categories => [#{name => <<"Python">>, color => <<"blue">>, subcategories => [<<"Other">>]}],
            markerSchema => []
        },
        libs => [], pages => [], processes => [], pausedRanges => [],
        threads => [thread(Name, At, Profile, Own) ||
            {At, {Name, Own}} <- lists:zip(lists:seq(1, length(by_thread(Stacks))), by_thread(Stacks))]
    }).

%% @doc Writes the profile to a file.
-spec write(file:name_all(), format(), profile()) -> ok | {error, file:posix() | badarg | terminated}.
write(File, Format, Profile) ->
    file:write_file(File, text(Format, Profile)).

interval(#{ticks := 0}) -> 0;
interval(#{ticks := Ticks, duration_us := Duration}) -> Duration div Ticks.

thread_name(#{loop := undefined, task := Function}) -> [<<"call thread">> | named(Function)];
thread_name(#{loop := Loop, task := Task}) -> [<<"loop ", (integer_to_binary(Loop))/binary>> | named(Task)].

named(undefined) -> [];
named(Name) -> [Name].

shown(#{function := Function, file := File, line := Line}) ->
    iolist_to_binary([Function, " (", filename:basename(File), $:, integer_to_binary(Line), $)]).

%% `;' and the end of a line separate.
in_line(Part) ->
    << <<(case Char of $; -> $,; $\n -> $\s; _ -> Char end)>> || <<Char>> <= Part >>.

by_thread(Stacks) ->
    Named = [{iolist_to_binary(lists:join(": ", thread_name(Stack))), Stack} || Stack <- Stacks],
    [{Name, [Stack || {Each, Stack} <- Named, Each =:= Name]} || Name <- lists:usort([Name || {Name, _} <- Named])].

%% All frames, and their places from 0.
numbered(Stacks) ->
    Frames = lists:usort([Frame || #{frames := Each} <- Stacks, Frame <- Each]),
    {Frames, maps:from_list(lists:zip(Frames, lists:seq(0, length(Frames) - 1)))}.

%% A thread in the format of Gecko: tables of strings, frames and stacks, where a stack is its
%% innermost frame and the stack of the rest.
thread(Name, Tid, #{stacks := All, samples := Samples}, Stacks) ->
    {Frames, Places} = numbered(Stacks),
    Prefixes = prefixes(Stacks, Places),
    Numbers = maps:from_list([{{Parent, Frame}, Number} || {Number, Parent, Frame} <- Prefixes]),
    Own = maps:from_list([{Stack, leaf(Stack, Places, Numbers)} || Stack <- Stacks]),
    ByPlace = list_to_tuple(All),
    #{
        name => Name, tid => Tid, pid => 0, processType => default, processName => <<"Python">>, isMainThread => false,
        registerTime => 0, unregisterTime => undefined,
        stringTable => [iolist_to_binary([Function, " (", File, $:, integer_to_binary(Line), $)]) ||
            #{function := Function, file := File, line := Line} <- Frames],
        frameTable => #{
            schema => #{location => 0, relevantForJS => 1, innerWindowID => 2, implementation => 3, line => 4,
                column => 5, category => 6, subcategory => 7},
            data => [[At, false, 0, undefined, Line, undefined, 0, 0] ||
                {At, #{line := Line}} <- lists:zip(lists:seq(0, length(Frames) - 1), Frames)]
        },
        stackTable => #{
            schema => #{prefix => 0, frame => 1},
            data => [[Parent, Frame] || {_, Parent, Frame} <- Prefixes]
        },
        samples => #{
            schema => #{stack => 0, time => 1, eventDelay => 2},
            data => [[map_get(element(Place, ByPlace), Own), Time / 1000, 0] ||
                {Time, Place} <- Samples, is_map_key(element(Place, ByPlace), Own)]
        },
        markers => #{
            schema => #{name => 0, startTime => 1, endTime => 2, phase => 3, category => 4, data => 5},
            data => []
        }
    }.

%% All beginnings of all stacks: `{Number, NumberOfTheRest | undefined, Frame}'.
prefixes(Stacks, Places) ->
    {Known, _} = lists:foldl(
        fun(#{frames := Frames}, Done) ->
            {Result, _} = lists:foldl(
                fun(Frame, {{Numbers, Next}, Parent}) ->
                    Key = {Parent, map_get(Frame, Places)},
                    case Numbers of
                        #{Key := Number} -> {{Numbers, Next}, Number};
                        _ -> {{Numbers#{Key => Next}, Next + 1}, Next}
                    end
                end,
                {Done, undefined},
                Frames
            ),
            Result
        end,
        {#{}, 0},
        Stacks
    ),
    lists:sort([{Number, Parent, Frame} || {{Parent, Frame}, Number} <- maps:to_list(Known)]).

leaf(#{frames := Frames}, Places, Numbers) ->
    lists:foldl(fun(Frame, Parent) -> map_get({Parent, map_get(Frame, Places)}, Numbers) end, undefined, Frames).
