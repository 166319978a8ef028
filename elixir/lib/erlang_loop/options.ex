defmodule ErlangLoop.Options do
  @moduledoc false
  # Checks the options of the functions of ErlangLoop: whatever is wrong raises ArgumentError before
  # anything is started.

  alias ErlangLoop.Object

  @defaults %{kwargs: %{}, timeout: 5000, target: :default, structs: true, demand: 32}

  @doc "The options as a map, with defaults; `known` are those that the function has."
  def check(options, known) do
    if not Keyword.keyword?(options) do
      raise ArgumentError, "the options must be a keyword list, and are #{inspect(options)}"
    end

    if options[:loop] && options[:pool] do
      raise ArgumentError, "there are both :loop and :pool: a call runs on one of them"
    end

    if options[:pool] == nil and Keyword.has_key?(options, :affinity) do
      raise ArgumentError, "there is :affinity without :pool: it chooses one of the loops of a pool"
    end

    Enum.reduce(options, @defaults, fn {key, value}, checked ->
      if key not in known do
        names = Enum.map_join(known, ", ", &inspect/1)
        raise ArgumentError, "there is no option #{inspect(key)} here; the options are #{names}"
      end

      {key, value} = valid(key, value)
      Map.update(checked, key, value, &merged(key, &1, value))
    end)
  end

  # `:none` is one of `:values`.
  defp merged(:values, before, value), do: Map.merge(before, value)
  defp merged(_key, _before, value), do: value

  defp valid(:kwargs, value), do: {:kwargs, map(:kwargs, value)}
  defp valid(:loop, loop) when is_pid(loop), do: {:target, {:loop, loop}}
  defp valid(:loop, loop) when is_atom(loop) and loop != nil, do: {:target, {:loop, loop}}
  defp valid(:pool, pool) when is_atom(pool) and pool != nil, do: {:target, {:pool, pool}}
  defp valid(:none, none) when none in [nil, :none], do: {:values, %{none: none}}
  defp valid(:values, values), do: {:values, map(:values, values)}
  defp valid(:affinity, key), do: {:affinity, key}
  defp valid(:structs, structs) when is_boolean(structs), do: {:structs, structs}
  defp valid(:return, return) when return in [:value, :ref], do: {:return, return}
  defp valid(:demand, demand) when is_integer(demand) and demand > 0, do: {:demand, demand}

  defp valid(:namespace, namespace) when is_reference(namespace), do: {:namespace, namespace}
  defp valid(:namespace, %Object{ref: namespace}), do: {:namespace, namespace}
  defp valid(:file, file) when is_binary(file), do: {:file, file}
  defp valid(:line, line) when line in 1..10_000_000, do: {:line, line}

  defp valid(:timeout, timeout)
       when timeout == :infinity or (is_integer(timeout) and timeout in 0..0xFFFFFFFF),
       do: {:timeout, timeout}

  defp valid(key, value) do
    raise ArgumentError, "#{inspect(key)} is #{inspect(value)}, and must be #{expected(key)}"
  end

  defp expected(:loop), do: "a pid or a name"
  defp expected(:pool), do: "the name of a pool"
  defp expected(:none), do: "nil or :none"
  defp expected(:structs), do: "true or false"
  defp expected(:return), do: ":value or :ref"
  defp expected(:demand), do: "a positive integer"
  defp expected(:namespace), do: "a reference that namespace/1 returned"
  defp expected(:file), do: "a path"
  defp expected(:line), do: "a number from 1 to 10,000,000"
  defp expected(:timeout), do: "a number of milliseconds or :infinity"

  @doc "A map, which may be written as a keyword list."
  def map(_name, map) when is_map(map) and not is_struct(map), do: map

  def map(name, list) do
    if not Keyword.keyword?(list) do
      raise ArgumentError,
            "#{inspect(name)} must be a keyword list or a map, and is #{inspect(list)}"
    end

    Map.new(list)
  end
end
