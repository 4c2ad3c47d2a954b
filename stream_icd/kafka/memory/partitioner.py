"""Which partition a key belongs to, as the clients of Kafka see it."""

from __future__ import annotations

_SEED = 0x9747B28C
_M = 0x5BD1E995
_ALL = 0xFFFFFFFF


def partition_of(key: bytes, n_partitions: int) -> int:
    """By murmur2 of the key, the default of Kafka's own client and of many others.

    >>> [partition_of(b"key-%d" % number, 3) for number in range(3)]
    [1, 0, 2]
    """
    return (murmur2(key) & 0x7FFFFFFF) % n_partitions


def murmur2(key: bytes) -> int:
    """Austin Appleby's hash MurmurHash2 with 32 bits, with the seed that Kafka gives it."""
    h = _SEED ^ len(key)
    whole = len(key) - len(key) % 4
    for start in range(0, whole, 4):
        k = int.from_bytes(key[start : start + 4], "little") * _M & _ALL
        h = (h * _M & _ALL) ^ ((k ^ k >> 24) * _M & _ALL)
    if whole < len(key):
        h = (h ^ int.from_bytes(key[whole:], "little")) * _M & _ALL
    h = (h ^ h >> 13) * _M & _ALL
    return h ^ h >> 15
