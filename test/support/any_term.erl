%% @doc Any term at all, for functions that must survive any argument.
%%
%% Unlike {@link random_term}, whose terms Python takes, these are mostly wrong: improper lists,
%% broken UTF-8, integers beyond every limit, references to nothing. `rand' decides.
-module(any_term).

-export([make/1, integer/0, bytes/0, pick/1]).

%% @doc A term of about this size.
-spec make(non_neg_integer()) -> term().
make(Size) when Size =< 0 ->
    leaf();
make(Size) ->
    case rand:uniform(9) of
        1 -> [make(Part) || Part <- parts(Size)];
        2 -> list_to_tuple([make(Part) || Part <- parts(Size)]);
        3 -> maps:from_list([{make(Part div 2), make(Part div 2)} || Part <- parts(Size)]);
        4 -> improper(parts(Size));
        5 -> nested(rand:uniform(50) * Size);
        _ -> leaf()
    end.

parts(Size) ->
    Count = rand:uniform(6) - 1,
    [(Size - 1) div max(1, Count) || _ <- lists:seq(1, Count)].

improper([]) -> [leaf() | leaf()];
improper(Parts) -> lists:foldl(fun(Part, Tail) -> [make(Part) | Tail] end, leaf(), Parts).

nested(Depth) ->
    lists:foldl(
        fun(_, Inner) ->
            case rand:uniform(3) of
                1 -> [Inner];
                2 -> {Inner};
                3 -> #{k => Inner}
            end
        end,
        leaf(),
        lists:seq(1, Depth)
    ).

leaf() ->
    case rand:uniform(14) of
        1 -> integer();
        2 -> integer();
        3 -> pick([0.0, -0.0, 1.5, -1.0e308, 5.0e-324, 1.0e16]);
        4 -> bytes();
        5 -> bytes();
        6 -> <<(rand:uniform(1 bsl 61)):(rand:uniform(60))>>;
        7 -> pick([true, false, none, undefined, nil, ok, '', infinity, default, 'ζ ', sigusr1]);
        8 -> pick([[], {}, #{}, "text", [<<"x">>], [1 | 2], {bytes, <<255>>}, {bytes, <<1:3>>}]);
        9 -> pick([self(), make_ref(), hd(erlang:ports()), far_pid(), far_ref(), far_port()]);
        10 -> pick([fun lists:map/2, fun no_module:no_function/9, fun(X) -> X end]);
        11 -> work();
        12 -> [rand:uniform(16#110000) || _ <- lists:seq(1, rand:uniform(6))];
        13 -> lists:seq(1, rand:uniform(300));
        14 -> maps:from_keys(lists:seq(1, rand:uniform(300)), x)
    end.

%% At and around the borders of machine words, and far beyond. Small numbers that could be the fd
%% of something else are left out: an fd is what a number says it is, and closing one is no bug.
-spec integer() -> integer().
integer() ->
    Border = 1 bsl pick([15, 16, 27, 28, 31, 32, 53, 59, 60, 63, 64, 128, 2000, 70_000]),
    pick([
        0,
        -1,
        -rand:uniform(1 bsl 40),
        pick([1, -1]) * Border + rand:uniform(3) - 2,
        rand:uniform(1 bsl 62) + (1 bsl 20)
    ]).

%% Text, not quite text, and anything.
-spec bytes() -> binary().
bytes() ->
    case rand:uniform(8) of
        1 -> <<>>;
        2 -> rand:bytes(rand:uniform(40));
        3 -> <<"text", 0, "zero">>;
        4 -> pick([<<16#ed, 16#a0, 16#80>>, <<16#c0, 16#80>>, <<16#f4, 16#90, 16#80, 16#80>>, <<"x", 195>>]);
        5 -> binary:copy(<<"long ">>, rand:uniform(20_000));
        %% A part of a larger binary, not on a border of bytes.
        6 -> part(rand:bytes(100));
        7 -> pick([<<"None">>, <<"1 +">>, <<"called">>, <<"add">>, <<"no such module">>, <<"127.0.0.1">>]);
        8 -> unicode:characters_to_binary([pick([16#e9, 16#20ac, 16#1f40d, $a]) || _ <- lists:seq(1, 20)])
    end.

part(<<_:3, Part:50/binary, _/bits>>) -> Part.

%% What a request may look like, with holes.
work() ->
    pick([
        {call, hole(called), hole(add), hole([1, 2]), hole(#{})},
        {inline, hole(called), hole(add), hole([1, 2]), hole(#{})},
        {eval, hole(<<"1 + x">>), hole(#{x => 1})},
        {exec, hole(<<"x = 1">>), hole(#{})},
        {call},
        {}
    ]).

hole(Good) ->
    case rand:uniform(3) of
        1 -> leaf();
        _ -> Good
    end.

-spec pick([T]) -> T.
pick(From) -> lists:nth(rand:uniform(length(From)), From).

%% Of another node, which does not exist.
far_pid() -> binary_to_term(<<131, 88, (far_node())/binary, 77:32, 3:32, 5:32>>).
far_port() -> binary_to_term(<<131, 89, (far_node())/binary, 77:32, 5:32>>).
far_ref() -> binary_to_term(<<131, 90, 3:16, (far_node())/binary, 5:32, 1:32, 2:32, 3:32>>).

far_node() -> <<119, 8, "far@away">>.
