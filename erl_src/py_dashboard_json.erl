%% @doc Terms as JSON for the dashboard: OTP has a module for that since release 27.
%%
%% Maps, lists, numbers, booleans and binaries are themselves, `undefined' is null, other atoms and
%% pids are text. Bytes that are not UTF-8 become replacement characters.
-module(py_dashboard_json).

-export([encode/1]).

-spec encode(term()) -> iodata().
encode(Map) when is_map(Map) ->
    [${, lists:join($,, [[string(key(Key)), $:, encode(Value)] || {Key, Value} <- maps:to_list(Map)]), $}];
encode(List) when is_list(List) -> [$[, lists:join($,, [encode(Each) || Each <- List]), $]];
encode(Text) when is_binary(Text) -> string(Text);
encode(Number) when is_integer(Number) -> integer_to_binary(Number);
encode(Number) when is_float(Number) -> io_lib:format("~p", [Number]);
encode(undefined) -> <<"null">>;
encode(Boolean) when is_boolean(Boolean) -> atom_to_binary(Boolean);
encode(Atom) when is_atom(Atom) -> string(atom_to_binary(Atom));
encode(Pid) when is_pid(Pid) -> string(list_to_binary(pid_to_list(Pid))).

key(Key) when is_atom(Key) -> atom_to_binary(Key);
key(Key) when is_binary(Key) -> Key.

string(Text) -> [$", escaped(Text, <<>>), $"].

escaped(<<>>, Done) -> Done;
escaped(<<$", Rest/binary>>, Done) -> escaped(Rest, <<Done/binary, "\\\"">>);
escaped(<<$\\, Rest/binary>>, Done) -> escaped(Rest, <<Done/binary, "\\\\">>);
%% `<' too, so that no text can be taken for markup wherever it ends up.
escaped(<<Char, Rest/binary>>, Done) when Char < 32; Char =:= $<; Char =:= 127 ->
    Hex = io_lib:format("\\u~4.16.0b", [Char]),
    escaped(Rest, <<Done/binary, (list_to_binary(Hex))/binary>>);
escaped(<<Char/utf8, Rest/binary>>, Done) -> escaped(Rest, <<Done/binary, Char/utf8>>);
escaped(<<_, Rest/binary>>, Done) -> escaped(Rest, <<Done/binary, 16#FFFD/utf8>>).
