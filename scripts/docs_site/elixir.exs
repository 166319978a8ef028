# The API page of the Elixir modules, as Markdown on stdout: their documentation as the compiler has it.
# Run by scripts/docs_site with `mix run --no-start`.

modules = [
  ErlangLoop,
  ErlangLoop.Loop,
  ErlangLoop.Pool,
  ErlangLoop.Task,
  ErlangLoop.Sigil,
  ErlangLoop.PythonError,
  ErlangLoop.Error
]

# The headings of the documentation go below those of this page. Doctests are indented, so they are code.
lower = fn text, by -> String.replace(text, ~r/^(?=#+ )/m, String.duplicate("#", by)) end

IO.puts("# Elixir API\n")

for module <- modules do
  {:docs_v1, _, _, _, about, _, entries} = Code.fetch_docs(module)
  IO.puts("## #{inspect(module)}\n")
  with %{"en" => text} <- about, do: IO.puts(lower.(text, 2))

  for {{kind, name, arity}, _, signature, %{"en" => text}, _} <- entries,
      kind in [:function, :macro] do
    title = List.first(signature) || "#{name}/#{arity}"
    IO.puts("### `#{title}` {: ##{inspect(module)}.#{name}-#{arity} }\n\n#{lower.(text, 3)}\n")
  end
end
