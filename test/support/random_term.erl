%% @doc Random terms, and what they are after a visit to Python (docs/values.md).
-module(random_term).

-export([make/1, key/1, after_python/1]).

%% @doc Any term that Python takes, of about this size. `rand' decides: seed it, and say so.
-spec make(non_neg_integer()) -> term().
make(Size) when Size =< 0 ->
    leaf();
make(Size) ->
    case rand:uniform(7) of
        7 -> set(Size);
        1 -> [make(Part) || Part <- parts(Size)];
        2 -> list_to_tuple([make(Part) || Part <- parts(Size)]);
        3 -> maps:from_list([{key(Part div 2), make(Part div 2)} || Part <- parts(Size)]);
        _ -> leaf()
    end.

%% @doc A term that can be the key of a dict.
-spec key(non_neg_integer()) -> term().
key(Size) when Size =< 0 -> leaf();
key(Size) ->
    case rand:uniform(4) of
        1 -> list_to_tuple([key(Part) || Part <- parts(Size)]);
        _ -> leaf()
    end.

set(Size) ->
    Members = lists:usort([key(Part) || Part <- parts(Size)]),
    {pick([set, frozenset]), Members}.

parts(Size) ->
    Count = rand:uniform(6) - 1,
    [(Size - 1) div max(1, Count) || _ <- lists:seq(1, Count)].

leaf() ->
    case rand:uniform(16) of
        1 -> rand:uniform(256) - 128;
        2 -> rand:uniform(1 bsl 64) - (1 bsl 63);
        3 -> sign() * rand:uniform(1 bsl rand:uniform(2000));
        4 -> sign() * (1 bsl (8 * rand:uniform(300))) + rand:uniform(3) - 2;
        5 -> float_of(<<(rand:uniform(1 bsl 64) - 1):64>>);
        6 -> text(rand:uniform(12) - 1);
        7 -> text(rand:uniform(200));
        8 -> {bytes, rand:bytes(rand:uniform(20) - 1)};
        9 -> bits(rand:uniform(100) - 1);
        10 -> pick([true, false, none, nil, undefined, ok, '', 'with space', 'ζ', bytes, set]);
        11 -> pick([[], {}, #{}]);
        12 -> pick([self(), make_ref(), hd(erlang:ports())]);
        13 -> pick([fun lists:map/2, fun(X) -> X end, far_pid(), far_ref(), far_port()]);
        14 -> "charlist";
        15 -> tagged();
        16 -> almost_tagged()
    end.

%% Tuples that are objects in Python.
tagged() ->
    pick([
        {datetime, {a_date(), a_time()}, micro(), pick([none, 0, rand:uniform(172_799) - 86_400])},
        {date, a_date()},
        {time, a_time(), micro()},
        {timedelta, rand:uniform(2_000_000) - 1_000_000, rand:uniform(86_400) - 1, micro()},
        {complex, float_of(rand:bytes(8)), float_of(rand:bytes(8))},
        {fraction, 2 * (rand:uniform(1 bsl 70) - (1 bsl 69)) + 1, 1 bsl rand:uniform(70)},
        {decimal, integer_to_binary(rand:uniform(1 bsl 80))},
        {uuid, uuid(rand:bytes(16))}
    ]).

a_date() -> {rand:uniform(9999), rand:uniform(12), rand:uniform(28)}.
a_time() -> {rand:uniform(24) - 1, rand:uniform(60) - 1, rand:uniform(60) - 1}.
micro() -> rand:uniform(1_000_000) - 1.

uuid(Bytes) ->
    <<A:8/binary, B:4/binary, C:4/binary, D:4/binary, E/binary>> =
        string:lowercase(binary:encode_hex(Bytes)),
    iolist_to_binary(lists:join("-", [A, B, C, D, E])).

%% Their tags, but not their form.
almost_tagged() ->
    Tag = pick([datetime, date, time, timedelta, complex, fraction, decimal, uuid, set, frozenset, ndarray, view]),
    list_to_tuple([Tag | lists:duplicate(rand:uniform(4) - 1, pick([1, 'ζ', {}, {1, 2}]))]).

sign() -> pick([1, -1]).

pick(From) -> lists:nth(rand:uniform(length(From)), From).

%% nan and infinity are no floats in Erlang.
float_of(<<Float/float>>) -> Float;
float_of(_) -> 0.5.

text(Length) ->
    Chars = [pick([rand:uniform(127), 16#e9, 16#3b6, 16#20ac, 16#1f40d, 0]) || _ <- lists:seq(1, Length)],
    unicode:characters_to_binary(Chars).

bits(Count) ->
    <<Number:Count, _/bits>> = <<(rand:uniform(1 bsl 128) - 1):128>>,
    case Count rem 8 of
        %% A binary would be text.
        0 -> <<Number:Count, 1:1>>;
        _ -> <<Number:Count>>
    end.

%% Of another node, which does not exist.
far_pid() -> binary_to_term(<<131, 88, (far_node())/binary, 77:32, 3:32, 5:32>>).
far_port() -> binary_to_term(<<131, 89, (far_node())/binary, 77:32, 5:32>>).
far_ref() -> binary_to_term(<<131, 90, 3:16, (far_node())/binary, 5:32, 1:32, 2:32, 3:32>>).

far_node() -> <<119, 8, "far@away">>.

%% @doc The term as it comes back from Python, or `refused' if Python cannot have it.
-spec after_python(term()) -> {ok, term()} | refused.
after_python(Term) ->
    try
        {ok, back(Term)}
    catch
        throw:refused -> refused
    end.

