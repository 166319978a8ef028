"""Peers: their figures, and executors side by side. `make bench-peers` runs both."""
