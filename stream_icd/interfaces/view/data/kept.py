"""What is kept in memory within a limit: beyond it, what was used least lately is dropped."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class KeptValues(Generic[_Key, _Value]):
    """Values by key, up to a total size. Every method may be called from any thread."""

    def __init__(self, most: int) -> None:
        self._most, self._total = most, 0
        self._entries: dict[_Key, tuple[_Value, int]] = {}  # used least lately first
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: _Key) -> bool:
        return key in self._entries

    def put(self, key: _Key, value: _Value, size: int = 1) -> _Value:
        """Keep a value, and return it."""
        with self._lock:
            self.pop(key)
            self._entries[key] = value, size
            self._total += size
            while self._total > self._most:
                self.pop(next(iter(self._entries)))
            return value

    def get(self, key: _Key) -> _Value | None:
        """Return the value of a key; None if it is not kept."""
        with self._lock:
            if key not in self._entries:
                return None
            self._entries[key] = entry = self._entries.pop(key)
            return entry[0]

    def pop(self, key: _Key) -> _Value | None:
        """Return the value of a key, and forget it."""
        with self._lock:
            value, size = self._entries.pop(key, (None, 0))
            self._total -= size
            return value

    def values(self) -> list[_Value]:
        """Return all values, that used least lately first."""
        with self._lock:
            return [value for value, _ in self._entries.values()]
