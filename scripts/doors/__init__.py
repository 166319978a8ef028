"""README's ways in, from an empty folder to the first result: `scripts/try-wheel` and others.

readme.py   the commands and programs, as README has them
places.py   folders, and environments without compilers
shell.py    an interactive shell in which lines are typed
wheel.py, rebar3.py, mix.py, release.py   one script each

Each prints how long it took from the first command to the first result. `make test` runs them, the
wheel in its short form.
"""
