"""Exported files hold what was asked for, in order, and appear whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from stream_icd.core.errors import BadSettings, SourceNotFound
from stream_icd.core.store.store import Store
from stream_icd.history.archive import Archive, Selection, read_message, windows
from stream_icd.history.export import export
from stream_icd.wire.arrow_stream import write_table
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import encode_snapshot
from tests.history.conftest import make_snapshot

READERS = {
    "parquet": pq.read_table,
    "csv": pa.csv.read_csv,
    "arrow": lambda path: pa.ipc.open_file(path).read_all(),
}


@pytest.mark.parametrize("suffix", READERS)
def test_each_format_holds_every_row(disk: Store, tmp_path: Path, suffix: str) -> None:
    sent = [make_snapshot(i) for i in (5, 1)]
    for one in sent:
        Archive(disk).add("snapshots", encode_snapshot(one))
    out = tmp_path / f"rows.{suffix}"
    n_rows = export(disk, Selection(), out)
    table = READERS[suffix](out)
    assert table.num_rows == n_rows == sum(one.n_edges + 1 for one in sent)
    assert list(dict.fromkeys(table["snapshot_id"].to_pylist())) == ["test/1", "test/5"]
    assert set(table["graph"].to_pylist()) == {"test"}
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_ids_of_two_types_do_not_go_into_one_file(disk: Store, tmp_path: Path) -> None:
    Archive(disk).add("snapshots", encode_snapshot(make_snapshot(0)))
    Archive(disk).add("snapshots", encode_snapshot(make_snapshot(1, graph="words", kind=str)))
    out = tmp_path / "rows.parquet"
    with pytest.raises(BadSettings, match="words.*--graph"):
        export(disk, Selection(), out)
    assert not out.exists()
    export(disk, Selection(graph="words"), out)
    assert pq.read_table(out)["src"].type == pa.string()


def narrow(message: Message) -> Message:
    """The message as an archiver of an earlier version took it from a producer with int32 ids."""
    table = pa.ipc.open_stream(message.value).read_all()
    for name in ("src", "dst"):
        at = table.column_names.index(name)
        table = table.set_column(at, name, table[name].cast(pa.int32()))
    return replace(message, value=write_table(table))


@pytest.mark.parametrize("narrow_one", [0, 1])
def test_integers_of_all_widths_go_into_one_file(
    disk: Store, tmp_path: Path, narrow_one: int
) -> None:
    messages = [encode_snapshot(make_snapshot(i)) for i in range(2)]
    for at, message in enumerate(messages):
        Archive(disk).add("snapshots", narrow(message) if at == narrow_one else message)
    noted = list(windows(disk, Selection()))
    assert "int32" in noted[narrow_one].schema
    assert [read_message(disk, window) for window in noted] == messages
    export(disk, Selection(), tmp_path / "rows.parquet")
    assert pq.read_table(tmp_path / "rows.parquet")["src"].type == pa.int64()


def test_nothing_to_export_is_said(disk: Store, tmp_path: Path) -> None:
    with pytest.raises(SourceNotFound, match="stream-icd consume archive"):
        export(disk, Selection(), tmp_path / "rows.csv")
    with pytest.raises(BadSettings, match="rows.xls"):
        export(disk, Selection(), tmp_path / "rows.xls")
