"""What a message may make us allocate is for the operator to say."""

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from stream_icd.core.communities import Labels
from stream_icd.core.errors import BadSettings, LimitExceeded
from stream_icd.core.events import CommunityEvents
from stream_icd.core.snapshot import MOST_NODE_BYTES, Snapshot, snapshot_from_pairs
from stream_icd.methods.memory.memory import empty_memory
from stream_icd.wire.arrow_stream import write_table
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits
from stream_icd.wire.snapshots import decode_snapshot, encode_snapshot
from tests.wire.samples import DAY


def test_the_environment_wins_over_the_file_over_the_contract(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[limits]\nrows = 10\nheader_bytes = 20\n[kafka]\nclient_id = 'x'\n")
    monkeypatch.setenv("STREAM_ICD_CONFIG_FILE", str(file))
    monkeypatch.setenv("STREAM_ICD_LIMITS_ROWS", "30")
    limits = Limits()
    assert (limits.rows, limits.header_bytes) == (30, 20)
    assert limits.decoded_bytes == DEFAULT_LIMITS.decoded_bytes == 1 << 30


def test_a_limit_is_a_whole_number_above_0_and_one_that_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in ("0", "1.5", "many", ""):
        monkeypatch.setenv("STREAM_ICD_LIMITS_DECODED_BYTES", value)
        with pytest.raises(BadSettings, match=r"^limits\.decoded_bytes: "):
            Limits()
    monkeypatch.delenv("STREAM_ICD_LIMITS_DECODED_BYTES")
    (tmp_path / "settings.toml").write_text("[limits]\nbytes = 10\n")
    monkeypatch.setenv("STREAM_ICD_CONFIG_FILE", str(tmp_path / "settings.toml"))
    with pytest.raises(BadSettings, match="bytes"):
        Limits()


def test_worker_processes_get_the_limits_of_their_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = pickle.dumps(Limits(rows=7))
    monkeypatch.setenv("STREAM_ICD_LIMITS_ROWS", "8")
    assert pickle.loads(sent) == Limits(rows=7)


LONGEST, TOO_LONG = "a" * MOST_NODE_BYTES, "é" + "a" * (MOST_NODE_BYTES - 1)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_an_id_of_a_node_has_a_limit_of_its_own(kind: pa.DataType) -> None:
    def snapshot_of(node: str) -> Snapshot:
        ends = pa.array(["b", "c"], kind), pa.array(["c", node], kind)
        return snapshot_from_pairs(*ends, graph="g", id="g/1", window=DAY)

    message = encode_snapshot(snapshot_of(LONGEST))
    assert decode_snapshot(message.key, message.value, message.headers) == snapshot_of(LONGEST)
    with pytest.raises(LimitExceeded, match=r"éa+… has 4097 bytes; the limit is 4096: send a sho"):
        snapshot_of(TOO_LONG)
    table = pa.table({"src": pa.array(["b"], kind), "dst": pa.array([TOO_LONG], kind)})
    with pytest.raises(LimitExceeded, match="4097 bytes"):
        decode_snapshot(message.key, write_table(table), message.headers)


def test_results_labels_events_and_memories_have_the_same_limit() -> None:
    nodes, names = pa.array(["b", TOO_LONG]), ("g", "g/1", DAY)
    makers: list[Callable[[], object]] = [
        lambda: Labels(*names, nodes, np.zeros(2, np.int32)),
        lambda: CommunityEvents(*names, "m", nodes, np.zeros(2, np.int64), (), 1),
        lambda: empty_memory(DAY, nodes, 0),
    ]
    for make in makers:
        with pytest.raises(LimitExceeded, match="4097 bytes"):
            make()
