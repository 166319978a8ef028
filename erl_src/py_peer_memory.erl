%% @private
%% @doc Large binaries in messages between a node and its peer: they cross as memory that both map,
%% not through the connection.
%%
%% A message with large binaries becomes a *parcel*: the message with marks in their places, and what
%% is shared. Each binary is copied into a sealed file once, or not at all if it comes from such a
%% file already (`requests/memory_link.rs'). Only the proxy and the agent send the files, so that a
%% caller that is killed cannot leave one in the socket. On the wire a parcel is
%%
%% ```
%% {py_large, Mark, Parts, Message}
%% '''
%%
%% where a part is the number of a file, or the binary itself if it could not be shared: no memory,
%% no fd, or a full socket.
-module(py_peer_memory).

-export([listen/0, accept/2, connect/1, take_out/1, sent/2, put_back/2, counts/1]).

-export_type([parcel/0, large/0, address/0]).

-type address() :: {Name :: binary(), Secret :: binary()}.
%% With the binary as a function, which is not printed when a process that has it crashes.
-type parcel() :: {reference(), term(), [{fun(() -> binary()), py_nif:memory_share()}]}.
-type large() :: {py_large, reference(), [non_neg_integer() | binary()], term()}.

%% Below this size a copy through the connection is faster: see docs/peers.md.
-define(FROM, 262144).
%% Binaries of one message; each has an fd on its way.
-define(MOST, 64).

%% @doc Where a peer of the calling process connects. The name is that of an abstract socket, which
%% every process of the machine can see, so there is a secret, too.
-spec listen() -> {ok, py_nif:memory_listener(), address()} | {error, term()}.
listen() ->
    Name = <<"erlang_loop.", (random())/binary>>,
    case py_nif:memory_listen(Name) of
        {ok, Listener} -> {ok, Listener, {Name, random()}};
        {error, Reason} -> {error, Reason}
    end.

random() ->
    {ok, File} = file:open("/dev/urandom", [read, raw, binary]),
    {ok, Bytes} = file:read(File, 20),
    ok = file:close(File),
    binary:encode_hex(Bytes).

%% @doc After the peer has connected.
-spec accept(py_nif:memory_listener(), address()) -> {ok, py_nif:memory_link()} | {error, term()}.
accept(Listener, {_, Secret}) ->
    py_nif:memory_accept(Listener, Secret).

-spec connect(address()) -> {ok, py_nif:memory_link()} | {error, term()}.
connect({Name, Secret}) ->
    py_nif:memory_connect(Name, Secret).

%% @doc `none': the message has no large binaries, or they cannot be shared.
-spec take_out(term()) -> parcel() | none.
take_out(Message) ->
    case has_large(Message) of
        true -> parcel(Message);
        false -> none
    end.

has_large(Term) when is_binary(Term) -> byte_size(Term) >= ?FROM;
has_large([First | Rest]) -> has_large(First) orelse has_large(Rest);
has_large(Term) when is_tuple(Term) -> element_is_large(Term, tuple_size(Term));
has_large(Term) when is_map(Term) -> value_is_large(maps:next(maps:iterator(Term)));
has_large(_) -> false.

element_is_large(_, 0) -> false;
element_is_large(Tuple, N) -> has_large(element(N, Tuple)) orelse element_is_large(Tuple, N - 1).

value_is_large(none) -> false;
value_is_large({_, Value, Rest}) -> has_large(Value) orelse value_is_large(maps:next(Rest)).

parcel(Message) ->
    Mark = make_ref(),
    case out(Message, {Mark, 0, []}) of
        {_, {_, 0, []}} -> none;
        {Marked, {_, _, Shares}} -> {Mark, Marked, lists:reverse(Shares)}
    end.

out(Term, {Mark, N, Shares} = Found) when is_binary(Term), byte_size(Term) >= ?FROM, N < ?MOST ->
    case py_nif:memory_share(Term) of
        {ok, Share} -> {{Mark, N + 1}, {Mark, N + 1, [{fun() -> Term end, Share} | Shares]}};
        {error, _} -> {Term, Found}
    end;
out([First | Rest], Found) ->
    {First1, Found1} = out(First, Found),
    {Rest1, Found2} = out(Rest, Found1),
    {[First1 | Rest1], Found2};
out(Term, Found) when is_tuple(Term) ->
    {Elements, Found1} = out(tuple_to_list(Term), Found),
    {list_to_tuple(Elements), Found1};
out(Term, Found) when is_map(Term) ->
    {Values, Found1} = lists:mapfoldl(
        fun({Key, Value}, Before) ->
            {Value1, After} = out(Value, Before),
            {{Key, Value1}, After}
        end,
        Found,
        maps:to_list(Term)
    ),
    {maps:from_list(Values), Found1};
out(Term, Found) ->
    {Term, Found}.

%% @doc Sends the files; then the result must be sent to the other side.
-spec sent(py_nif:memory_link(), parcel()) -> large().
sent(Link, {Mark, Message, Shares}) ->
    Parts = [
        case py_nif:memory_send(Link, Share) of
            {ok, Number} -> Number;
            {error, _} -> Binary()
        end
     || {Binary, Share} <- Shares
    ],
    {py_large, Mark, Parts, Message}.

%% @doc The message as it was. In an error it has the marks: this process has no memory or no fds.
-spec put_back(py_nif:memory_link(), large()) -> {ok, term()} | {error, py:reason(), term()}.
put_back(Link, {py_large, Mark, Parts, Message}) ->
    %% All, so that none is left in the socket.
    Taken = [take(Link, Part) || Part <- Parts],
    case [Reason || {error, Reason} <- Taken] of
        [] -> {ok, back(Message, Mark, list_to_tuple([Binary || {ok, Binary} <- Taken]))};
        [Reason | _] -> {error, {large_data, Reason}, Message}
    end.

take(_Link, Binary) when is_binary(Binary) -> {ok, Binary};
take(Link, Number) -> py_nif:memory_take(Link, Number).

back({Mark, N}, Mark, Binaries) ->
    element(N, Binaries);
back([First | Rest], Mark, Binaries) ->
    [back(First, Mark, Binaries) | back(Rest, Mark, Binaries)];
back(Term, Mark, Binaries) when is_tuple(Term) ->
    list_to_tuple(back(tuple_to_list(Term), Mark, Binaries));
back(Term, Mark, Binaries) when is_map(Term) ->
    maps:map(fun(_, Value) -> back(Value, Mark, Binaries) end, Term);
back(Term, _Mark, _Binaries) ->
    Term.

%% @doc Of what this side has sent.
-spec counts(py_nif:memory_link() | none) ->
    #{binaries | bytes | copies | copied_bytes => non_neg_integer()}.
counts(none) ->
    #{binaries => 0, bytes => 0, copies => 0, copied_bytes => 0};
counts(Link) ->
    {{Binaries, Bytes}, {Copies, Copied}, _} = py_nif:memory_counts(Link),
    #{binaries => Binaries, bytes => Bytes, copies => Copies, copied_bytes => Copied}.
