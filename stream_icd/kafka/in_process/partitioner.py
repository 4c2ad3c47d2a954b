"""Choose the partition of a key as Kafka clients do."""

from __future__ import annotations

_SEED = 0x9747B28C
_M = 0x5BD1E995
_ALL = 0xFFFFFFFF


def partition_of(key: bytes, n_partitions: int) -> int:
    """The partition of a key by murmur2, the default of Kafka's own client and of many others.

    >>> [partition_of(b"key-%d" % number, 3) for number in range(3)]
    [1, 0, 2]
    """
    return (murmur2(key) & 0x7FFFFFFF) % n_partitions


def murmur2(key: bytes) -> int:
    """Austin Appleby's 32-bit hash MurmurHash2, with Kafka's seed."""
    h = _SEED ^ len(key)
    whole = len(key) - len(key) % 4
    for start in range(0, whole, 4):
        k = int.from_bytes(key[start : start + 4], "little") * _M & _ALL
        h = (h * _M & _ALL) ^ ((k ^ k >> 24) * _M & _ALL)
    if whole < len(key):
        h = (h ^ int.from_bytes(key[whole:], "little")) * _M & _ALL
    h = (h ^ h >> 13) * _M & _ALL
    return h ^ h >> 15
