"""Exported files hold what was asked for, in order, and appear whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from stream_icd.errors import BadSettings, SourceNotFound
from stream_icd.history.archive import Archive, Selection
from stream_icd.history.export import export
from stream_icd.snapshot import Snapshot
from stream_icd.store.store import Store
from stream_icd.wire.snapshots import encode_snapshot

READERS = {
    "parquet": pq.read_table,
    "csv": pa.csv.read_csv,
    "arrow": lambda path: pa.ipc.open_file(path).read_all(),
}


@pytest.mark.parametrize("suffix", READERS)
def test_each_format_holds_every_row(
    store: Store, tmp_path: Path, snapshot: Callable[..., Snapshot], suffix: str
) -> None:
    sent = [snapshot(i) for i in (5, 1)]
    for one in sent:
        Archive(store).add("snapshots", encode_snapshot(one))
    out = tmp_path / f"rows.{suffix}"
    n_rows = export(store, Selection(), out)
    table = READERS[suffix](out)
    assert table.num_rows == n_rows == sum(one.n_edges + 1 for one in sent)
    assert list(dict.fromkeys(table["snapshot_id"].to_pylist())) == ["test/1", "test/5"]
    assert set(table["graph"].to_pylist()) == {"test"}
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_ids_of_two_types_do_not_go_into_one_file(
    store: Store, tmp_path: Path, snapshot: Callable[..., Snapshot]
) -> None:
    Archive(store).add("snapshots", encode_snapshot(snapshot(0)))
    Archive(store).add("snapshots", encode_snapshot(snapshot(1, graph="words", kind=str)))
    out = tmp_path / "rows.parquet"
    with pytest.raises(BadSettings, match="words.*--graph"):
        export(store, Selection(), out)
    assert not out.exists()
    export(store, Selection(graph="words"), out)
    assert pq.read_table(out)["src"].type == pa.string()


def test_nothing_to_export_is_said(store: Store, tmp_path: Path) -> None:
    with pytest.raises(SourceNotFound, match="stream-icd consume archive"):
        export(store, Selection(), tmp_path / "rows.csv")
    with pytest.raises(BadSettings, match="rows.xls"):
        export(store, Selection(), tmp_path / "rows.xls")
