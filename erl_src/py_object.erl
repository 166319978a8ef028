%% @private
%% @doc Python objects in terms, as text: behind `py:format/1'.
-module(py_object).

-export([format/1]).

-spec format(term()) -> string().
format(Term) ->
    Text = lists:flatten(io_lib:format("~tp", [Term])),
    maps:fold(fun put_name/3, Text, objects(Term, #{})).

put_name(Object, Type, Text) ->
    Name = "#py{" ++ unicode:characters_to_list(Type) ++ "}",
    lists:flatten(string:replace(Text, ref_to_list(Object), Name, all)).

%% The references to Python objects in a term, with the names of their types.
objects(Ref, Found) when is_reference(Ref) ->
    try py_nif:object_type(Ref) of
        Type -> Found#{Ref => Type}
    catch
        error:badarg -> Found
    end;
objects([Head | Tail], Found) ->
    objects(Tail, objects(Head, Found));
objects(Tuple, Found) when is_tuple(Tuple) ->
    lists:foldl(fun objects/2, Found, tuple_to_list(Tuple));
objects(#{} = Map, Found) ->
    maps:fold(fun(Key, Value, Before) -> objects(Value, objects(Key, Before)) end, Found, Map);
objects(_, Found) ->
    Found.
