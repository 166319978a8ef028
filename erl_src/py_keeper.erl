%% @doc What `py_event_router' and `py_event_worker' have in common: the messages of a loop.
%%
%% A keeper does for a sleeping loop what only an Erlang process can do: it makes the VM's poller
%% watch the loop's epoll set, and runs a timer. It takes these messages, in any order:
%%
%% <ul>
%% <li>`{arm, PollSet}', from the thread of a loop that goes to sleep: watch its set once.</li>
%% <li>`{select, PollSet, undefined, ready_input}', from the VM: an fd in the set is ready.
%%     `PollSet' refers back to its loop; that is the whole routing.</li>
%% <li>`{loop_timer, Id, DelayMs}', from a loop: wake it then. A loop has one timer; a new
%%     request replaces it.</li>
%% <li>`{timer_due, Id}', from `erlang:send_after/3'.</li>
%% <li>`{loop_closed, Id, PollSet | undefined}', from a loop that ends: cancel its timer, and
%%     remove its set from the poller if the loop could not do that itself.</li>
%% </ul>
%%
%% All state that matters is in the loop. When a keeper dies, the loop asks the next one.
-module(py_keeper).

-export([new/0, handle/2, is_message/1]).
-export_type([timers/0]).

%% The one running timer of each loop that has one.
-opaque timers() :: #{pos_integer() => reference()}.

-spec new() -> timers().
new() ->
    #{}.

%% @doc Whether `handle/2' takes this message.
-spec is_message(term()) -> boolean().
is_message({arm, _}) -> true;
is_message({select, _, _, ready_input}) -> true;
is_message({loop_timer, _, _}) -> true;
is_message({timer_due, _}) -> true;
is_message({loop_closed, _, _}) -> true;
is_message(_) -> false.

-spec handle(term(), timers()) -> timers().
handle({select, PollSet, undefined, ready_input}, Timers) ->
    ok = py_nif:fd_ready(PollSet),
    Timers;
handle({arm, PollSet}, Timers) ->
    ok = py_nif:loop_arm(PollSet),
    Timers;
handle({loop_timer, Id, DelayMs}, Timers) ->
    Started = erlang:send_after(DelayMs, self(), {timer_due, Id}),
    (drop(Id, Timers))#{Id => Started};
handle({timer_due, Id}, Timers) ->
    ok = py_nif:timer_fired(Id),
    maps:remove(Id, Timers);
handle({loop_closed, Id, undefined}, Timers) ->
    drop(Id, Timers);
handle({loop_closed, Id, PollSet}, Timers) ->
    ok = py_nif:loop_release(PollSet),
    drop(Id, Timers).

drop(Id, Timers) ->
    case maps:take(Id, Timers) of
        {Running, Rest} ->
            %% If it has just fired, the loop gets its message and plans its sleep again.
            _ = erlang:cancel_timer(Running, [{async, true}, {info, false}]),
            Rest;
        error ->
            Timers
    end.
