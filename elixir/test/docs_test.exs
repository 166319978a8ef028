defmodule ErlangLoop.DocsTest do
  @moduledoc "Do the examples in the documentation of the Elixir modules hold?"
  use ExUnit.Case, async: true

  doctest ErlangLoop
  doctest ErlangLoop.Loop
  doctest ErlangLoop.Object
  doctest ErlangLoop.Pool
  doctest ErlangLoop.Sigil
end
