"""A decoder ends in what it decodes or in bad input, whatever a message holds, within limits."""

from __future__ import annotations

import base64
import contextlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stream_icd.core.communities import Labels
from stream_icd.core.errors import BadInput, BadSettings, BadSnapshot, LimitExceeded
from stream_icd.core.events import CommunityEvents
from stream_icd.core.snapshot import LEAST_WEIGHT, MOST_NODE_BYTES, MOST_WEIGHT, Snapshot
from stream_icd.methods.memory.memory import Memory
from stream_icd.methods.quality.partition import modularity, ncut
from stream_icd.wire.arrow_stream import write_table
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits
from stream_icd.wire.snapshots import decode_snapshot, encode_snapshot
from tests.wire.samples import DAY, EVERY_MESSAGE, MESSAGES, decoded, made, with_header

SNAPSHOT = encode_snapshot(made([1], [2]))

# A row of `src` and `dst`; `src` is of a type that pyarrow has no class for.
MONTH_INTERVALS = base64.b64decode(
    "/////6gAAAAQAAAAAAAKAAwABgAFAAgACgAAAAABBAAMAAAACAAIAAAABAAIAAAABAAAAAIAAABMAAAABAAAAMz///8A"
    "AAECEAAAABwAAAAEAAAAAAAAAAMAAABkc3QACAAMAAgABwAIAAAAAAAAAUAAAAAQABQACAAGAAcADAAAABAAEAAAAAAA"
    "AQsQAAAAGAAAAAQAAAAAAAAAAwAAAHNyYwAEAAQABAAAAAAAAAD/////uAAAABQAAAAAAAAADAAWAAYABQAIAAwADAAA"
    "AAADBAAYAAAAGAAAAAAAAAAAAAoAGAAMAAQACAAKAAAAXAAAABAAAAABAAAAAAAAAAAAAAAEAAAAAAAAAAAAAAABAAAA"
    "AAAAAAgAAAAAAAAABAAAAAAAAAAQAAAAAAAAAAAAAAAAAAAAEAAAAAAAAAAIAAAAAAAAAAAAAAACAAAAAQAAAAAAAAAB"
    "AAAAAAAAAAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAQAAAAAAAAD/////AAAAAA=="
)


@pytest.mark.parametrize("kind", EVERY_MESSAGE)
def test_a_header_that_is_missing_repeated_no_text_or_of_another_kind_is_named(kind: str) -> None:
    message, decode, error = EVERY_MESSAGE[kind]
    names = ["ce_specversion", "ce_type", "content-type"]
    if kind in (*MESSAGES, "memory"):
        names += ["icd_window_start", "icd_window_end"]
        names += ["ce_id", "ce_source"] if kind == "snapshot" else ["icd_snapshot_id"]
    for name in names:
        for value, reason in ((None, "missing"), (b"", "missing or empty"), (b"\xff", "not UTF-8")):
            with pytest.raises(error, match=f"header {name} is {reason}"):
                decoded(message, decode, headers=with_header(message.headers, name, value))
    for name in ("ce_id", "content-type", "icd_new"):
        headers = (*with_header(message.headers, name, None), (name, b"a"), (name, b"b"))
        with pytest.raises(error, match=rf"^header {name} is given 2 times; send it once$"):
            decoded(message, decode, headers=headers)
    for name, other in (("ce_type", "stream_icd.other.v1"), ("content-type", "text/csv")):
        with pytest.raises(error, match=f"header {name} is '{other}'; expected"):
            decoded(message, decode, headers=with_header(message.headers, name, other))
    if kind != "announcement":  # it names the registry itself
        for key in (None, b"", b"\xff"):
            with pytest.raises(error, match="key"):
                decoded(message, decode, key=key)


EXTREMES = [0, 1, -1, 8, 255, 2**31 - 1, -(2**31), 2**40, 2**63 - 1, -(2**63)]


