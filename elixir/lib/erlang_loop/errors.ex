defmodule ErlangLoop.PythonError do
  @moduledoc """
  An exception of Python. Its message is Python's traceback.

    * `type` - module and name of its class: `"builtins.ValueError"`
    * `text` - what `str(exception)` is
    * `traceback` - maps with `:file`, `:line`, `:function` and `:source`, the outermost call first
    * `notes` - a list of texts
    * `cause`, `context` - an exception like this one, or `nil`
    * `exceptions` - the members of an exception group, like this one
    * `reason` - the map of `docs/values.md`, which `:py.call/3` returns
  """

  defexception [:type, :text, :traceback, :notes, :cause, :context, :exceptions, :reason]

  @type t :: %__MODULE__{
          type: String.t(),
          text: String.t(),
          traceback: [map],
          notes: [String.t()],
          cause: t | nil,
          context: t | nil,
          exceptions: [t],
          reason: map
        }

  @doc false
  def from(%{type: type, message: text, traceback: traceback} = map) do
    %__MODULE__{
      type: type,
      text: text,
      traceback: traceback,
      notes: map.notes,
      cause: linked(map.cause),
      context: linked(map.context),
      exceptions: for(member <- Map.get(map, :exceptions, []), do: from(member)),
      reason: map
    }
  end

  defp linked(%{} = map), do: from(map)
  defp linked(:none), do: nil

  @impl true
  def message(%__MODULE__{reason: reason}) do
    reason |> :py_error.format() |> IO.chardata_to_string() |> String.trim_trailing()
  end
end

defmodule ErlangLoop.Error do
  @moduledoc """
  Why there is no result, if Python did not raise: `reason` is `:timeout`, `:cancelled`, `:loop_down`,
  `:overload`, `:deadlock`, `:not_started`, `:noproc`, `:unavailable`, `{:no_loop, name}`,
  `{:no_pool, name}`, `{:peer_down, why}`, or a text that says why Python could not be started. The
  module `:py` describes them.
  """

  defexception [:reason]

  @type t :: %__MODULE__{reason: term}

  @impl true
  def message(%__MODULE__{reason: reason}) do
    reason |> :py_error.format() |> IO.chardata_to_string() |> String.trim_trailing()
  end
end
