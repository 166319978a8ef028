defmodule ErlangLoop.SigilTest do
  @moduledoc "Do variables go into Python code and come out of it?"
  use ExUnit.Case, async: true
  import ErlangLoop.Sigil

  defmacrop python(code), do: quote(do: sigil_PY(unquote(code), []))

  test "variables in and out, and the value of the last expression" do
    x = 20
    y = 1

    value = ~P"""
    y += x
    z = [n * 2 for n in (x, y)]
    sum(z)
    """

    assert {x, y, z, value} == {20, 21, [40, 42], 82}
  end

  test "code that ends with a statement has no value" do
    assert ~P"unused = 1" == nil
    assert ~P"" == nil
    assert ~P"None" == nil
  end

  test "what is not assigned keeps its value, or is nil" do
    kept = 5

    ~P"""
    if not kept:
        kept = 1
        new = 2
    """

    assert {kept, new} == {5, nil}
  end

  test "modules, functions, and names with _ or a capital stay in Python" do
    ~P"""
    import math
    from os import path
    def f(a):
        return a
    _hidden = 1
    N = 2
    shown = f(_hidden) + N
    """

    assert shown == 3
    assert for({name, nil} <- binding_names(binding()), do: name) == [:shown]
  end

  defp binding_names(binding), do: for({name, _} <- binding, do: {name, nil})

  test "functions read variables, and assign global ones" do
    step = 3

    ~P"""
    def advance():
        global place
        place = place + step
    place = 0
    advance()
    """

    assert place == 3
  end

  test "a value without a form in Erlang is an object" do
    value = ~P"""
    cell = [print]
    cell
    """

    assert %ErlangLoop.Object{} = value
    assert %ErlangLoop.Object{} = cell
    assert ~P"cell[0] is print" == true
    assert ~P"with open('/dev/null') as file: text = file.read()" == nil
    assert inspect(file) == "#ErlangLoop.Object<_io.TextIOWrapper>"
    assert text == ""
  end

  test "await outside of functions" do
    value = ~P"""
    import asyncio
    one = await asyncio.sleep(0, 1)
    one + await asyncio.sleep(0, 2)
    """

    assert {one, value} == {1, 3}
  end

  test "names that exec/2 defined are there" do
    :ok = ErlangLoop.exec("def from_shell(x):\n    return x + 1")
    assert ~P"from_shell(1)" == 2
  end

  test "a traceback names this file and the line" do
    line = __ENV__.line + 5

    error =
      assert_raise ErlangLoop.PythonError, fn ->
        ~P"""
        number = 0
        1 / number
        """
      end

    assert %{line: found, file: file, source: "1 / number"} = List.last(error.traceback)
    assert {Path.basename(file), found} == {"sigil_test.exs", line + 1}
  end

  test "a syntax error is one of the compiler" do
    code = "import ErlangLoop.Sigil\n\n~P\"\"\"\na = 1\nb = = 2\n\"\"\""
    error = assert_raise SyntaxError, fn -> Code.eval_string(code, [], file: "here.exs") end
    assert %{line: 5, file: "here.exs"} = error
    assert Exception.message(error) =~ "Python: invalid syntax"
    assert_raise SyntaxError, ~r/'return' outside function/, fn -> compile("~P\"return 1\"") end
    assert_raise ArgumentError, ~r/no modifier but n/, fn -> compile("~P\"1\"x") end
    assert_raise CompileError, ~r/a literal text/, fn -> compile("x = 1; sigil_PY(x, [])") end
  end

  test "blocks in a namespace share names" do
    namespace = ErlangLoop.namespace!()
    step = 2

    ~P"""
    import math
    def advance(): return math.floor(place) + step
    place = 1.5
    """n

    assert {~P"advance()"n, place} == {3, 1.5}
    place = 10
    assert ~P"advance() + place"n == 22
    assert {:ok, ["advance", "math", "place", "step"]} = ErlangLoop.names(namespace)
    assert_raise ErlangLoop.PythonError, ~r/'math' is not defined/, fn -> ~P"math" end
  end

  test "the compiler does not warn of variables that are not used" do
    warnings =
      ExUnit.CaptureIO.capture_io(:stderr, fn ->
        compile("defmodule SigilUnused do\ndef f(x), do: ~P\"y = x\"\nend")
      end)

    assert warnings == ""
  end

  # As a macro of a user's: its variables are not those of the caller.
  test "inside a macro" do
    assert python("1 + 1") == 2
  end

  defp compile(code), do: Code.eval_string("import ErlangLoop.Sigil\n" <> code)
end
