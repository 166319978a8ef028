defmodule ErlangLoop.Values do
  @moduledoc false
  # Values from Python as Elixir has them: structs for what arrives as a tagged tuple, and for
  # references to objects. (Structs on their way to Python need nothing here: the native library knows
  # them.)

  alias ErlangLoop.Object

  @doc "The value as the option `:structs` wants it."
  def from_python(value, %{structs: false}), do: value
  def from_python(value, %{structs: true}), do: convert(value)

  defp convert(value) when is_number(value) or is_binary(value), do: value
  defp convert(list) when is_list(list), do: for(value <- list, do: convert(value))

  defp convert(tuple) when is_tuple(tuple) do
    case struct_of(tuple) do
      {:ok, struct} -> struct
      _ -> tuple |> Tuple.to_list() |> convert() |> List.to_tuple()
    end
  end

  defp convert(map) when is_map(map) and not is_struct(map) do
    Map.new(map, fn {key, value} -> {convert(key), convert(value)} end)
  end

  defp convert(reference) when is_reference(reference) do
    if Object.type_of(reference), do: %Object{ref: reference}, else: reference
  end

  defp convert(value), do: value

  # A tuple that has the tag and no such value stays a tuple.
  defp struct_of({:date, {_, _, _} = date}), do: Date.from_erl(date)
  defp struct_of({:time, {_, _, _} = time, micro}), do: Time.from_erl(time, {micro, 6})

  defp struct_of({:datetime, {{_, _, _}, {_, _, _}} = moment, micro, offset}) do
    with {:ok, naive} <- NaiveDateTime.from_erl(moment, {micro, 6}) do
      case offset do
        :none -> {:ok, naive}
        _ -> {:ok, naive |> NaiveDateTime.add(-offset) |> DateTime.from_naive!("Etc/UTC")}
      end
    end
  end

  defp struct_of({kind, members}) when kind in [:set, :frozenset] and is_list(members),
    do: {:ok, members |> convert() |> MapSet.new()}

  defp struct_of({:decimal, text}) when is_binary(text) do
    # The package may be there or not.
    with true <- Code.ensure_loaded?(Decimal), {decimal, ""} <- apply(Decimal, :parse, [text]) do
      {:ok, decimal}
    end
  end

  defp struct_of(_tuple), do: :no
end
