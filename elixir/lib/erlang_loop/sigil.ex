defmodule ErlangLoop.Sigil do
  @moduledoc ~S'''
  Python code in Elixir functions, with Elixir's variables.

      import ErlangLoop.Sigil

      def slope(points) do
        ~PY"""
        import statistics
        xs, ys = zip(*points)
        line = statistics.linear_regression(xs, ys)
        slope = line.slope
        """

        slope
      end

  The code sees the Elixir variables that it names. What it assigns outside of functions becomes a
  variable of Elixir, except for names that begin with `_` or are no variables of Elixir (`N`), and
  what `import`, `def` and `class` define. If the code does not get as far as an assignment, the variable
  keeps its value, or is `nil`. The value of the sigil is that of the last expression, or `nil` if the
  code ends with something else. A value that has no form in Erlang becomes an `ErlangLoop.Object`, which
  is the same Python object when it is sent back. `None` becomes `nil`, as `ErlangLoop` has it by option.

      iex> import ErlangLoop.Sigil
      iex> words = ["one", "two"]
      iex> sigil_PY("text = '-'.join(words)\nlen(text)", [])
      7
      iex> text
      "one-two"

  `await` works, outside of functions, too: the code then runs on the default loop. Otherwise it runs on
  a call thread, as a plain function does. It can use the names that `ErlangLoop.exec/2` has defined; its
  own are forgotten. With the modifier `n` the code runs in the namespace (`ErlangLoop.namespace/1`) in the
  variable `namespace`: it uses the names there and leaves its own there.

      iex> import ErlangLoop.Sigil
      iex> namespace = ErlangLoop.namespace!()
      iex> sigil_PY("import math\ndef area(r): return math.pi * r**2", [?n])
      iex> sigil_PY("round(area(2), 2)", [?n])
      12.57

  An exception is raised as `ErlangLoop.PythonError`; its traceback names the lines of
  the Elixir file. There is no timeout: for that, put the code into a function for `ErlangLoop.call/4`.

  The compiler of Elixir runs the interpreter that erlang_loop was built with, which finds the names and
  reports syntax errors. Sigils of two letters need Elixir 1.15; `~P` is the same for older ones.
  '''

  @doc "Runs Python code: see the module."
  defmacro sigil_PY(code, modifiers), do: block(code, modifiers, __CALLER__)

  @doc "As `sigil_PY/2`, for Elixir 1.14, whose sigils have one letter."
  defmacro sigil_P(code, modifiers), do: block(code, modifiers, __CALLER__)

  defp block(code, modifiers, caller) do
    modifiers in [[], ~c"n"] or raise ArgumentError, "~PY has no modifier but n"
    {code, line} = code(code, caller)
    {reads, assigns} = names(code, line, caller)
    # Hygienic variables of macros have another context than nil.
    here = for {name, nil} <- Macro.Env.vars(caller), do: name
    passed = for name <- here, name in reads or name in assigns, do: name
    assigns = Enum.filter(assigns, &variable?/1)
    variables = {:%{}, [], for(name <- passed, do: {Atom.to_string(name), Macro.var(name, nil)})}
    namespace = if modifiers == ~c"n", do: Macro.var(:namespace, nil)

    quote do
      {value, assigned} =
        ErlangLoop.Sigil.run(
          unquote(code),
          unquote(Path.relative_to_cwd(caller.file)),
          unquote(line),
          unquote(variables),
          unquote(Enum.map(assigns, &Atom.to_string/1)),
          unquote(namespace)
        )

      unquote_splicing(
        for name <- assigns do
          variable = Macro.var(name, nil)

          quote do
            unquote(variable) =
              :maps.get(
                unquote(Atom.to_string(name)),
                assigned,
                unquote(if name in here, do: variable)
              )

            # Not every variable that Python assigns is used.
            _ = unquote(variable)
          end
        end
      )

      value
    end
  end

  # The code of a heredoc begins on the line below the sigil.
  defp code({:<<>>, meta, [code]}, caller) when is_binary(code) do
    {code, caller.line + if(meta[:indentation], do: 1, else: 0)}
  end

  defp code(code, caller) when is_binary(code), do: {code, caller.line}

  defp code(_code, caller) do
    raise CompileError,
      file: caller.file,
      line: caller.line,
      description: "the Python code must be a literal text"
  end

  defp names(code, line, caller) do
    priv = :code.priv_dir(:erlang_loop)
    program = Path.join(priv, "python/erlang_loop/blocks.py")

    case System.cmd(python(), ["-I", program, code], stderr_to_stdout: true) do
      {output, 0} ->
        [reads, assigns | _] = String.split(output, "\n")
        {atoms(reads), atoms(assigns)}

      {output, 1} ->
        {wrong, text} =
          case String.split(output, "\t", parts: 2) do
            [number, text] -> {line + String.to_integer(number) - 1, String.trim(text)}
            [text] -> {line, text}
          end

        raise SyntaxError, file: caller.file, line: wrong, description: "Python: " <> text
    end
  end

  defp atoms(line), do: line |> String.split() |> Enum.map(&String.to_atom/1)

  defp python, do: List.to_string(:py_python_choice.build_info().python)

  defp variable?(name), do: Atom.to_string(name) =~ ~r/^[a-z][A-Za-z0-9_]*$/ and name not in words()

  # Those that Python has as names, too.
  defp words, do: [:do, :end, :fn, nil, true, false, :when, :catch, :rescue, :after]

  @doc false
  def run(code, file, line, variables, wanted, namespace) do
    arguments = [code, file, line, variables, wanted, namespace]
    options = [timeout: :infinity, none: nil]
    ErlangLoop.call!("erlang_loop.blocks", :run, arguments, options)
  end
end
