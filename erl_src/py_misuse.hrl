%% The value of `Expr'; a `badarg' of its own names which of `Arguments', `[{py_misuse:kind(), Value}]'
%% in the order of the function that this stands in, is wrong.
-define(EXPLAINED(Arguments, Expr),
    try
        Expr
    catch
        error:badarg:Stack ->
            py_misuse:explain(?MODULE, ?FUNCTION_NAME, Arguments, Stack)
    end
).
