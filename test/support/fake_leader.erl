%% @doc A group leader that remembers what it received. While it is held it does not reply.
-module(fake_leader).

-export([start/0, stop/1, hold/1, release/1, requests/1, text/1, has/2, as_leader/2]).

%% @doc Linked to the caller.
-spec start() -> pid().
start() ->
    spawn_link(fun() -> loop([]) end).

-spec stop(pid()) -> ok.
stop(Leader) ->
    Monitor = monitor(process, Leader),
    unlink(Leader),
    exit(Leader, kill),
    receive
        {'DOWN', Monitor, process, _, _} -> ok
    end.

-spec hold(pid()) -> ok.
hold(Leader) -> ask(Leader, hold).

-spec release(pid()) -> ok.
release(Leader) -> ask(Leader, release).

%% @doc The texts of the requests so far, one binary for each.
-spec requests(pid()) -> [binary()].
requests(Leader) -> ask(Leader, requests).

-spec text(pid()) -> binary().
text(Leader) -> iolist_to_binary(requests(Leader)).

%% @doc Waits until that is all it was given.
-spec has(pid(), binary()) -> ok.
has(Leader, Text) ->
    eventually:is(Text, fun() -> text(Leader) end).

%% @doc Runs `Fun' in a process with this group leader and returns its value.
-spec as_leader(pid(), fun(() -> T)) -> T.
as_leader(Leader, Fun) ->
    Self = self(),
    {Pid, Monitor} = spawn_monitor(fun() ->
        true = group_leader(Leader, self()),
        Self ! {self(), Fun()}
    end),
    receive
        {Pid, Value} ->
            true = demonitor(Monitor, [flush]),
            Value;
        {'DOWN', Monitor, process, Pid, Reason} ->
            error(Reason)
    end.

ask(Leader, Question) ->
    Tag = make_ref(),
    Leader ! {Question, self(), Tag},
    receive
        {Tag, Answer} -> Answer
    end.

loop(Texts) ->
    receive
        {hold, From, Tag} ->
            From ! {Tag, ok},
            receive
                {release, Again, Tag2} -> Again ! {Tag2, ok}
            end,
            loop(Texts);
        {requests, From, Tag} ->
            From ! {Tag, lists:reverse(Texts)},
            loop(Texts);
        {io_request, From, ReplyAs, {put_chars, unicode, Text}} ->
            From ! {io_reply, ReplyAs, ok},
            loop([Text | Texts]);
        {io_request, From, ReplyAs, _} ->
            From ! {io_reply, ReplyAs, {error, request}},
            loop(Texts)
    end.
