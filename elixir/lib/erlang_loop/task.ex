defmodule ErlangLoop.Task do
  @moduledoc """
  A submitted call: see `ErlangLoop.submit/4`, `ErlangLoop.await/2`, `ErlangLoop.yield/2` and
  `ErlangLoop.cancel/1`. Its fields are private, apart from `owner`, the process that can await it.
  """

  @enforce_keys [:task, :calls, :owner, :shape]
  defstruct @enforce_keys

  @opaque t :: %__MODULE__{task: :py.task(), calls: String.t(), owner: pid, shape: map}

  defimpl Inspect do
    def inspect(task, _options) do
      "#ErlangLoop.Task<#{task.calls}, owner: #{Kernel.inspect(task.owner)}>"
    end
  end
end
