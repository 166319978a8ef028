# The OTP application for mix: `{:erlang_loop, path: "..."}` or a git dependency. Needs neither Hex nor
# rebar3. native/build makes the native library, as it does for rebar3; mix compiles erl_src/ and elixir/.

defmodule Mix.Tasks.Compile.ErlangLoopNative do
  @moduledoc false
  use Mix.Task.Compiler

  @impl true
  def run(_args) do
    # Its own messages go to the terminal as they come: the first build takes minutes.
    case System.cmd("sh", ["native/build"], into: IO.stream(:stdio, :line), stderr_to_stdout: true) do
      {_, 0} ->
        :ok

      {_, status} ->
        Mix.raise("erlang_loop: native/build failed with exit code #{status}, see above")
    end
  end
end

defmodule Mix.Tasks.Compile.ErlangLoopDocs do
  @moduledoc false
  use Mix.Task.Compiler

  # For `h :py` in the shell.
  @impl true
  def run(_args) do
    if escript = System.find_executable("escript") do
      System.cmd(escript, ["scripts/doc_chunks", Mix.Project.app_path()], into: IO.stream())
    end

    :ok
  end
end

defmodule ErlangLoop.MixProject do
  use Mix.Project

  # One source for rebar3 and mix: version, settings, registered names.
  @external_resource "erl_src/erlang_loop.app.src"
  {:ok, [{:application, :erlang_loop, app}]} =
    :file.consult(Path.join(__DIR__, "erl_src/erlang_loop.app.src"))

  @app app

  def project do
    [
      app: :erlang_loop,
      version: List.to_string(@app[:vsn]),
      description: List.to_string(@app[:description]),
      elixir: "~> 1.14",
      # Not rebar3's folders, whose names are those of profiles: default, test.
      build_path: "_build/mix",
      compilers: [:erlang_loop_native | Mix.compilers()] ++ [:erlang_loop_docs],
      erlc_paths: ["erl_src"],
      erlc_options: [:debug_info],
      elixirc_paths: ["elixir/lib"],
      test_paths: ["elixir/test"],
      deps: []
    ]
  end

  def application do
    Keyword.take(@app, [:mod, :registered, :env]) ++ [extra_applications: []]
  end
end
