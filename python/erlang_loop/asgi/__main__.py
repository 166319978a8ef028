"""`bin/erlang-loop -m erlang_loop.asgi main:app`."""

import sys

from erlang_loop.asgi.command import main

sys.exit(main())
