%% @doc A supervisor with the flags and children that the test gives it.
-module(supervisor_of).

-behaviour(supervisor).

-export([init/1]).

init(Children) -> {ok, Children}.
