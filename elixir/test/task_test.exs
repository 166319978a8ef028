defmodule ErlangLoop.TaskTest do
  @moduledoc "What can be done with a submitted call?"
  use ExUnit.Case, async: true

  alias ErlangLoop.{Error, PythonError}

  test "a task is awaited once" do
    task = ErlangLoop.submit!(:math, :sqrt, [16])
    assert 4.0 = ErlangLoop.await!(task)
    assert {:error, %Error{reason: :noproc}} = ErlangLoop.await(task)
  end

  test "a task is cancelled after its timeout" do
    task = ErlangLoop.submit!(:asyncio, :sleep, [3600])
    assert {:error, %Error{reason: :timeout}} = ErlangLoop.await(task, 10)
    assert_raise Error, fn -> ErlangLoop.await!(task) end
  end

  test "yield returns what there is" do
    task = ErlangLoop.submit!(:math, :sqrt, [-1])
    assert {:error, %PythonError{text: "math domain error"}} = ErlangLoop.yield(task, 5000)
  end

  test "another process can cancel, and cannot await" do
    task = ErlangLoop.submit!(:asyncio, :sleep, [3600])
    other = Task.async(fn -> catch_error(ErlangLoop.await(task)) end)
    assert :badarg = Task.await(other)
    :ok = Task.await(Task.async(fn -> ErlangLoop.cancel(task) end))
    assert {:error, %Error{reason: :cancelled}} = ErlangLoop.await(task)
  end

  test "its text has the call and its owner" do
    task = ErlangLoop.submit!("os.path", :basename, ["a/b"])
    assert inspect(task) == "#ErlangLoop.Task<os.path.basename, owner: #{inspect(self())}>"
    assert {:ok, "b"} = ErlangLoop.await(task)
  end
end
