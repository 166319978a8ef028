%% @doc The top of the tree.
%%
%% ```
%% erlang_loop_sup (one_for_one)
%%   py_event_router       serves all shared loops
%%   py_event_worker_sup   one py_event_worker for each isolated loop
%%   py_signals            makes the VM handle the signals that loops want
%%   py_output             takes the group leaders' replies to what Python prints
%%   py_logger             passes Python's log records to logger
%%   py_calls              manages the threads of plain functions
%%   py_questions          runs Python's calls to Erlang
%%   py_actor_sup          one py_actor for each Python task or thread that has a pid
%%   py_interpreter        starts Python when it is needed, ends it when the node stops
%%   py_event_loop_sup     the default loop
%%   py_watchdog           detects stuck loops
%%   py_relay              runs the requests of other nodes to loops of this one
%%   py_groups             knows the loops of groups, here and on other nodes
%%   py_dashboard          serves the web page, if that is wanted
%%   py_inspect_socket     replies to erlang_loop.inspect of other processes, if that is wanted
%% '''
%%
%% one_for_one, because no process has state that another needs: loops live in the NIF library, a
%% new router adopts those of the old one, and Python stays up if the process that started it dies.
%% The router starts first, so that workers and Python find it. What Python's exit functions may
%% use (output, logging, calls to Erlang) starts before py_interpreter. Processes stop in the
%% opposite order.
-module(erlang_loop_sup).

-behaviour(supervisor).

-export([start_link/0]).
-export([init/1]).

-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() ->
    case supervisor:start_link({local, ?MODULE}, ?MODULE, []) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

-spec init([]) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    ok = py_remote:create_table(),
    ok = py_lint:create_table(),
    ok = py_groups:create_table(),
    %% A router killed ten times in ten seconds loses nothing and is no reason to end the
    %% application; one that cannot start at all fails more often than this within a second.
    Flags = #{strategy => one_for_one, intensity => 30, period => 10},
    {ok,
        {Flags, [
            #{id => py_event_router, start => {py_event_router, start_link, []}},
            #{
                id => py_event_worker_sup,
                start => {py_event_worker_sup, start_link, []},
                type => supervisor
            },
            #{id => py_signals, start => {py_signals, start_link, []}},
            #{id => py_output, start => {py_output, start_link, []}},
            #{id => py_logger, start => {py_logger, start_link, []}},
            #{id => py_calls, start => {py_calls, start_link, []}},
            #{id => py_questions, start => {py_questions, start_link, []}},
            #{
                id => py_actor_sup,
                start => {py_actor_sup, start_link, []},
                type => supervisor
            },
            #{
                id => py_interpreter,
                start => {py_interpreter, start_link, []},
                %% It ends Python when the node stops, and limits that itself (exit_timeout).
                shutdown => infinity
            },
            #{
                id => py_event_loop_sup,
                start => {py_event_loop_sup, start_link, []},
                type => supervisor
            },
            #{id => py_watchdog, start => {py_watchdog, start_link, []}},
            #{id => py_relay, start => {py_relay, start_link, []}},
            #{id => py_groups, start => {py_groups, start_link, []}},
            #{id => py_dashboard, start => {py_dashboard, start_link, []}},
            #{id => py_inspect_socket, start => {py_inspect_socket, start_link, []}}
        ]}}.