back(undefined) -> none;
back(nil) -> none;
back({Set, Members}) when Set =:= set; Set =:= frozenset ->
    case is_list(Members) of
        true -> {Set, lists:sort(members(Members))};
        false -> {Set, back(Members)}
    end;
back({bytes, Bytes}) when is_binary(Bytes) -> Bytes;
back(List) when is_list(List) -> [back(Element) || Element <- List];
back(Tuple) when is_tuple(Tuple) -> list_to_tuple(back(tuple_to_list(Tuple)));
back(Map) when is_map(Map) ->
    Keys = maps:keys(Map),
    lists:any(fun unhashable/1, Keys) andalso throw(refused),
    AsPython = lists:usort([python_key(Key) || Key <- Keys]),
    length(AsPython) =:= length(Keys) orelse throw(refused),
    Back = maps:from_list([{back(Key), back(Value)} || {Key, Value} <- maps:to_list(Map)]),
    %% `bytes' and `str' differ in Python but are one binary here.
    map_size(Back) =:= length(Keys) orelse throw(refused),
    Back;
back(Other) -> Other.

members(Members) ->
    lists:any(fun unhashable/1, Members) andalso throw(refused),
    Back = [back(Member) || Member <- Members],
    Different = fun(Of) -> length(lists:usort(Of)) =:= length(Members) end,
    Different([python_key(Member) || Member <- Members]) andalso Different(Back) orelse throw(refused),
    Back.

unhashable({set, Members}) when is_list(Members) -> true;
unhashable({frozenset, Members}) when is_list(Members) -> lists:any(fun unhashable/1, Members);
unhashable(Key) when is_list(Key); is_map(Key) -> true;
unhashable(Key) when is_tuple(Key) -> lists:any(fun unhashable/1, tuple_to_list(Key));
unhashable(_) -> false.

%% Equal here if the keys are equal in Python.
python_key(Nothing) when Nothing =:= undefined; Nothing =:= nil -> none;
python_key(none) -> none;
python_key(true) -> {number, 1};
python_key(false) -> {number, 0};
python_key(Atom) when is_atom(Atom) -> atom_to_binary(Atom);
python_key(Float) when is_float(Float), trunc(Float) == Float -> {number, trunc(Float)};
python_key(Number) when is_number(Number) -> {number, Number};
python_key({bytes, Bytes}) when is_binary(Bytes) -> {bytes, Bytes};
python_key({frozenset, Members}) when is_list(Members) ->
    {frozenset, lists:sort([python_key(Member) || Member <- Members])};
%% Numbers of all kinds that are equal are one key.
python_key({fraction, Number, 1}) -> {number, Number};
python_key(Tuple) when is_tuple(Tuple) ->
    {tuple, [python_key(Element) || Element <- tuple_to_list(Tuple)]};
python_key(Other) -> Other.
