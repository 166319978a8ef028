[
  inputs: ["mix.exs", "elixir/**/*.{ex,exs}"],
  line_length: 100
]
