defmodule ErlangLoop do
  @moduledoc """
  Calls Python from Elixir.

      iex> ErlangLoop.call(:math, :sqrt, [16])
      {:ok, 4.0}
      iex> ErlangLoop.call!(:json, :dumps, [%{a: nil}], kwargs: [sort_keys: true])
      ~s({"a": null})

  This is the Erlang API of `:py` with Elixir's conventions. Functions return `{:ok, value}` or
  `{:error, exception}`, and those with a `!` return the value or raise. An exception of Python is an
  `ErlangLoop.PythonError`, whose message is Python's own traceback. Everything else that can happen,
  such as a timeout, is an `ErlangLoop.Error` with its `reason`.

  Python's `None` is `:none` unless the option `none: nil` is there; `nil` is always sent as `None`.
  Text is a binary in both directions, `str` in Python. `docs/values.md` has all values.

  ## Options

    * `:kwargs` - keyword arguments, a keyword list or a map
    * `:timeout` - milliseconds or `:infinity`; 5,000 by default. Then a coroutine is cancelled at its
      `await`, and a plain function is interrupted at its next bytecode
    * `:loop` - a loop (`ErlangLoop.Loop`), its name or pid, instead of the default one
    * `:pool` - the name of a pool (`ErlangLoop.Pool`)
    * `:affinity` - with `:pool`: requests with equal keys go to the same loop (`docs/clusters.md`)
    * `:none` - what `None` becomes: `:none` (default) or `nil`
    * `:values` - the forms of values, as in Erlang: `values: [none: :null, non_finite: :atoms,
      namedtuples: :maps]`; see `docs/values.md`
    * `:return` - `:value` (default), or `:ref`: a reference to the object instead of its value, an
      `ErlangLoop.Object`
    * `:structs` - whether Python's dates, times, sets and decimals become structs (default): `Date`,
      `Time`, `NaiveDateTime`, `DateTime` in UTC, `MapSet`, and `Decimal` if that package is there; and
      references to objects an `ErlangLoop.Object`. With `false` they are the tagged tuples of
      `docs/values.md`, and plain references. On the way to Python, structs always work

  An unknown option raises `ArgumentError`.
  """

  alias ErlangLoop.{Object, Options, PythonError, Stream, Values}

  @typedoc "A module or a function; a function's name may be dotted: `\"Class.method\"`."
  @type name :: atom | String.t() | charlist
  @typedoc "What has the function: a module, a namespace, or an object, whose method it is."
  @type callee :: name | namespace | Object.t()
  @type result :: {:ok, term} | {:error, PythonError.t() | ErlangLoop.Error.t()}
  @type options :: keyword
  @typedoc "See `namespace/1`."
  @type namespace :: reference

  @plain %{structs: false}
  @code_options [:loop, :pool, :affinity, :namespace, :file, :line]
  @result_options [:return, :none, :values, :structs]

  @doc """
  Calls a Python function and waits for its result.

  The function may be a plain function, a coroutine function or any other callable. Coroutines run on
  the default loop, or on the one that the options name.

      iex> ErlangLoop.call(:asyncio, :sleep, [0.01, "done"])
      {:ok, "done"}
      iex> {:error, error} = ErlangLoop.call(:math, :sqrt, [-1])
      iex> {error.type, error.text}
      {"builtins.ValueError", "math domain error"}
      iex> {:error, error} = ErlangLoop.call(:asyncio, :sleep, [60], timeout: 10)
      iex> error.reason
      :timeout
      iex> ErlangLoop.call(:json, :loads, ["[null]"], none: nil)
      {:ok, [nil]}
  """
  @spec call(callee, name, [term], options) :: result
  def call(module, function, args \\ [], options \\ []) do
    options = Options.check(options, [:kwargs, :timeout, :loop, :pool, :affinity | @result_options])
    module = callee(module)
    kwargs = options.kwargs
    given = Map.take(options, [:timeout, :return, :values, :affinity])

    case options do
      %{target: :default} ->
        :py.call(module, function, args, kwargs, given)

      %{target: {:loop, loop}} ->
        :py_event_loop.call(loop, module, function, args, kwargs, given)

      %{target: {:pool, pool}} ->
        :py_event_loop_pool.call(pool, module, function, args, kwargs, given)
    end
    |> result(options)
  end

  @doc """
  Like `call/4`, but returns the value or raises.

      iex> ErlangLoop.call!(:math, :sqrt, [-1])
      ** (ErlangLoop.PythonError) ValueError: math domain error
  """
  @spec call!(callee, name, [term], options) :: term
  def call!(module, function, args \\ [], options \\ []) do
    value!(call(module, function, args, options))
  end

  @doc """
  Runs Python code and returns the value of its last expression. The code can use `variables` and the
  names of a namespace, and what it assigns is in that namespace afterwards. `await` works outside of
  functions, too.

  Options: `:timeout`, `:return`, `:none`, `:values`, `:structs`; `:loop`, on which it waits;
  `:namespace`, see `namespace/1`; `:file` and `:line`, where the code stands, for tracebacks.

      iex> ErlangLoop.eval("n * 7", n: 6)
      {:ok, 42}
      iex> ErlangLoop.eval("import asyncio\\nawait asyncio.sleep(0, n)", n: 1)
      {:ok, 1}
  """
  @spec eval(String.t(), keyword | map, options) :: result
  def eval(code, variables \\ [], options \\ []) do
    options = Options.check(options, [:timeout | @result_options ++ @code_options])
    variables = Options.map(:variables, variables)
    given = Map.take(options, [:timeout, :return, :values, :affinity, :namespace, :file, :line])

    case options.target do
      :default -> :py.eval(code, variables, given)
      {:loop, loop} -> :py_event_loop.eval(loop, code, variables, given)
      {:pool, pool} -> :py_event_loop_pool.eval(pool, code, variables, given)
    end
    |> result(options)
  end

  @doc "Like `eval/3`, but returns the value or raises."
  @spec eval!(String.t(), keyword | map, options) :: term
  def eval!(code, variables \\ [], options \\ []), do: value!(eval(code, variables, options))

  @doc """
  Runs Python statements. Later calls of `exec/2` and `eval/3` with the same namespace, or without one,
  can use the names that they define, from any process. Options: as for `eval/3`, without those for results.

      iex> ErlangLoop.exec("def twice(x):\\n    return 2 * x")
      :ok
      iex> ErlangLoop.eval!("twice(21)")
      42
  """
  @spec exec(String.t(), options) :: :ok | {:error, Exception.t()}
  def exec(code, options \\ []) do
    options = Options.check(options, [:timeout | @code_options])
    given = Map.take(options, [:timeout, :affinity, :namespace, :file, :line])

    case options.target do
      :default -> :py.exec(code, given)
      {:loop, loop} -> :py_event_loop.exec(loop, code, given)
      {:pool, pool} -> :py_event_loop_pool.exec(pool, code, given)
    end
    |> done()
  end

  @doc "Like `exec/2`, but raises the exception."
  @spec exec!(String.t(), options) :: :ok
  def exec!(code, options \\ []), do: done!(exec(code, options))

  @doc """
  Creates a namespace: names for the code of those who have the reference, for the option `:namespace`. It
  is a Python module; its functions can be called, too. See `docs/namespaces.md`.

  Options: `:name`, for tracebacks and lists; `:copy`, a namespace whose names the new one has, too.

      iex> {:ok, namespace} = ErlangLoop.namespace(name: "tax")
      iex> ErlangLoop.exec("def net(x): return x / 1.25", namespace: namespace)
      :ok
      iex> ErlangLoop.eval("net(gross)", [gross: 100], namespace: namespace)
      {:ok, 80.0}
      iex> ErlangLoop.call(namespace, :net, [50])
      {:ok, 40.0}
      iex> ErlangLoop.names(namespace)
      {:ok, ["net"]}
  """
  @spec namespace(name: name, copy: namespace) :: {:ok, namespace} | {:error, Exception.t()}
  def namespace(options \\ []) do
    result(:py.namespace(Options.map(:options, options)), @plain)
  end

  @doc "Like `namespace/1`, but returns the namespace or raises."
  @spec namespace!(name: name, copy: namespace) :: namespace
  def namespace!(options \\ []), do: value!(namespace(options))

  @doc "The names in a namespace."
  @spec names(namespace) :: {:ok, [String.t()]} | {:error, Exception.t()}
  def names(namespace), do: result(:py.names(callee(namespace)), @plain)

  @doc """
  Calls a function without waiting and discards the result. The call continues if the calling process
  ends. An exception is logged. Options: `:kwargs`, `:loop`, `:pool`, `:affinity`.

      iex> ErlangLoop.cast(:builtins, :len, [[1, 2]])
      :ok
  """
  @spec cast(callee, name, [term], options) :: :ok | {:error, Exception.t()}
  def cast(module, function, args \\ [], options \\ []) do
    options = Options.check(options, [:kwargs, :loop, :pool, :affinity])
    module = callee(module)
    kwargs = options.kwargs
    given = Map.take(options, [:affinity])

    case options.target do
      :default -> :py.cast(module, function, args, kwargs)
      {:loop, loop} -> :py_event_loop.cast(loop, module, function, args, kwargs)
      {:pool, pool} -> :py_event_loop_pool.cast(pool, module, function, args, kwargs, given)
    end
    |> done()
  end

  @doc "Like `cast/4`, but raises the exception."
  @spec cast!(callee, name, [term], options) :: :ok
  def cast!(module, function, args \\ [], options \\ []) do
    done!(cast(module, function, args, options))
  end

  @doc """
  Starts a call and returns an `ErlangLoop.Task` at once. Only the calling process can await it; when
  that ends, the task is cancelled. Options: `:kwargs`, `:loop`, `:pool`, `:affinity`, `:return`,
  `:none`, `:values`, `:structs`.

      iex> {:ok, task} = ErlangLoop.submit(:asyncio, :sleep, [0.01, "done"])
      iex> ErlangLoop.await(task)
      {:ok, "done"}
      iex> {:ok, task} = ErlangLoop.submit(:asyncio, :sleep, [3600])
      iex> :ok = ErlangLoop.cancel(task)
      iex> {:error, error} = ErlangLoop.await(task)
      iex> error.reason
      :cancelled
  """
  @spec submit(callee, name, [term], options) ::
          {:ok, ErlangLoop.Task.t()} | {:error, Exception.t()}
  def submit(module, function, args \\ [], options \\ []) do
    options = Options.check(options, [:kwargs, :loop, :pool, :affinity | @result_options])
    module = callee(module)
    kwargs = options.kwargs
    given = Map.take(options, [:return, :values, :affinity])

    case options.target do
      :default -> :py.submit(module, function, args, kwargs, given)
      {:loop, loop} -> :py_event_loop.submit(loop, module, function, args, kwargs, given)
      {:pool, pool} -> :py_event_loop_pool.submit(pool, module, function, args, kwargs, given)
    end
    |> case do
      {:ok, task} ->
        calls = Stream.calls(module, function)

        {:ok,
         %ErlangLoop.Task{
           task: task,
           calls: calls,
           owner: self(),
           shape: Map.take(options, [:structs])
         }}

      {:error, reason} ->
        {:error, exception(reason)}
    end
  end

  @doc "Like `submit/4`, but returns the task or raises."
  @spec submit!(callee, name, [term], options) :: ErlangLoop.Task.t()
  def submit!(module, function, args \\ [], options \\ []) do
    value!(submit(module, function, args, options))
  end

  @doc """
  Waits for a task's result, for at most `timeout` milliseconds; then the task is cancelled. A task
  that was awaited before returns an error with the reason `:noproc`.
  """
  @spec await(ErlangLoop.Task.t(), timeout) :: result
  def await(%ErlangLoop.Task{} = task, timeout \\ 5000) do
    result(:py.await(task.task, timeout), task.shape)
  end

  @doc "Like `await/2`, but returns the value or raises."
  @spec await!(ErlangLoop.Task.t(), timeout) :: term
  def await!(%ErlangLoop.Task{} = task, timeout \\ 5000), do: value!(await(task, timeout))

  @doc """
  As `Task.yield/2`: waits for a task's result, and returns `nil` if there is none after `timeout`
  milliseconds. The task continues.

      iex> task = ErlangLoop.submit!(:asyncio, :sleep, [3600])
      iex> ErlangLoop.yield(task)
      nil
      iex> ErlangLoop.cancel(task)
      :ok
  """
  @spec yield(ErlangLoop.Task.t(), timeout) :: result | nil
  def yield(%ErlangLoop.Task{} = task, timeout \\ 0) do
    case :py.yield(task.task, timeout) do
      {:value, result} -> result(result, task.shape)
      :timeout -> nil
    end
  end

  @doc """
  Cancels a task: a coroutine gets `CancelledError` at its `await`, a call that has not started never
  starts. Any process may do this, any number of times.
  """
  @spec cancel(ErlangLoop.Task.t()) :: :ok
  def cancel(%ErlangLoop.Task{} = task), do: :py.cancel(task.task)

  @doc """
  The items that a Python function yields, as an `Enumerable` of `{:ok, item}`; if Python raises, the
  last one is `{:error, exception}`. `stream!/4` has the items as they are.

  The function may be an asynchronous generator, a plain one, or return any iterable. It is called when
  the enumeration starts, once for each. Items are sent as far as there is demand, so an endless
  generator never fills the mailbox. When the enumeration ends early, the generator is closed.

  Options: `:kwargs`, `:loop`, `:pool`, `:affinity`, `:return`, `:none`, `:values`, `:structs`;
  `:demand`, how many items may be in flight (32); `:timeout`, how many milliseconds the next item may take (5,000).

      iex> ErlangLoop.stream(:builtins, :range, [2]) |> Enum.to_list()
      [{:ok, 0}, {:ok, 1}]
      iex> [{:error, error}] = ErlangLoop.stream(:builtins, :iter, [5]) |> Enum.to_list()
      iex> error.type
      "builtins.TypeError"
  """
  @spec stream(callee, name, [term], options) :: Enumerable.t()
  def stream(module, function, args \\ [], options \\ []) do
    Stream.new(callee(module), function, args, options, false)
  end

  @doc """
  Like `stream/4`, but the items are not tagged, and the enumeration raises.

      iex> ErlangLoop.stream!(:itertools, :count, [1]) |> Enum.take(3)
      [1, 2, 3]
  """
  @spec stream!(callee, name, [term], options) :: Enumerable.t()
  def stream!(module, function, args \\ [], options \\ []) do
    Stream.new(callee(module), function, args, options, true)
  end

  @doc """
  The exception for the `reason` of an `{:error, reason}` that a function of `:py` returned.

      iex> ErlangLoop.exception(:timeout)
      %ErlangLoop.Error{reason: :timeout}
  """
  @spec exception(term) :: Exception.t()
  def exception(%{type: _, message: _, traceback: _} = map), do: PythonError.from(map)
  def exception(reason), do: %ErlangLoop.Error{reason: reason}

  @doc false
  def value!({:ok, value}), do: value
  def value!({:error, exception}), do: raise(exception)

  @doc false
  def result({:ok, value}, shape), do: {:ok, Values.from_python(value, shape)}
  def result({:error, reason}, _shape), do: {:error, exception(reason)}

  defp callee(%Object{ref: ref}), do: ref
  defp callee(module), do: module

  defp done(:ok), do: :ok
  defp done({:error, reason}), do: {:error, exception(reason)}

  defp done!(:ok), do: :ok
  defp done!({:error, exception}), do: raise(exception)
end
