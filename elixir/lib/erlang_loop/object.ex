defmodule ErlangLoop.Object do
  @moduledoc """
  A Python object that stays in Python: a client with its connection, a model, a data frame.

  The option `return: :ref` of `ErlangLoop.call/4` and the other functions returns one:

      iex> {:ok, counter} = ErlangLoop.call(:collections, :Counter, ["banana"], return: :ref)
      iex> inspect(counter)
      "#ErlangLoop.Object<collections.Counter>"
      iex> ErlangLoop.call(counter, :most_common, [1])
      {:ok, [{"a", 3}]}
      iex> ErlangLoop.call(:builtins, :sorted, [counter])
      {:ok, ["a", "b", "n"]}
      iex> ErlangLoop.Object.value(counter)
      {:ok, %{"a" => 3, "b" => 1, "n" => 2}}

  Wherever a function takes a module, it takes an object, and calls its method; names may be dotted:
  `ErlangLoop.call(client, "chat.completions.create", [], kwargs: [model: model])`. As an argument, also
  inside a list or map, it is the object itself.

  The object lives as long as a process of this node has its reference. `docs/objects.md` has the rest.
  With the option `structs: false` it is the plain reference, as in Erlang.

  The functions here take the options `:timeout`, `:loop`, `:return`, `:none`, `:values` and `:structs`
  of `ErlangLoop`.
  """

  alias ErlangLoop.Options

  @enforce_keys [:ref]
  defstruct [:ref]

  @type t :: %__MODULE__{ref: :py.object()}

  @doc """
  An attribute of the object; the name may be dotted.

      iex> {:ok, fraction} = ErlangLoop.call(:fractions, :Fraction, [3, 4], return: :ref)
      iex> ErlangLoop.Object.attr(fraction, :denominator)
      {:ok, 4}
  """
  @spec attr(t, ErlangLoop.name(), ErlangLoop.options()) :: ErlangLoop.result()
  def attr(%__MODULE__{ref: ref}, name, options \\ []) do
    ask(&:py.attr(ref, name, &1), options)
  end

  @doc "Like `attr/3`, but returns the value or raises."
  @spec attr!(t, ErlangLoop.name(), ErlangLoop.options()) :: term
  def attr!(object, name, options \\ []), do: ErlangLoop.value!(attr(object, name, options))

  @doc """
  `object[key]`.

      iex> {:ok, counter} = ErlangLoop.call(:collections, :Counter, ["banana"], return: :ref)
      iex> ErlangLoop.Object.item(counter, "a")
      {:ok, 3}
  """
  @spec item(t, term, ErlangLoop.options()) :: ErlangLoop.result()
  def item(%__MODULE__{ref: ref}, key, options \\ []) do
    ask(&:py.item(ref, key, &1), options)
  end

  @doc "Like `item/3`, but returns the value or raises."
  @spec item!(t, term, ErlangLoop.options()) :: term
  def item!(object, key, options \\ []), do: ErlangLoop.value!(item(object, key, options))

  @doc "The value of the object, as any result is converted."
  @spec value(t, ErlangLoop.options()) :: ErlangLoop.result()
  def value(%__MODULE__{ref: ref}, options \\ []), do: ask(&:py.value(ref, &1), options)

  @doc "Like `value/2`, but returns the value or raises."
  @spec value!(t, ErlangLoop.options()) :: term
  def value!(object, options \\ []), do: ErlangLoop.value!(value(object, options))

  @doc """
  The object as Python prints it.

      iex> {:ok, fraction} = ErlangLoop.call(:fractions, :Fraction, [3, 4], return: :ref)
      iex> ErlangLoop.Object.repr(fraction)
      {:ok, "Fraction(3, 4)"}
  """
  @spec repr(t, ErlangLoop.options()) :: ErlangLoop.result()
  def repr(%__MODULE__{ref: ref}, options \\ []), do: ask(&:py.repr(ref, &1), options)

  @doc "The name of the object's type, such as `\"collections.Counter\"`. Does not wait for Python."
  @spec type(t) :: String.t()
  def type(%__MODULE__{ref: ref}) do
    type_of(ref) ||
      raise ArgumentError, "#{inspect(ref)} is of another node, or of before a restart"
  end

  @doc false
  def type_of(reference) do
    :py_nif.object_type(reference)
  rescue
    # Not a Python object of this node.
    ArgumentError -> nil
  end

  defp ask(function, options) do
    known = [:timeout, :loop, :return, :none, :values, :structs]
    options = Options.check(options, known)

    given =
      case options do
        %{target: {:loop, loop}} -> %{loop: loop}
        %{target: :default} -> %{}
      end

    options
    |> Map.take([:timeout, :return, :values])
    |> Map.merge(given)
    |> function.()
    |> ErlangLoop.result(options)
  end

  defimpl Inspect do
    def inspect(%{ref: ref}, _options) do
      "#ErlangLoop.Object<#{ErlangLoop.Object.type_of(ref) || Kernel.inspect(ref)}>"
    end
  end
end
