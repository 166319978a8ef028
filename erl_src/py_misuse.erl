%% @doc Which argument of a public function is wrong, and why.
%%
%% Misuse raises `badarg'. With what is here the shell, `erl_error' and crash reports print which
%% argument it was, as for the functions of OTP:
%%
%% ```
%% 1> py:call(math, sqrt, 16).
%% ** exception error: bad argument
%%      in function  py:call/5
%%         called as py:call(math,sqrt,16,#{},5000)
%%         *** argument 3: not a list: pass the arguments of a function as a list, such as [16]
%% '''
%%
%% The arguments are looked at only when something has raised `badarg'; a right call pays nothing.
-module(py_misuse).

-export([explain/4, info/1, text/2]).
-export([format_error/2]).

-export_type([kind/0]).

-type kind() ::
    name
    %% Of a module, or an object.
    | module_or_object
    | object
    | namespace
    | copy
    | file
    | line
    | args
    | kwargs
    | variables
    | code
    | timeout
    | loop
    | loop_ref
    | pool
    | task
    | task_or_stream
    | stream
    | demand
    | count
    | consumer
    | stream_options
    | channel
    | channel_options
    | channel_type
    | limit
    | fold_options
    | loop_stream_options
    | profile_options
    | {from_to, integer(), integer()}
    | return
    | return_of_items
    | values
    | {one_of, [atom()]}
    %% A map with some of these.
    | {options, [atom()]}
    | {timeout_or_options, [atom()]}
    | {function, arity()}
    | any.