@pytest.mark.parametrize("compression", [None, "zstd"])
@pytest.mark.parametrize("kind", MESSAGES)
def test_a_table_with_wrong_bytes_is_decoded_or_refused(kind: str, compression: str | None) -> None:
    message, decode, _ = MESSAGES[kind]
    plain = write_table(pa.ipc.open_stream(message.value).read_all(), compression)
    rng = np.random.default_rng(1)
    for _ in range(200):
        value = np.frombuffer(plain, np.int64).copy()
        value[rng.integers(len(value), size=rng.integers(1, 4))] = rng.choice(EXTREMES)
        bits = value.view(np.uint8)
        bits[rng.integers(len(bits))] ^= 1 << rng.integers(8)
        with contextlib.suppress(BadInput):
            decoded(message, decode, value=value.tobytes())


@pytest.mark.parametrize("kind", MESSAGES)
def test_a_type_as_long_as_the_message_is_not_shown_whole(kind: str) -> None:
    message, decode, error = MESSAGES[kind]
    table = pa.ipc.open_stream(message.value).read_all()
    at = table.num_columns - 1
    wide = pa.nulls(len(table), pa.struct([(f"c{i}", pa.int8()) for i in range(1000)]))
    table = table.set_column(at, table.column_names[at], wide)
    with pytest.raises(error, match="struct<") as caught:
        decoded(message, decode, value=write_table(table))
    assert len(str(caught.value)) < 300


def test_a_type_that_pyarrow_cannot_hold_is_refused() -> None:
    with pytest.raises(BadSnapshot, match="month_interval"):
        decoded(SNAPSHOT, decode_snapshot, value=MONTH_INTERVALS)


