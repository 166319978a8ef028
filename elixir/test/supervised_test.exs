defmodule ErlangLoop.SupervisedTest do
  @moduledoc "Are loops and pools children of a supervisor as others are?"
  use ExUnit.Case, async: true

  defp thread(options) do
    ErlangLoop.call!(:erlang_loop_shell, :thread, [], options)
  end

  setup_all do
    ErlangLoop.exec!("""
    import threading

    async def thread():
        return threading.get_ident()
    """)
  end

  test "requests to a pool with equal keys go to the same loop" do
    start_supervised!({ErlangLoop.Pool, name: :keyed_pool, size: 3})
    options = [pool: :keyed_pool, affinity: {:user, 42}]
    threads = for _ <- 1..6, do: thread(options)
    assert [same] = Enum.uniq(threads)
    task = ErlangLoop.submit!(:erlang_loop_shell, :thread, [], options)
    assert ErlangLoop.await!(task) == same
    assert :ok = ErlangLoop.cast(:erlang_loop_shell, :thread, [], options)
    assert ErlangLoop.eval!("1", [], options) == 1
    assert :ok = ErlangLoop.exec("pass", options)
    assert [0] = Enum.to_list(ErlangLoop.stream!(:builtins, :range, [1], options))

    assert_raise ArgumentError, ~r/:affinity without :pool/, fn -> thread(affinity: 1) end
  end

  test "a loop" do
    start_supervised!({ErlangLoop.Loop, name: :supervised_loop, init: "import asyncio"})
    assert thread(loop: :supervised_loop) == thread(loop: :supervised_loop)
    assert thread(loop: :supervised_loop) != thread([])

    assert {:ok, "done"} =
             :supervised_loop
             |> then(&ErlangLoop.submit!(:asyncio, :sleep, [0, "done"], loop: &1))
             |> ErlangLoop.await()

    assert [0, 1] = Enum.to_list(ErlangLoop.stream!(:builtins, :range, [2], loop: :supervised_loop))
    assert {:ok, %{queued: 0}} = ErlangLoop.Loop.info(:supervised_loop)
    assert {:ok, []} = ErlangLoop.Loop.tasks(:supervised_loop)
    pid = Process.whereis(:supervised_loop)
    monitor = Process.monitor(pid)
    Process.exit(pid, :kill)
    assert_receive {:DOWN, ^monitor, :process, ^pid, :killed}

    assert is_integer(
             again(fn ->
               ErlangLoop.call(:erlang_loop_shell, :thread, [], loop: :supervised_loop)
             end)
           )

    :ok = stop_supervised(:supervised_loop)
    assert {:error, %ErlangLoop.Error{reason: :noproc}} = ErlangLoop.Loop.stop(:supervised_loop)

    assert {:error, %ErlangLoop.Error{reason: {:no_loop, _}}} =
             ErlangLoop.Loop.info(:supervised_loop)
  end

  test "a pool" do
    start_supervised!({ErlangLoop.Pool, name: :supervised_pool, size: 2})

    assert {:ok, [%{name: :supervised_pool_1}, %{name: :supervised_pool_2}]} =
             ErlangLoop.Pool.info(:supervised_pool)

    assert is_integer(thread(pool: :supervised_pool))
    task = ErlangLoop.submit!(:asyncio, :sleep, [0, 1], pool: :supervised_pool)
    assert {:ok, 1} = ErlangLoop.await(task)
    stream = ErlangLoop.stream!(:builtins, :range, [2], pool: :supervised_pool)
    assert Enum.to_list(stream) == [0, 1]
    :ok = stop_supervised(:supervised_pool)
    assert {:error, %ErlangLoop.Error{reason: :noproc}} = ErlangLoop.Pool.info(:supervised_pool)
    assert {:error, %ErlangLoop.Error{reason: :noproc}} = ErlangLoop.Pool.stop(:supervised_pool)
  end

  test "two loops without names are different children" do
    children = [{ErlangLoop.Loop, []}, Supervisor.child_spec({ErlangLoop.Loop, []}, id: :second)]
    {:ok, supervisor} = Supervisor.start_link(children, strategy: :one_for_one)
    assert [{_, one, :worker, _}, {_, two, :worker, _}] = Supervisor.which_children(supervisor)
    assert one != two
    for loop <- [one, two], do: assert(is_integer(thread(loop: loop)))
    :ok = Supervisor.stop(supervisor)
  end

  test "wrong options raise" do
    assert_raise ErlangError, ~r/no such option/, fn -> ErlangLoop.Loop.start_link(nmae: :a) end
    assert_raise ArgumentError, ~r/needs the option :name/, fn -> ErlangLoop.Pool.child_spec([]) end

    assert_raise ArgumentError, ~r/a keyword list or a map/, fn ->
      ErlangLoop.Loop.start_link([1])
    end
  end

  # The supervisor replaces the loop: until then there is none of this name.
  defp again(call) do
    case call.() do
      {:ok, value} ->
        value

      {:error, %ErlangLoop.Error{}} ->
        Process.sleep(5)
        again(call)
    end
  end
end
