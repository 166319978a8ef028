defmodule ErlangLoop.CallTest do
  @moduledoc "What does a call return or raise, and which options does it have?"
  use ExUnit.Case, async: true

  alias ErlangLoop.{Error, PythonError}

  test "an exception is a struct with the fields of Python's" do
    :ok =
      ErlangLoop.exec("""
      def chained():
          try:
              {}["key"]
          except KeyError as error:
              error.add_note("a note")
              raise ValueError("outer") from error
      """)

    assert {:error, %PythonError{} = error} = ErlangLoop.eval("chained()")
    assert %{type: "builtins.ValueError", text: "outer", context: nil} = error
    assert %PythonError{type: "builtins.KeyError", cause: nil, notes: ["a note"]} = error.cause
    assert %{function: "chained", line: 6} = List.last(error.traceback)
  end

  test "an exception group has its members" do
    code = "def several():\n    raise ExceptionGroup('both', [ValueError(1), TypeError('2')])"
    :ok = ErlangLoop.exec(code)
    {:error, error} = ErlangLoop.eval("several()")
    assert ["builtins.ValueError", "builtins.TypeError"] = Enum.map(error.exceptions, & &1.type)
  end

  test "what a `!` raises prints as Python prints it" do
    :ok = ErlangLoop.exec("def half(x):\n    return 1 / x")

    message =
      assert_raise(PythonError, fn -> ErlangLoop.eval!("half(0)") end) |> Exception.message()

    assert message =~ ~r/^Traceback \(most recent call last\):\n/
    assert message =~ "in half\n    return 1 / x\n"
    assert message =~ ~r/\nZeroDivisionError: division by zero$/
  end

  test "every other reason is an ErlangLoop.Error" do
    assert {:error, %Error{reason: {:no_loop, :missing}} = error} =
             ErlangLoop.call(:math, :sqrt, [1], loop: :missing)

    assert Exception.message(error) =~ "no loop is registered as missing"

    assert {:error, %Error{reason: {:no_pool, :missing}}} =
             ErlangLoop.call(:math, :sqrt, [1], pool: :missing)

    assert_raise Error, "there was no reply in time", fn ->
      ErlangLoop.call!(:asyncio, :sleep, [60], timeout: 0)
    end
  end

  test "keyword arguments are a keyword list or a map" do
    for kwargs <- [[sort_keys: true], %{"sort_keys" => true}] do
      assert {:ok, ~s({"a": 1, "b": 2})} =
               ErlangLoop.call(:json, :dumps, [%{b: 2, a: 1}], kwargs: kwargs)
    end
  end

  test "None is :none, or nil everywhere in the value" do
    value = ErlangLoop.eval!("[None, (None, {'a': None, None: {1: [None]}}), 'None', 5]")
    assert [:none, {:none, %{"a" => :none, :none => %{1 => [:none]}}}, "None", 5] = value

    value =
      ErlangLoop.eval!("[None, (None, {'a': None, None: {1: [None]}}), 'None', 5]", [], none: nil)

    assert value == [nil, {nil, %{"a" => nil, nil => %{1 => [nil]}}}, "None", 5]
    assert {:ok, nil} = ErlangLoop.call(:asyncio, :sleep, [0], none: nil)
    assert {:ok, [:null]} = ErlangLoop.call(:copy, :copy, [[:null]], values: [none: :null])
    both = [none: nil, values: %{non_finite: :atoms}]
    assert {:ok, [nil, :inf]} = ErlangLoop.eval("[None, float('inf')]", [], both)
    assert_raise ArgumentError, fn -> ErlangLoop.eval("1", [], values: [none: 1]) end
    task = ErlangLoop.submit!(:asyncio, :sleep, [0], none: nil)
    assert {:ok, nil} = ErlangLoop.await(task)
    assert [[nil]] = Enum.to_list(ErlangLoop.stream!(:builtins, :iter, [[[nil]]], none: nil))
  end

  test "wrong options raise before anything runs" do
    raises = fn text, options ->
      error = assert_raise ArgumentError, fn -> ErlangLoop.call(:math, :sqrt, [1], options) end
      assert error.message =~ text
    end

    raises.("there is no option :timeuot here; the options are :kwargs, :timeout", timeuot: 1)
    raises.(":timeout is -1, and must be a number of milliseconds or :infinity", timeout: -1)
    raises.(":none is :null, and must be nil or :none", none: :null)
    raises.(":loop is \"a\", and must be a pid or a name", loop: "a")
    raises.(":pool is nil, and must be the name of a pool", pool: nil)
    raises.(":kwargs must be a keyword list or a map, and is [1]", kwargs: [1])
    raises.("there are both :loop and :pool", loop: :a, pool: :b)
    raises.("must be a keyword list, and are %{timeout: 1}", %{timeout: 1})

    assert_raise ArgumentError, ~r/no option :demand here/, fn ->
      ErlangLoop.eval("1", [], demand: 1)
    end

    assert_raise ArgumentError, fn -> ErlangLoop.call(:math, :sqrt, 5) end
  end

  test "a cast is done, and an exception of it is not the caller's" do
    assert :ok = ErlangLoop.cast!(:builtins, :len, [[]])
    assert_raise ArgumentError, fn -> ErlangLoop.cast(:math, :sqrt, [1], timeout: 1) end
  end

  test "code in a namespace, on a loop, at a place" do
    namespace = ErlangLoop.namespace!(name: :mine)
    options = [namespace: namespace, file: "lib/a.ex", line: 7]
    :ok = ErlangLoop.exec!("def f(x):\n    return 1 / x", options)
    loop = start_supervised!({ErlangLoop.Loop, []})
    code = "import asyncio\nawait asyncio.sleep(0, f(x))"
    assert ErlangLoop.eval!(code, [x: 2], namespace: namespace, loop: loop) == 0.5
    {:error, error} = ErlangLoop.eval("f(x)", [x: 0], options)
    assert [%{line: 7}, %{file: "lib/a.ex", line: 8, source: "return 1 / x"}] = error.traceback
    assert {:ok, copy} = ErlangLoop.namespace(copy: namespace)
    assert ErlangLoop.names(copy) == {:ok, ["asyncio", "f"]}

    assert_raise ArgumentError, ~r/:namespace is :mine/, fn ->
      ErlangLoop.eval("1", [], namespace: :mine)
    end
  end

  test "structs cross in both directions" do
    values = [
      ~D[2024-02-29],
      ~T[12:30:01.000005],
      ~N[2024-02-29 12:30:01.000005],
      ~U[2024-02-29 12:30:01.000005Z],
      MapSet.new([1, "two", ~D[2024-01-01]]),
      %{~D[2024-02-29] => [{~T[00:00:00.000000], :none}]}
    ]

    assert ErlangLoop.call!(:copy, :copy, [values]) == values

    assert ErlangLoop.call!(:copy, :copy, [{1, nil, ~D[2024-01-01]}], none: nil) ==
             {1, nil, ~D[2024-01-01]}

    types = "[type(value).__name__ for value in values]"
    names = ["date", "time", "datetime", "datetime", "set", "dict"]
    assert ErlangLoop.eval!(types, values: values) == names

    noon = "import datetime\ntz = datetime.timezone(datetime.timedelta(hours=2))\n"
    noon = noon <> "datetime.datetime(2024, 1, 1, 12, tzinfo=tz)"
    assert ErlangLoop.eval!(noon) == ~U[2024-01-01 10:00:00.000000Z]
    assert {:datetime, _, 0, 7200} = ErlangLoop.eval!(noon, [], structs: false)

    assert ErlangLoop.stream!(:builtins, :iter, [[~D[2024-01-01]]]) |> Enum.to_list() ==
             [~D[2024-01-01]]

    task = ErlangLoop.submit!(:copy, :copy, [[~D[2024-01-01]]])
    assert ErlangLoop.await!(task) == [~D[2024-01-01]]
    # No such date: it was a tuple in Python, too.
    odd = "import erlang\n(erlang.Atom('date'), (2024, 2, 30))"
    assert ErlangLoop.eval!(odd) == {:date, {2024, 2, 30}}
    assert_raise ArgumentError, ~r/:structs is 1/, fn -> ErlangLoop.eval("1", [], structs: 1) end
  end

  test "decimals are structs where the package is" do
    value = %{__struct__: Decimal, sign: -1, coef: 150, exp: -2}
    assert ErlangLoop.call!(:builtins, :repr, [value]) == "Decimal('-1.50')"
    assert ErlangLoop.call!(:copy, :copy, [value]) == {:decimal, "-1.50"}
  end

  test "exec raises, too" do
    assert {:error, %PythonError{type: "builtins.SyntaxError"}} = ErlangLoop.exec("1 +")
    assert_raise PythonError, ~r/SyntaxError/, fn -> ErlangLoop.exec!("1 +") end
  end

  test "code and casts run on a loop or a pool" do
    {:ok, loop} = ErlangLoop.Loop.start_link()
    {:ok, _} = ErlangLoop.Pool.start_link(name: :code_pool, size: 2)

    for place <- [[loop: loop], [pool: :code_pool]] do
      assert ErlangLoop.exec("from_elixir = 2", place) == :ok
      assert ErlangLoop.eval("from_elixir * n", [n: 3], place) == {:ok, 6}
      assert ErlangLoop.cast(:builtins, :len, [[1]], place) == :ok
    end

    assert ErlangLoop.Pool.stop(:code_pool) == :ok
    assert ErlangLoop.Loop.stop(loop) == {:ok, []}
  end
end
