%% @doc What `py_event_loop:start_link/1' may be given, checked: whatever is wrong raises
%% `{bad_option, What, Why}' before anything is started.
-module(py_event_loop_options).

-export([check/1]).
%% For py_event_loop_pool.
-export([bad/2]).
-export_type([checked/0]).

%% For `py_nif:python_loop_start/2', and the rest.
-type checked() :: #{
    name := atom(),
    default := boolean(),
    stuck_policy := py_watchdog:policy() | default,
    group := py_groups:scope() | undefined,
    native := py_nif:python_loop_options()
}.

-spec check(py_event_loop:options()) -> checked().
check(Options) when is_map(Options) ->
    maps:foreach(fun valid/2, Options),
    Name = maps:get(name, Options, undefined),
    Default = maps:get(default, Options, false),
    Waiting = maps:get(waiting, Options, #{}),
    #{
        name => Name,
        default => Default,
        stuck_policy => maps:get(stuck_policy, Options, default),
        group => maps:get(group, Options, undefined),
        native => #{
            name => atom_to_binary(Name),
            init => unicode:characters_to_binary(maps:get(init, Options, <<>>)),
            max_queue => maps:get(max_queue, Options, 100_000),
            max_tasks => maps:get(max_tasks, Options, 1_000_000),
            patience => maps:get(patience, Options, 5000),
            own => thread(Options) =:= own,
            spin => micros(spin, Waiting),
            warm => micros(warm, Waiting)
        }
    };
check(Options) ->
    bad(Options, "the options are a map").

%% How a loop waits is up to its thread, so it needs one.
thread(#{thread := shared, waiting := _} = Options) ->
    bad({thread, maps:get(thread, Options)}, "a loop with `waiting' needs a thread of its own");
thread(#{thread := Thread}) ->
    Thread;
thread(#{waiting := _}) ->
    own;
thread(#{default := true}) ->
    own;
thread(#{}) ->
    shared.

micros(_, beam) -> 0;
micros(spin, #{spin := Micros}) -> Micros;
micros(warm, #{warm := Millis}) -> Millis * 1000;
micros(_, #{}) -> -1.

-define(OPTIONS, [
    "name", "init", "isolated", "thread", "waiting", "max_queue", "max_tasks", "patience",
    "stuck_policy", "callbacks", "place", "group"
]).
-define(IS_UP_TO(Value, Max), (is_integer(Value) andalso Value >= 0 andalso Value =< Max)).

valid(name, Name) when is_atom(Name), Name =/= undefined ->
    ok;
valid(name, Name) ->
    bad({name, Name}, "an atom that a process may be registered as");
valid(init, Code) ->
    try unicode:characters_to_binary(Code) of
        Text when is_binary(Text) -> ok;
        _ -> bad({init, Code}, "Python code as text")
    catch
        error:badarg -> bad({init, Code}, "Python code as text")
    end;
valid(isolated, true) ->
    ok;
valid(isolated, Isolated) ->
    bad({isolated, Isolated}, "true: a loop that Erlang starts always has a process of its own");
valid(thread, Thread) when Thread =:= own; Thread =:= shared ->
    ok;
valid(thread, Thread) ->
    bad({thread, Thread}, "own or shared");
valid(waiting, beam) ->
    ok;
valid(waiting, Waiting) when is_map(Waiting) ->
    maps:foreach(fun valid_waiting/2, Waiting);
valid(waiting, Waiting) ->
    bad({waiting, Waiting}, "beam, or a map with spin and warm");
valid(max_queue, Limit) when is_integer(Limit), Limit > 0 ->
    ok;
valid(max_queue, Limit) ->
    bad({max_queue, Limit}, "a positive number of requests");
valid(max_tasks, Limit) when is_integer(Limit), Limit > 0 ->
    ok;
valid(max_tasks, Limit) ->
    bad({max_tasks, Limit}, "a positive number of requests");
valid(patience, Millis) when is_integer(Millis), Millis >= 0 ->
    ok;
valid(patience, Millis) ->
    bad({patience, Millis}, "a number of milliseconds");
valid(stuck_policy, Policy) when Policy =:= report; Policy =:= interrupt; Policy =:= restart ->
    ok;
valid(stuck_policy, Policy) ->
    bad({stuck_policy, Policy}, "report, interrupt or restart");
valid(group, Scope) when is_atom(Scope), Scope =/= undefined ->
    ok;
valid(group, Scope) ->
    bad({group, Scope}, "an atom, the name of a group");
valid(default, Default) when is_boolean(Default) ->
    ok;
valid(Key, Value) ->
    bad({Key, Value}, "no such option; the options are " ++ lists:flatten(lists:join(", ", ?OPTIONS))).

valid_waiting(spin, Micros) when ?IS_UP_TO(Micros, 1_000_000) ->
    ok;
valid_waiting(spin, Micros) ->
    bad({waiting, #{spin => Micros}}, "spin: microseconds, a million at most");
valid_waiting(warm, Millis) when ?IS_UP_TO(Millis, 3_600_000) ->
    ok;
valid_waiting(warm, Millis) ->
    bad({waiting, #{warm => Millis}}, "warm: milliseconds, an hour at most");
valid_waiting(Key, Value) ->
    bad({waiting, #{Key => Value}}, "beam, or a map with spin and warm").

-spec bad(term(), string()) -> no_return().
bad(What, Why) ->
    error({bad_option, What, Why}, none, [{error_info, #{module => py_error}}]).
