defmodule ErlangLoop.PageTest do
  @moduledoc "Do the blocks of docs/elixir.md run, as lines of one shell?"
  use ExUnit.Case, async: true

  @page "docs/elixir.md"
  @external_resource @page

  test "the page" do
    # The first block is the function in mix.exs.
    [_ | blocks] = Regex.scan(~r/^```elixir\n(.*?)^```$/ms, File.read!(@page))
    assert length(blocks) > 5

    Enum.reduce(blocks, {[], __ENV__}, fn [_, code], {bindings, env} ->
      {_, bindings, env} = Code.eval_quoted_with_env(Code.string_to_quoted!(code), bindings, env)
      {bindings, env}
    end)
  end
end
