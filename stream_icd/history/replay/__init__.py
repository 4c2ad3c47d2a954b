"""Replays archived snapshots: publishes them again, or detects them again and compares."""
