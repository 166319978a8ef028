%% @private
%% @doc What `observer' and `sys:get_status/1' show of our processes: labels, and of the process of
%% a loop the loop itself with its tasks.
-module(py_observed).

-export([label/1, loop/2]).

-type shown() :: #{loop := py_inspect:loop() | gone, tasks := py_inspect:tasks() | unknown}.

%% @doc Sets the label of the calling process. Before OTP 27 processes have none.
-spec label(term()) -> ok.
label(Label) ->
    %% A name that xref need not find.
    Module = proc_lib,
    case erlang:function_exported(Module, set_label, 1) of
        true -> Module:set_label(Label);
        false -> ok
    end.

%% @doc For format_status/1 of the process that owns a loop. A process that ends does not wait for
%% its loop: it shows the last list.
-spec loop(pid() | pos_integer(), gen_server:format_status()) -> shown().
loop(Which, Status) ->
    Listed =
        case Status of
            #{reason := _} -> py_inspect:last_tasks(Which);
            #{} -> py_inspect:tasks(Which)
        end,
    case {py_inspect:loop(Which), Listed} of
        {{ok, Loop}, {ok, Tasks}} -> #{loop => Loop, tasks => Tasks};
        {{ok, Loop}, {error, _}} -> #{loop => Loop, tasks => unknown};
        {{error, _}, _} -> #{loop => gone, tasks => unknown}
    end.
