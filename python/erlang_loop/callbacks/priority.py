"""Priorities of `call_soon`.

HIGH callbacks run before the next NORMAL one, but at most 32 in a row. A LOW callback runs when
there is nothing else, and after 64 others at the latest: no callback is starved.
"""

from __future__ import annotations

HIGH = -1
NORMAL = 0
LOW = 1
