"""What asyncio's loops keep in private attributes, read from the native loop.

queues.py      _ready and _scheduled
selector.py    _selector
transports.py  _transports
"""
