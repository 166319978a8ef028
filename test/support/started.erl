%% @doc Suites that need the application, but no Python.
-module(started).

-export([begin_suite/1, end_suite/0, end_case/1]).

%% @doc For init_per_suite/1.
-spec begin_suite(Config) -> Config when Config :: [{atom(), term()}].
begin_suite(Config) ->
    {ok, _} = application:ensure_all_started(erlang_loop),
    Config.

%% @doc For end_per_suite/1.
-spec end_suite() -> ok.
end_suite() ->
    ok = application:stop(erlang_loop).

%% @doc The result of end_per_testcase/2 where a case may stop the application: the next one finds
%% it running.
-spec end_case([{atom(), term()}]) -> ok | {fail, term()}.
end_case(Config) ->
    {ok, _} = application:ensure_all_started(erlang_loop),
    leak_check:end_case(Config).
