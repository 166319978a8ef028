"""The documentation as a static site: `make site` writes it to _build/site/html.

pages.py     the pages, with links that work there
erlang.py    the API pages of the Erlang modules, from edoc
elixir.exs   the API page of the Elixir modules, from their documentation
python.py    those of the Python packages, from their docstrings
examples.py  the examples, with what they print
check.py     are all links, anchors and pictures there?
mkdocs.yml   how mkdocs-material makes HTML and the search index of it
"""
