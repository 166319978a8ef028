defmodule ErlangLoop.StreamTest do
  @moduledoc "Does a stream behave as an Enumerable, and does it end in Python when it ends in Elixir?"
  use ExUnit.Case, async: true

  alias ErlangLoop.{Error, PythonError}

  setup_all do
    ErlangLoop.exec!("""
    import asyncio, threading

    async def numbers(count, ended=None):
        try:
            for number in range(count):
                await asyncio.sleep(0)
                yield number
        finally:
            if ended:
                import erlang
                erlang.send(ended, erlang.Atom("ended"))

    def failing():
        yield 1
        raise ValueError("two")

    async def stalled():
        yield 1
        await asyncio.sleep(3600)
    """)
  end

  defp numbers(count, options \\ []) do
    ErlangLoop.stream!(:erlang_loop_shell, :numbers, [count], options)
  end

  test "all items come, in their order, whatever the demand" do
    for demand <- [1, 2, 3, 32, 1000] do
      assert Enum.to_list(numbers(100, demand: demand)) == Enum.to_list(0..99)
    end
  end

  test "an enumeration can be repeated, suspended and combined" do
    stream = numbers(5)
    assert Enum.sum(stream) == 10
    assert Enum.sum(stream) == 10
    assert Enum.zip(stream, numbers(3)) == [{0, 0}, {1, 1}, {2, 2}]
    assert Enum.count(stream) == 5
    assert 3 in stream
    assert Enum.at(stream, 2) == 2
    assert stream |> Stream.map(&(&1 * 2)) |> Enum.to_list() == [0, 2, 4, 6, 8]
  end

  test "a generator is closed when the rest is not wanted" do
    stream = numbers(1_000_000, kwargs: [ended: self()])
    assert Enum.take(stream, 2) == [0, 1]
    assert_receive :ended, 10_000
    refute_received {:py_stream, _, _}
  end

  test "a generator is closed when the function of an item raises" do
    stream = numbers(1_000_000, kwargs: [ended: self()])
    assert_raise RuntimeError, fn -> Enum.each(stream, fn _ -> raise "no" end) end
    assert_receive :ended, 10_000
    refute_received {:py_stream, _, _}
  end

  test "an exception is the last item, or is raised" do
    assert [{:ok, 1}, {:error, %PythonError{text: "two"}}] =
             Enum.to_list(ErlangLoop.stream(:erlang_loop_shell, :failing))

    stream = ErlangLoop.stream!(:erlang_loop_shell, :failing)
    assert_raise PythonError, ~r/ValueError: two/, fn -> Enum.to_list(stream) end
  end

  test "an item may take as long as the timeout" do
    stream = ErlangLoop.stream(:erlang_loop_shell, :stalled, [], timeout: 50)
    assert [{:ok, 1}, {:error, %Error{reason: :timeout}}] = Enum.to_list(stream)
    stream = ErlangLoop.stream!(:erlang_loop_shell, :stalled, [], timeout: 50)
    assert_raise Error, fn -> Enum.to_list(stream) end
    refute_received {:py_stream, _, _}
  end

  test "a stream of a loop that does not exist fails when it is enumerated" do
    stream = ErlangLoop.stream(:builtins, :range, [1], loop: :missing)
    assert [{:error, %Error{reason: {:no_loop, :missing}}}] = Enum.to_list(stream)
  end

  test "wrong options raise at once" do
    assert_raise ArgumentError, fn -> ErlangLoop.stream(:builtins, :range, [1], demand: 0) end
  end

  test "its text has the call" do
    assert inspect(numbers(1)) == "#ErlangLoop.Stream<erlang_loop_shell.numbers>"
  end
end