%% @doc Raises again the `badarg' that `Function' has caught, now as an error of that function with
%% its wrong arguments named. `Arguments' has all of them in their order. If none is wrong, a fun of
%% the caller has raised it: then it is raised as it was.
-spec explain(module(), atom(), [{kind(), term()}], erlang:stacktrace()) -> no_return().
explain(Module, Function, Arguments, Stack) ->
    Texts = [problem(Kind, Value) || {Kind, Value} <- Arguments],
    case maps:from_list([{N, Text} || {N, {wrong, Text}} <- lists:enumerate(Texts)]) of
        None when map_size(None) =:= 0 ->
            erlang:raise(error, badarg, Stack);
        Wrong ->
            {Location, Callers} = place(Module, Function, Stack),
            Values = [Value || {_, Value} <- Arguments],
            Named = {Module, Function, Values, Location ++ info(Wrong)},
            erlang:raise(error, badarg, [Named | Callers])
    end.

%% Where in its file the function stands, and the frames below it.
place(Module, Function, [{Module, Function, _, Location} | Callers]) -> {Location, Callers};
place(Module, Function, [_ | Callers]) -> place(Module, Function, Callers);
place(_, _, []) -> {[], []}.

%% @doc For `erlang:error/3', with a text for each wrong argument.
-spec info(#{pos_integer() => unicode:chardata()}) -> [{error_info, map()}].
info(Wrong) ->
    [{error_info, #{module => ?MODULE, cause => Wrong}}].

%% @doc What is wrong with a value that is not of this kind.
-spec text(kind(), term()) -> unicode:chardata().
text(Kind, Value) ->
    {wrong, Text} = problem(Kind, Value),
    Text.

%% @doc For `erl_error'.
-spec format_error(term(), erlang:stacktrace()) -> #{pos_integer() => unicode:chardata()}.
format_error(_Reason, [{_, _, _, Location} | _]) ->
    #{cause := Wrong} = proplists:get_value(error_info, Location),
    Wrong.

%% What each kind must be

problem(Any, _) when Any =:= any; Any =:= affinity ->
    right;
problem(name, Value) ->
    wrong_unless(
        is_atom(Value) orelse is_text(Value),
        "not a name: an atom, a UTF-8 binary or a string"
    );
problem(module_or_object, Value) when is_reference(Value) ->
    problem(object, Value);
problem(module_or_object, Value) ->
    problem(name, Value);
problem(object, Value) when is_reference(Value) ->
    wrong_unless(
        is_resource(object_type, Value),
        "not a reference to a Python object of this node since its start"
    );
problem(object, _) ->
    {wrong, "not a reference to a Python object: the option return => ref returns one"};
problem(Option, Value) when Option =:= namespace; Option =:= copy ->
    problem(object, Value);
problem(file, Value) ->
    problem(name, Value);
problem(line, Value) ->
    wrong_unless(
        is_integer(Value) andalso Value > 0 andalso Value =< 10_000_000,
        "not a line: a number from 1 to 10000000"
    );
problem(args, Value) when is_list(Value) ->
    wrong_unless(is_proper(Value), "not a proper list");
problem(args, _) ->
    {wrong, "not a list: pass the arguments of a function as a list, such as [16]"};
problem(kwargs, Value) ->
    wrong_unless(is_map(Value), "not a map: pass keyword arguments as a map, such as #{name => value}");
problem(variables, Value) ->
    wrong_unless(is_map(Value), "not a map: pass variables as a map, such as #{name => value}");
problem(code, Value) ->
    wrong_unless(is_chardata(Value), "not Python code as text: a UTF-8 binary or a string");
problem(timeout, Value) ->
    wrong_unless(
        py:is_timeout(Value), "not a timeout: milliseconds from 0 to 4294967295, or infinity"
    );
problem(loop, Value) ->
    wrong_unless(
        is_atom(Value) orelse is_pid(Value),
        "not a loop: the name or the pid of one"
    );
problem(loop_ref, Value) ->
    wrong_unless(is_resource(event_loop_info, Value), "not a loop of py_nif:event_loop_new/0");
problem(pool, Value) ->
    wrong_unless(is_atom(Value), "not the name of a pool");
problem(task, _) ->
    {wrong, "not a task of py:submit/3"};
problem(task_or_stream, _) ->
    {wrong, "not a task of py:submit/3 nor a stream of py:stream/3"};
problem(stream, Value) ->
    wrong_unless(
        py_remote:is_stream(Value) orelse is_resource(request_is_open, Value),
        "not a stream of py:stream/3"
    );
problem(demand, Value) ->
    wrong_unless(
        is_integer(Value) andalso Value > 0 andalso Value < 1 bsl 64,
        "not a positive number of items"
    );
problem(count, Value) ->
    wrong_unless(
        is_integer(Value) andalso Value >= 0 andalso Value < 1 bsl 64, "not a number of items"
    );
problem(consumer, Value) ->
    wrong_unless(is_pid(Value) andalso node(Value) =:= node(), "not a process of this node");
problem({function, Arity}, Value) ->
    wrong_unless(
        is_function(Value, Arity), io_lib:format("not a fun of ~b arguments", [Arity])
    );
problem(return, Value) ->
    wrong_unless(lists:member(Value, [value, ref, each]), "none of value, ref, each");
problem(return_of_items, each) ->
    {wrong, "a stream has no list of results: value or ref"};
problem(return_of_items, Value) ->
    problem(return, Value);
problem(values, Value) ->
    options(Value, #{
        none => {one_of, [none, nil, null, undefined]},
        non_finite => {one_of, [error, atoms]},
        namedtuples => {one_of, [tuples, maps]}
    });
problem({one_of, Known}, Value) ->
    Names = lists:join(", ", [atom_to_list(Name) || Name <- Known]),
    wrong_unless(lists:member(Value, Known), ["none of ", Names]);
problem({timeout_or_options, Names}, Value) when is_map(Value) ->
    problem({options, Names}, Value);
problem({timeout_or_options, _}, Value) ->
    problem(timeout, Value);
problem({options, Names}, Value) ->
    %% An option is of the kind of its name.
    options(Value, maps:from_list([{Name, Name} || Name <- Names]));
problem(stream_options, Value) ->
    options(Value, #{demand => count, to => consumer, loop => loop, return => return_of_items, values => values});
problem(loop_stream_options, Value) ->
    options(Value, #{demand => count, to => consumer, return => return_of_items, values => values});
problem(pool_stream_options, Value) ->
    options(Value, #{
        demand => count, to => consumer, return => return_of_items, values => values, affinity => any
    });
problem(channel, Value) ->
    wrong_unless(is_resource(channel_info, Value), "not a channel of py:channel/1");
problem(channel_type, Value) ->
    wrong_unless(Value =:= terms orelse Value =:= bytes, "not a type: terms or bytes");
problem(limit, Value) ->
    wrong_unless(
        is_integer(Value) andalso Value > 0 andalso Value < 1 bsl 64,
        "not a limit: a positive number of items, or of bytes"
    );
problem(profile_options, Value) ->
    options(Value, #{ms => {from_to, 1, 3_600_000}, interval_us => {from_to, 100, 10_000_000}});
problem({from_to, From, To}, Value) ->
    wrong_unless(
        is_integer(Value) andalso Value >= From andalso Value =< To,
        io_lib:format("not a number from ~b to ~b", [From, To])
    );
problem(channel_options, Value) ->
    options(Value, #{limit => limit, type => channel_type, owner => consumer});
problem(fold_options, Value) ->
    options(Value, #{demand => demand, timeout => timeout, loop => loop, return => return_of_items, values => values}).

options(Options, Kinds) when is_map(Options) ->
    option(lists:sort(maps:to_list(Options)), Kinds);
options(_, _) ->
    {wrong, "not a map: options are one, as #{name => value}"}.

option([], _) ->
    right;
option([{Name, Value} | Rest], Kinds) ->
    case Kinds of
        #{Name := Kind} ->
            case problem(Kind, Value) of
                right -> option(Rest, Kinds);
                {wrong, Text} -> {wrong, io_lib:format("option ~p: ~ts", [Name, Text])}
            end;
        #{} ->
            Known = lists:join(", ", [atom_to_list(K) || K <- lists:sort(maps:keys(Kinds))]),
            {wrong, io_lib:format("no such option: ~0tP; the options are ~ts", [Name, 20, Known])}
    end.

wrong_unless(true, _Text) -> right;
wrong_unless(false, Text) -> {wrong, Text}.

is_proper(List) ->
    try length(List) of
        _ -> true
    catch
        error:badarg -> false
    end.

is_text(Value) when is_binary(Value) -> is_chardata(Value);
is_text(Value) when is_list(Value) -> is_proper(Value) andalso lists:all(fun is_char/1, Value);
is_text(_) -> false.

%% As Rust has it: surrogates are none.
is_char(Char) ->
    is_integer(Char) andalso is_chardata([Char]).

is_chardata(Value) ->
    try unicode:characters_to_binary(Value) of
        Text -> is_binary(Text)
    catch
        error:badarg -> false
    end.

%% Whether this function of py_nif takes it.
is_resource(Function, Value) ->
    try py_nif:Function(Value) of
        _ -> true
    catch
        error:badarg -> false
    end.
