defmodule ErlangLoop.ObjectTest do
  @moduledoc "Can Elixir keep Python objects and use them?"
  use ExUnit.Case, async: true

  alias ErlangLoop.Object

  test "every function returns one with `return: :ref`, and calls its methods" do
    {:ok, list} = ErlangLoop.call(:builtins, :list, [[3, 1]], return: :ref)
    assert :ok = ErlangLoop.cast(list, :append, [2])
    assert {:ok, :none} = ErlangLoop.call(list, :append, [4])
    assert %Object{} = iterator = ErlangLoop.eval!("iter(items)", [items: list], return: :ref)
    assert {:ok, 3} = ErlangLoop.call(iterator, :__next__)

    task = ErlangLoop.submit!(list, :copy, [], return: :ref)
    assert inspect(task) =~ "#ErlangLoop.Task<builtins.list.copy, owner: "
    assert %Object{} = copy = ErlangLoop.await!(task)
    assert {:ok, true} = ErlangLoop.eval("a == b and a is not b", a: list, b: copy)
    assert [3, 1 | _] = ErlangLoop.stream!(list, :__iter__) |> Enum.to_list()

    assert [%Object{}, %Object{}] =
             ErlangLoop.stream!(:builtins, :range, [2], return: :ref) |> Enum.to_list()
  end

  test "an argument is the object itself, wherever it stands" do
    object = ErlangLoop.call!(:builtins, :object, [], return: :ref)

    assert {:ok, true} =
             ErlangLoop.eval("a is b[0] is c['x']", a: object, b: [object], c: %{"x" => object})

    assert %{"x" => [%Object{} = same]} =
             ErlangLoop.eval!("import erlang\n{'x': [erlang.Handle(a)]}", a: object)

    assert {:ok, true} = ErlangLoop.eval("a is b", a: object, b: same)
  end

  test "it is shown with its type, without Python" do
    object = ErlangLoop.call!(:io, :StringIO, [], return: :ref)
    assert inspect([object]) == "[#ErlangLoop.Object<_io.StringIO>]"
    assert Object.type(object) == "_io.StringIO"
  end

  test "what is missing is Python's exception" do
    object = ErlangLoop.call!(:builtins, :object, [], return: :ref)
    assert {:error, %{type: "builtins.AttributeError"}} = Object.attr(object, :missing)
    assert {:error, %{type: "builtins.TypeError"}} = Object.item(object, 0)
    assert_raise ErlangLoop.PythonError, fn -> Object.attr!(object, :missing) end
    assert_raise ErlangLoop.PythonError, fn -> Object.item!(object, 0) end
    assert_raise ErlangLoop.PythonError, fn -> Object.value!(object) end
  end

  test "wrong options raise" do
    object = ErlangLoop.call!(:builtins, :object, [], return: :ref)

    assert_raise ArgumentError, ~r/there is no option :pool/, fn ->
      Object.repr(object, pool: :p)
    end

    message = ~r/:return is :reference, and must be :value or :ref/

    assert_raise ArgumentError, message, fn ->
      ErlangLoop.call(:builtins, :object, [], return: :reference)
    end
  end

  test "a reference that is no object of this node" do
    stale = %Object{ref: make_ref()}
    assert inspect(stale) =~ ~r/^#ErlangLoop.Object<#Reference<.*>>$/
    assert_raise ArgumentError, ~r/of another node/, fn -> Object.type(stale) end
  end

  test "without structs it is the reference, as in Erlang" do
    reference = ErlangLoop.call!(:builtins, :list, [[1]], return: :ref, structs: false)
    assert is_reference(reference)
    assert {:ok, [1]} = :py.value(reference)
  end
end