@pytest.mark.parametrize("kind", MESSAGES)
def test_what_nobody_thought_of_is_bad_input_too_but_lack_of_memory_is_not(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    message, decode, error = MESSAGES[kind]
    with monkeypatch.context() as strange:
        strange.setattr("stream_icd.wire.message.EventHeaders.window", _raiser(ZeroDivisionError))
        with pytest.raises(error, match="cannot be read: ZeroDivisionError") as caught:
            decoded(message, decode)
    assert len(str(caught.value)) < 500
    for lack in (MemoryError, pa.ArrowMemoryError):
        monkeypatch.setattr(pa.ipc, "open_stream", _raiser(lack))
        with pytest.raises(MemoryError):
            decoded(message, decode)


def _raiser(error: type[BaseException]) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> Any:
        raise error("x" * 10_000)

    return fail


@pytest.mark.parametrize("kind", MESSAGES)
def test_a_name_that_is_too_long_is_refused_before_it_is_read(kind: str) -> None:
    message, decode, _ = MESSAGES[kind]
    limits = Limits(name_bytes=64)
    with pytest.raises(LimitExceeded, match="the key is 8000000 bytes; the limit of a name is 64"):
        decoded(message, decode, key=b"\xff" * 8_000_000, limits=limits)
    for name in {"ce_id", "icd_snapshot_id", "icd_model", "ce_source"} & {*dict(message.headers)}:
        headers = with_header(message.headers, name, "x" * 257)
        with pytest.raises(LimitExceeded, match=f"header {name} is 257 bytes; the limit of a name"):
            decoded(message, decode, headers=headers, limits=limits)
    if kind == "snapshot":  # else its results could not name it
        headers = with_header(message.headers, "ce_id", "x" * 1025)
        with pytest.raises(LimitExceeded, match="header ce_id is 1025 bytes; the limit of a name"):
            decoded(message, decode, headers=headers)
    for graph in ("g" * 201, "é" * 34, "/" * 67):  # which the archive cannot keep
        with pytest.raises(LimitExceeded, match="when written as in a URL; the limit is 200"):
            decoded(message, decode, key=graph.encode())
    headers, longest = message.headers, "é\n" * 22 + "gg"  # 200 bytes as in a URL
    for name in {"ce_id", "icd_snapshot_id", "icd_model", "ce_source"} & {*dict(headers)}:
        headers = with_header(headers, name, "x" * 1024)
    assert decoded(message, decode, key=longest.encode(), headers=headers).graph == longest


@pytest.mark.parametrize("kind", MESSAGES)
def test_a_decompression_bomb_is_refused_before_it_is_decompressed(kind: str) -> None:
    message, decode, _ = MESSAGES[kind]
    schema = pa.ipc.open_stream(message.value).schema
    bomb = write_table(pa.table([pa.nulls(3_000_000, field.type) for field in schema], schema))
    assert len(bomb) < 100_000
    allocated = pa.total_allocated_bytes()
    for limits, reason in (
        (Limits(decoded_bytes=10**6), "limit is 1000000"),
        (Limits(rows=1000), "3000000 rows"),
        (Limits(), f"{len(bomb)} bytes; the limit is 100 times .*DECODED_RATIO"),
    ):
        with pytest.raises(LimitExceeded, match=reason):
            decoded(message, decode, value=bomb, limits=limits)
    assert pa.total_allocated_bytes() <= allocated + 1_000_000


def test_weights_whose_sums_cannot_be_computed_with_are_refused() -> None:
    for weights, reason in (
        ([1e308, 1e308], "add up to inf; the limit is 1e\\+150"),
        ([1e151, 1.0], "add up to 1e\\+151"),  # its square is too large
        ([5e-324, 1.0], "weight 4.94066e-324; the least is 1e-150"),  # so is its reciprocal
    ):
        with pytest.raises(BadSnapshot, match=reason):
            made([1, 2], [2, 3], weights=weights)
    ends = [1, 1, 2, 4, 4, 5, 3], [2, 3, 3, 5, 6, 6, 4]
    for scale in (LEAST_WEIGHT, 0.1 * MOST_WEIGHT):
        weights = np.full(7, scale)
        snapshot = made(*ends, weights=weights)
        labels = np.array([0, 0, 0, 1, 1, 1])
        assert modularity(snapshot.adjacency(), labels) == pytest.approx(5 / 14)
        assert ncut(snapshot.adjacency(), labels) == pytest.approx(1 / 7)


def test_limits_come_from_environment_and_file_and_go_to_worker_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[limits]\nheader_bytes = 20\n[kafka]\nclient_id = 'x'\n")
    monkeypatch.setenv("STREAM_ICD_CONFIG_FILE", str(file))
    monkeypatch.setenv("STREAM_ICD_LIMITS_ROWS", "30")
    limits = Limits()
    assert (limits.rows, limits.header_bytes) == (30, 20)
    assert limits.decoded_bytes == DEFAULT_LIMITS.decoded_bytes == 1 << 30
    sent = pickle.dumps(limits)
    for value in ("0", ""):
        monkeypatch.setenv("STREAM_ICD_LIMITS_ROWS", value)
        with pytest.raises(BadSettings, match=r"^limits\.rows: "):
            Limits()
        assert pickle.loads(sent) == limits


LONGEST, TOO_LONG = "a" * MOST_NODE_BYTES, "é" + "a" * (MOST_NODE_BYTES - 1)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_an_id_of_a_node_has_a_limit_wherever_it_is(kind: pa.DataType) -> None:
    def snapshot_of(node: str) -> Snapshot:
        return made(pa.array(["b"], kind), pa.array([node], kind))

    message = encode_snapshot(snapshot_of(LONGEST))
    assert decoded(message, decode_snapshot) == snapshot_of(LONGEST)
    with pytest.raises(LimitExceeded, match=r"éa+… has 4097 bytes; the limit is 4096: send a sho"):
        snapshot_of(TOO_LONG)
    table = pa.table({"src": pa.array(["b"], kind), "dst": pa.array([TOO_LONG], kind)})
    nodes, names = pa.array(["b", TOO_LONG], kind), ("g", "g/1", DAY)
    makers: list[Callable[[], object]] = [
        lambda: decoded(message, decode_snapshot, value=write_table(table)),
        lambda: Labels(*names, nodes, np.zeros(2, np.int32)),
        lambda: CommunityEvents(*names, "m", nodes, np.zeros(2, np.int64), (), 1),
        lambda: Memory.empty(DAY, nodes, 0),
    ]
    for make in makers:
        with pytest.raises(LimitExceeded, match="4097 bytes"):
            make()
