"""The past once more: archived snapshots sent again, or detected again and compared."""
