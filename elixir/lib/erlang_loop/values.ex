defmodule ErlangLoop.Values do
  @moduledoc false
  # Values from Python as Elixir has them: `nil` where Python has None, if the caller wants it, and
  # structs for what arrives as a tagged tuple. (Structs on their way to Python need nothing here:
  # the native library knows them.)

  @doc "The value as the options `:none` and `:structs` want it."
  def from_python(value, %{none: :none, structs: false}), do: value
  def from_python(value, %{none: none, structs: structs}), do: convert(value, none, structs)

  defp convert(value, _none, _structs) when is_number(value) or is_binary(value), do: value
  defp convert(:none, none, _structs), do: none

  defp convert(list, none, structs) when is_list(list),
    do: for(value <- list, do: convert(value, none, structs))

  defp convert(tuple, none, structs) when is_tuple(tuple) do
    with true <- structs, {:ok, struct} <- struct_of(tuple, none) do
      struct
    else
      _ -> tuple |> Tuple.to_list() |> convert(none, structs) |> List.to_tuple()
    end
  end

  defp convert(map, none, structs) when is_map(map) and not is_struct(map) do
    Map.new(map, fn {key, value} ->
      {convert(key, none, structs), convert(value, none, structs)}
    end)
  end

  defp convert(value, _none, _structs), do: value

  # A tuple that has the tag and no such value stays a tuple.
  defp struct_of({:date, {_, _, _} = date}, _none), do: Date.from_erl(date)
  defp struct_of({:time, {_, _, _} = time, micro}, _none), do: Time.from_erl(time, {micro, 6})

  defp struct_of({:datetime, {{_, _, _}, {_, _, _}} = moment, micro, offset}, _none) do
    with {:ok, naive} <- NaiveDateTime.from_erl(moment, {micro, 6}) do
      case offset do
        :none -> {:ok, naive}
        _ -> {:ok, naive |> NaiveDateTime.add(-offset) |> DateTime.from_naive!("Etc/UTC")}
      end
    end
  end

  defp struct_of({kind, members}, none) when kind in [:set, :frozenset] and is_list(members),
    do: {:ok, members |> convert(none, true) |> MapSet.new()}

  defp struct_of({:decimal, text}, _none) when is_binary(text) do
    # The package may be there or not.
    with true <- Code.ensure_loaded?(Decimal), {decimal, ""} <- apply(Decimal, :parse, [text]) do
      {:ok, decimal}
    end
  end

  defp struct_of(_tuple, _none), do: :no
end
