defmodule ErlangLoop.Pool do
  @moduledoc """
  Several loops that share their work, as a child of your supervisor:

      children = [
        {ErlangLoop.Pool, name: MyApp.Pool, size: 4}
      ]

      ErlangLoop.call(:asyncio, :sleep, [0.01, "done"], pool: MyApp.Pool)

  The options are those of `:py_event_loop_pool.start_link/1`, as a keyword list: `:name`, `:size`,
  `:spare`, `:intensity`, `:period`, `:group`, and those of each loop (`ErlangLoop.Loop`). A pool with
  `place: {:group, scope}` uses the loops of several nodes (`docs/clusters.md`). A wrong option raises.
  """

  @doc "Starts a pool, which is linked to the calling process."
  @spec start_link(keyword) :: {:ok, pid} | {:error, term}
  def start_link(options) do
    :py_event_loop_pool.start_link(ErlangLoop.Options.map(:options, options))
  end

  @doc "A child specification; its id is the pool's name."
  @spec child_spec(keyword) :: Supervisor.child_spec()
  def child_spec(options) do
    options = ErlangLoop.Options.map(:options, options)

    if not is_map_key(options, :name) do
      raise ArgumentError, "a pool needs the option :name"
    end

    start = {__MODULE__, :start_link, [Map.to_list(options)]}
    %{:py_event_loop_pool.child_spec(options) | start: start}
  end

  @doc """
  Ends all loops of the pool. A pool below your supervisor is ended by `Supervisor.terminate_child/2`.

      iex> {:ok, _} = ErlangLoop.Pool.start_link(name: :docs_pool, size: 2)
      iex> ErlangLoop.call(:asyncio, :sleep, [0, "done"], pool: :docs_pool)
      {:ok, "done"}
      iex> ErlangLoop.Pool.stop(:docs_pool)
      :ok
  """
  @spec stop(atom, timeout) :: :ok | {:error, ErlangLoop.Error.t()}
  def stop(pool, timeout \\ :infinity) do
    case :py_event_loop_pool.stop(pool, timeout) do
      :ok -> :ok
      {:error, reason} -> {:error, ErlangLoop.exception(reason)}
    end
  end

  @doc "The loops of the pool, with the number of their requests."
  @spec info(atom) :: {:ok, [map]} | {:error, ErlangLoop.Error.t()}
  def info(pool) do
    case :py_event_loop_pool.info(pool) do
      {:ok, loops} -> {:ok, loops}
      {:error, reason} -> {:error, ErlangLoop.exception(reason)}
    end
  end
end
