"""Priorities of `call_soon`.

Those of HIGH run before the next one of NORMAL, but no more than 32 in a row. One of LOW runs when
there is nothing else, and after 64 others at the latest: no callback waits for ever.
"""

from __future__ import annotations

HIGH = -1
NORMAL = 0
LOW = 1
