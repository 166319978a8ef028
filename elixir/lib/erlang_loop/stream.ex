defmodule ErlangLoop.Stream do
  @moduledoc false
  # What ErlangLoop.stream/4 and stream!/4 return: a description of the call. Each enumeration starts
  # the function and takes its items, below as Stream.resource/3, which ends the stream in all cases.

  alias ErlangLoop.{Options, Values}

  @enforce_keys [:module, :function, :args, :options, :raises]
  defstruct @enforce_keys

  def new(module, function, args, options, raises) do
    known = [:kwargs, :timeout, :loop, :pool, :affinity, :return, :none, :values, :structs, :demand]
    options = Options.check(options, known)

    %__MODULE__{
      module: module,
      function: function,
      args: args,
      options: options,
      raises: raises
    }
  end

  @doc "How a call is shown."
  def calls(object, function) when is_reference(object) do
    "#{ErlangLoop.Object.type_of(object)}.#{function}"
  end

  def calls(module, function), do: "#{module}.#{function}"

  @doc "Starts the function: the state of an enumeration."
  def start(%__MODULE__{module: module, function: function, args: args, options: options}) do
    window = Map.take(options, [:demand, :return, :values, :affinity])

    case options.target do
      :default ->
        :py.stream(module, function, args, options.kwargs, window)

      {:loop, loop} ->
        :py_event_loop.stream(loop, module, function, args, options.kwargs, window)

      {:pool, pool} ->
        :py_event_loop_pool.stream(pool, module, function, args, options.kwargs, window)
    end
    |> case do
      {:ok, stream} -> {stream, options.demand}
      {:error, reason} -> {:failed, reason}
    end
  end

  @doc "The next item and state, or the end."
  def next(:ended, _description), do: {:halt, :ended}

  def next({:failed, reason}, description) do
    exception = ErlangLoop.exception(reason)
    if description.raises, do: raise(exception)
    {[{:error, exception}], :ended}
  end

  def next({stream, left}, %__MODULE__{options: options} = description) do
    receive do
      {:py_stream, ^stream, {:data, item}} ->
        item = Values.from_python(item, options)
        {[if(description.raises, do: item, else: {:ok, item})], taken(stream, left - 1, options)}

      {:py_stream, ^stream, :done} ->
        {:halt, {stream, left}}

      {:py_stream, ^stream, {:error, reason}} ->
        next({:failed, reason}, description)
    after
      # The stream is cancelled: by stop/1 if this raises.
      options.timeout ->
        if not description.raises, do: :py.cancel(stream)
        next({:failed, :timeout}, description)
    end
  end

  # `left` items are requested and have not come. New ones are requested half a window at a time: a
  # message to Python for each item would cost more than the item.
  defp taken(stream, left, %{demand: window}) when left <= div(window, 2) do
    :ok = :py.demand(stream, window - left)
    {stream, window}
  end

  defp taken(stream, left, _options), do: {stream, left}

  @doc "After the last item, after an exception, and when the rest is not wanted."
  def stop({stream, _left}) when is_reference(stream), do: :py.cancel(stream)
  def stop(_ended), do: :ok

  defimpl Enumerable do
    def reduce(description, acc, fun) do
      Stream.resource(
        fn -> ErlangLoop.Stream.start(description) end,
        &ErlangLoop.Stream.next(&1, description),
        &ErlangLoop.Stream.stop/1
      )
      |> Enumerable.reduce(acc, fun)
    end

    def count(_description), do: {:error, __MODULE__}
    def member?(_description, _item), do: {:error, __MODULE__}
    def slice(_description), do: {:error, __MODULE__}
  end

  defimpl Inspect do
    def inspect(stream, _options) do
      "#ErlangLoop.Stream<#{ErlangLoop.Stream.calls(stream.module, stream.function)}>"
    end
  end
end
