%% @private
%% @doc Where a loop lives, checked: the option `place' of `py_event_loop:start_link/1'.
-module(py_peer_options).

-export([check/1]).

-export_type([place/0, options/0, limits/0, checked/0]).

-type place() :: peer | {peer, options()} | node().
-type options() :: #{
    %% Settings of the application `erlang_loop' that are not those of this node: `venv', `python_path'.
    settings => #{atom() => term()},
    %% Environment variables, `false' to remove one.
    env => [{Name :: string(), Value :: string() | false}],
    %% Further arguments of `erl'.
    args => [string()],
    %% Milliseconds until the peer's node is up, without the init code. Default: 60,000.
    start_timeout => timeout(),
    %% Milliseconds after a caller's timeout after which a peer that hangs is killed. Default: 30,000.
    kill_after => timeout(),
    limits => limits()
}.
-type limits() :: #{
    %% Seconds of CPU time; then the kernel sends SIGXCPU.
    cpu => pos_integer(),
    %% Open files, at least 64; then `open()' fails.
    files => pos_integer(),
    %% Bytes of memory in use; then the peer is killed.
    max_rss => pos_integer(),
    %% Requests, and seconds since the start: then the peer ends after what it has begun. Each
    %% peer's limit is up to a tenth smaller, by chance.
    requests => pos_integer(),
    lifetime => pos_integer()
}.
-type checked() :: {peer, options()} | {node, node()}.

-define(DEFAULTS, #{
    settings => #{}, env => [], args => [], start_timeout => 60_000, kill_after => 30_000,
    limits => #{}
}).

%% @doc Raises `{bad_option, What, Why}'.
-spec check(term()) -> checked().
check(peer) ->
    {peer, ?DEFAULTS};
check({peer, Options}) when is_map(Options) ->
    maps:foreach(fun valid/2, Options),
    {peer, maps:merge(?DEFAULTS, Options)};
check(Node) when Node =:= node() ->
    bad({place, Node}, "another node: a loop of this one has no place");
check(Node) when is_atom(Node) ->
    case string:split(atom_to_list(Node), "@") of
        [[_ | _], [_ | _]] -> {node, Node};
        _ -> bad({place, Node}, place())
    end;
check(Place) ->
    bad({place, Place}, place()).

place() ->
    "peer, {peer, Options} or the name of a node".

valid(settings, Settings) when is_map(Settings) ->
    maps:foreach(fun setting/2, Settings);
valid(settings, Settings) ->
    bad({settings, Settings}, "a map of settings of the application erlang_loop");
valid(env, Env) ->
    is_list(Env) andalso lists:all(fun is_variable/1, Env) orelse
        bad({env, Env}, "a list of {Name, Value}: strings, or false to remove a variable");
valid(args, Args) ->
    is_list(Args) andalso lists:all(fun io_lib:char_list/1, Args) orelse
        bad({args, Args}, "a list of strings, arguments of erl");
valid(Key, Timeout) when Key =:= start_timeout; Key =:= kill_after ->
    py:is_timeout(Timeout) orelse
        bad({Key, Timeout}, "milliseconds, or infinity");
valid(limits, Limits) when is_map(Limits) ->
    maps:foreach(fun limit/2, Limits);
valid(limits, Limits) ->
    bad({limits, Limits}, "a map with cpu, files, lifetime, max_rss, requests");
valid(Key, Value) ->
    bad({Key, Value}, "no such option of a peer; the options are args, env, kill_after, limits, settings, start_timeout").

limit(Name, Value) when Name =:= cpu; Name =:= max_rss; Name =:= requests ->
    is_integer(Value) andalso Value > 0 orelse bad({limits, #{Name => Value}}, "a positive number");
%% At most what a timer can be set to.
limit(lifetime, Value) ->
    is_integer(Value) andalso Value > 0 andalso Value =< 4_294_967 orelse
        bad({limits, #{lifetime => Value}}, "seconds, at most 4,294,967");
limit(files, Value) ->
    is_integer(Value) andalso Value >= 64 orelse
        bad({limits, #{files => Value}}, "a number, at least 64");
limit(Name, Value) ->
    bad({limits, #{Name => Value}}, "no such limit; the limits are cpu, files, lifetime, max_rss, requests").

%% The peer's own node checks the value: some are paths of what is to be there.
setting(Name, Value) ->
    lists:keymember(Name, 1, py_settings:table()) orelse
        bad({settings, #{Name => Value}}, "erlang_loop has no such setting").

is_variable({[_ | _] = Name, false}) -> io_lib:char_list(Name);
is_variable({[_ | _] = Name, Value}) -> io_lib:char_list(Name) andalso io_lib:char_list(Value);
is_variable(_) -> false.

-spec bad(term(), string()) -> no_return().
bad(What, Why) ->
    py_event_loop_options:bad(What, Why).
