"""Throw mutated messages at the snapshot decoder and count how each one ends.

    python benchmarks/fuzz_wire.py --inputs 200000

Every input must end in a snapshot or in one of our own dead-letter errors; anything else is
printed with the seed that made it, and the exit status is 1. Memory stays below the limit
that the decoder is given, whatever a message announces.
"""

from __future__ import annotations

import argparse
import collections
import resource
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import track

from stream_icd.errors import BadInput
from stream_icd.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.wire.limits import Limits
from stream_icd.wire.message import Headers, Message
from stream_icd.wire.snapshots import decode_snapshot, encode_snapshot

LIMITS = Limits(decoded_bytes=64 << 20, rows=1_000_000)
EXTREMES = (0, 1, 0x7F, 0x80, 0xFF)
WORDS = (0, -1, 1, 2**31 - 1, -(2**31), 2**62, -(2**63))


def seed_snapshots() -> list[Snapshot]:
    """Small snapshots of each shape that the contract has: the material to mutate."""
    day = Window(datetime(1999, 4, 2, tzinfo=UTC), datetime(1999, 4, 3, tzinfo=UTC))
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 50, (2, 200))
    names = pa.array([f"host-{i}" for i in src]), pa.array([f"host-{i}" for i in dst])
    lonely = pa.array([*dst[:-5].tolist(), *[None] * 5])
    return [
        snapshot_from_pairs(src, dst, graph="g", id="g/1", window=day),
        snapshot_from_pairs(src, dst, graph="g", id="g/2", window=day, weights=rng.random(200) + 1),
        snapshot_from_pairs(*names, graph="g", id="g/3", window=day, n_communities=3),
        snapshot_from_pairs(src, lonely, graph="g", id="g/4", window=day),
    ]


def _flip_bytes(value: bytearray, rng: np.random.Generator) -> bytearray:
    for at in rng.integers(0, len(value), rng.integers(1, 9)):
        value[at] = rng.integers(256)
    return value


def _set_extremes(value: bytearray, rng: np.random.Generator) -> bytearray:
    for at in rng.integers(0, len(value), rng.integers(1, 5)):
        value[at] = EXTREMES[rng.integers(len(EXTREMES))]
    return value


def _set_word(value: bytearray, rng: np.random.Generator) -> bytearray:
    at = int(rng.integers(0, max(1, len(value) // 8 - 1))) * 8
    value[at : at + 8] = WORDS[rng.integers(len(WORDS))].to_bytes(8, "little", signed=True)
    return value


def _truncate(value: bytearray, rng: np.random.Generator) -> bytearray:
    return value[: rng.integers(len(value))]


def _repeat(value: bytearray, rng: np.random.Generator) -> bytearray:
    low, high = sorted(rng.integers(0, len(value), 2))
    return value[:high] + value[low:]


def _drop(value: bytearray, rng: np.random.Generator) -> bytearray:
    low, high = sorted(rng.integers(0, len(value), 2))
    return value[:low] + value[high:]


MUTATIONS: tuple[Callable[[bytearray, np.random.Generator], bytearray], ...] = (
    _flip_bytes,
    _set_extremes,
    _set_word,
    _truncate,
    _repeat,
    _drop,
)


def _mutate_headers(headers: Headers, rng: np.random.Generator) -> Headers:
    at = int(rng.integers(len(headers)))
    name, value = headers[at]
    changed = bytes(_flip_bytes(bytearray(value), rng))
    choices = ((), ((name, b""),), ((name, changed),), ((name, value), (name, value)))
    return headers[:at] + choices[rng.integers(len(choices))] + headers[at + 1 :]


def mutated(n_inputs: int, seed: int) -> Iterator[Message]:
    """`n_inputs` messages, each a valid one with a few things broken; same seed, same inputs."""
    rng = np.random.default_rng(seed)
    seeds = [encode_snapshot(snapshot) for snapshot in seed_snapshots()]
    for _ in range(n_inputs):
        message = seeds[rng.integers(len(seeds))]
        if rng.random() < 0.1:
            yield Message(message.key, message.value, _mutate_headers(message.headers, rng))
            continue
        value = bytearray(message.value)
        for _ in range(rng.integers(1, 4)):
            value = MUTATIONS[rng.integers(len(MUTATIONS))](value, rng) or bytearray(1)
        yield Message(message.key, bytes(value), message.headers)


def outcome(message: Message) -> str:
    """How decoding ended: `snapshot`, one of our errors, or `UNEXPECTED …`."""
    try:
        decode_snapshot(message.key, message.value, message.headers, LIMITS)
    except BadInput as error:
        return type(error).__name__
    except Exception as error:
        return f"UNEXPECTED {type(error).__name__}: {error}"
    return "snapshot"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    console = Console()
    messages = track(mutated(arguments.inputs, arguments.seed), total=arguments.inputs)
    outcomes = collections.Counter(map(outcome, messages))
    for name, count in outcomes.most_common():
        console.print(f"{count:>9,}  {name}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    console.print(f"{arguments.inputs:>9,}  inputs, peak memory {peak:.0f} MiB")
    return int(any(name.startswith("UNEXPECTED") for name in outcomes))


if __name__ == "__main__":
    raise SystemExit(main())
