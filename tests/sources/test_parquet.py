"""Parquet is read in parts that fit into memory, whatever its few bytes stand for."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stream_icd.core.errors import LimitExceeded
from stream_icd.core.node_ids import plain_columns
from stream_icd.sources.content import Parquet
from stream_icd.sources.tables import read_rows
from stream_icd.wire.limits import Limits

N = 3000


def categories(*texts: str) -> pa.Array:
    """N rows, which repeat the texts in turn."""
    return pa.DictionaryArray.from_arrays(
        pa.array(np.arange(N) % len(texts), pa.int32()), pa.array(texts)
    )


def written(table: pa.Table, **options: object) -> io.BytesIO:
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    return file


HOSTILE = pa.table({"src": categories("x" * 1_000_000), "dst": categories("a", "b")})


@pytest.mark.parametrize("says_type", [True, False], ids=["categories", "text"])
def test_one_long_text_repeated_is_read_in_small_parts(says_type: bool) -> None:
    file = written(HOSTILE, store_schema=says_type)
    assert file.getbuffer().nbytes < 100_000
    parts = Parquet(file).parts(["dst", "src"])
    sizes = [(len(part), plain_columns(part).nbytes) for part in parts]
    assert sum(n for n, _ in sizes) == N
    assert max(size for _, size in sizes) < 1.1 * (64 << 20)


def test_a_snapshot_of_one_long_text_is_refused_before_it_is_large() -> None:
    parquet = Parquet(written(HOSTILE))
    with pytest.raises(LimitExceeded, match="more than 100,000,000 bytes"):
        parquet.table(["src", "dst"], Limits(decoded_bytes=100_000_000))


def test_rows_with_long_texts_are_read_as_they_are(tmp_path: Path) -> None:
    short = pa.table({"src": ["a"] * 10, "dst": ["b"] * 10})
    texts = ["y" * 5000, "c", None]
    long = pa.table({"src": pa.array(texts * 5), "dst": pa.array(["d", None, "e"] * 5)})
    with pq.ParquetWriter(tmp_path / "t.parquet", short.schema) as writer:
        for table in (short, long):  # a group of rows each
            writer.write_table(table)
    batches = read_rows(tmp_path / "t.parquet", ["dst", "src"], pytest.fail)
    rows = pa.concat_tables([batch.rows for batch in batches])
    assert rows.column_names == ["dst", "src"]
    assert rows["src"].to_pylist() == ["a"] * 10 + texts * 5
    assert rows["dst"].to_pylist() == ["b"] * 10 + ["d", None, "e"] * 5


def test_categories_of_polars_are_read() -> None:
    frame = polars.DataFrame({"src": ["a", "b" * 5000, "a"]}, schema={"src": polars.Categorical})
    table = pa.concat_tables(map(plain_columns, Parquet(written(frame.to_arrow())).parts(["src"])))
    assert table["src"].to_pylist() == ["a", "b" * 5000, "a"]


def test_a_compressed_file_around_parquet_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    class Compressed(io.BytesIO):
        def seekable(self) -> bool:
            return False

    content = written(HOSTILE).getvalue()
    assert Parquet(Compressed(content)).schema.names == ["src", "dst"]
    monkeypatch.setattr("stream_icd.sources.content._MOST_PACKED", len(content) - 1)
    with pytest.raises(LimitExceeded, match="bytes uncompressed: uncompress it"):
        Parquet(Compressed(content))
