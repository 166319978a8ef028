defmodule ErlangLoop.Loop do
  @moduledoc """
  A loop of your own, as a child of your supervisor:

      children = [
        {ErlangLoop.Loop, name: MyApp.Loop, init: "import asyncio"}
      ]

      ErlangLoop.call(:asyncio, :sleep, [0.01, "done"], loop: MyApp.Loop)

  Coroutines run on the loop's thread, plain functions on call threads. The options are those of
  `:py_event_loop.start_link/1`, as a keyword list: `:name`, `:init`, `:thread`, `:waiting`, `:max_queue`,
  `:max_tasks`, `:patience`, `:stuck_policy`. A wrong option raises. With `place: :peer` the loop lives in
  an operating system process of its own, whose crash costs only that: `docs/peers.md`.
  """

  @type loop :: pid | atom

  @doc "Starts a loop, which is linked to the calling process."
  @spec start_link(keyword) :: {:ok, pid} | {:error, term}
  def start_link(options \\ []) do
    :py_event_loop.start_link(ErlangLoop.Options.map(:options, options))
  end

  @doc "A child specification; its id is the loop's name."
  @spec child_spec(keyword) :: Supervisor.child_spec()
  def child_spec(options) do
    options = ErlangLoop.Options.map(:options, options)

    Map.merge(:py_event_loop.child_spec(options), %{
      id: Map.get(options, :name, __MODULE__),
      start: {__MODULE__, :start_link, [Map.to_list(options)]}
    })
  end

  @doc """
  Shuts a loop down: it cancels its tasks, waits for them, and closes. Returns the tasks that did not
  end. A loop below your supervisor is ended by `Supervisor.terminate_child/2`.

      iex> {:ok, loop} = ErlangLoop.Loop.start_link()
      iex> ErlangLoop.call(:asyncio, :sleep, [0, "done"], loop: loop)
      {:ok, "done"}
      iex> ErlangLoop.Loop.stop(loop)
      {:ok, []}
  """
  @spec stop(loop, timeout) :: {:ok, [map]} | {:error, ErlangLoop.Error.t()}
  def stop(loop, timeout \\ :infinity), do: wrapped(:py_event_loop.stop(loop, timeout))

  @doc "How many requests wait for the loop and have no reply yet, and how long its turns take."
  @spec info(loop) :: {:ok, map} | {:error, ErlangLoop.Error.t()}
  def info(loop), do: wrapped(:py_event_loop.info(loop))

  @doc "The tasks of the loop: their names, what they run and where they stand."
  @spec tasks(loop) :: {:ok, [map]} | {:error, Exception.t()}
  def tasks(loop), do: wrapped(:py_event_loop.tasks(loop))

  defp wrapped({:ok, value}), do: {:ok, value}
  defp wrapped({:error, reason}), do: {:error, ErlangLoop.exception(reason)}
end
