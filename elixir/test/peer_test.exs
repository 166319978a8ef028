defmodule ErlangLoop.PeerTest do
  @moduledoc "Is a loop in a process of its own a child of a supervisor, too?"
  use ExUnit.Case, async: false

  # The supervisor's report of the crash would only clutter the output.
  setup do
    %{level: level} = :logger.get_primary_config()
    :ok = :logger.set_primary_config(:level, :none)
    on_exit(fn -> :logger.set_primary_config(:level, level) end)
  end

  test "a loop in a process of its own is a child of a supervisor" do
    children = [{ErlangLoop.Loop, name: :elixir_peer, place: :peer, init: "import math"}]
    {:ok, supervisor} = Supervisor.start_link(children, strategy: :one_for_one)
    first = Process.whereis(:elixir_peer)
    monitor = Process.monitor(first)
    assert {:ok, 4.0} = ErlangLoop.call(:math, :sqrt, [16], loop: :elixir_peer)

    assert [0, 1, 2] =
             ErlangLoop.stream!(:builtins, :range, [3], loop: :elixir_peer) |> Enum.to_list()

    assert {:error, error} = ErlangLoop.call(:ctypes, :string_at, [0], loop: :elixir_peer)
    assert error.reason == {:peer_down, {:signal, :sigsegv}}
    assert Exception.message(error) =~ "sigsegv"
    assert_receive {:DOWN, ^monitor, :process, ^first, _}, 10_000
    # Returns when the supervisor has started the next one.
    Supervisor.which_children(supervisor)

    assert {:ok, 4.0} = ErlangLoop.call(:math, :sqrt, [16], loop: :elixir_peer)
    task = ErlangLoop.submit!(:asyncio, :sleep, [0.01, "done"], loop: :elixir_peer)
    assert inspect(task) =~ "#ErlangLoop.Task<asyncio.sleep, owner: "
    assert {:ok, "done"} = ErlangLoop.await(task)
    :ok = Supervisor.stop(supervisor)
  end
end
