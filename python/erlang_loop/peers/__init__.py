"""Python functions that run in peers, for Python programs: docs/peers.md."""

from .executor import PeerDown, PeerPoolExecutor

__all__ = ["PeerDown", "PeerPoolExecutor"]
