"""Tables of attributes are read from the usual formats, or refused with the reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from stream_icd.core.errors import BadRow, BadSettings, SourceNotFound
from stream_icd.sources.node_tables import label_groups, read_attributes
from tests.sources.reading import Content, write


def written(folder: Path, content: Content, name: str = "countries.csv") -> Path:
    return write(folder, {name: content}) / name


def test_csv_and_parquet_give_the_same(tmp_path: Path) -> None:
    table = pa.table({"node": [7018, 3303, 1], "country": ["US", "CH", None]})
    index = ",node,country\n0,7018,US\n1,3303,CH\n2,1,\n"  # of pandas, which is no attribute
    for path in (
        written(tmp_path, "node,country\n7018,US\n3303,CH\n1,\n"),
        written(tmp_path, table, "countries.parquet"),
        written(tmp_path, index, "index.csv"),
    ):
        attributes = read_attributes(path)
        assert attributes.nodes.to_pylist() == [1, 3303, 7018]
        assert attributes.nodes.type == pa.int64()
        assert [column.name for column in attributes.columns] == ["country"]
        assert attributes.columns[0].codes.tolist() == [-1, 0, 1]
    attributes = read_attributes(written(tmp_path, "node,class\n007,a\n7,b\n"))
    assert attributes.nodes.to_pylist() == ["007", "7"]


def test_what_json_does_not_know_is_unknown(tmp_path: Path) -> None:
    rows = '{"node": 7, "size": 1}\n{"node": 8, "size": null}\n{"node": 9, "size": NaN}'
    (size,) = read_attributes(written(tmp_path, rows, "sizes.jsonl")).columns
    assert (size.values, size.codes.tolist()) == (("1",), [0, -1, -1])
    with pytest.raises(BadSettings, match="is empty, damaged or unreadable"):
        read_attributes(written(tmp_path, "[7]\n", "sizes.jsonl"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "node,community\n7018.0,x\n3303.0,y\n"),
        ("a.jsonl", '{"node": 7018.0, "community": "x"}\n{"node": 3303.0, "community": "y"}\n'),
        ("a.parquet", pa.table({"node": [7018.0, 3303.0], "community": ["x", "y"]})),
    ],
)
def test_integers_that_pandas_made_floats_are_the_same_nodes(
    name: str, content: Content, tmp_path: Path
) -> None:
    path = written(tmp_path, content, name)
    assert read_attributes(path).nodes.to_pylist() == [3303, 7018]
    (labels,) = label_groups(path).values()
    assert labels == {"7018": "x", "3303": "y"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("id,country\n1,CH\n", "has the columns id, country; .* column node"),
        ("node\n1\n", "a column besides node"),
        ("node,country\n1,CH\n1,AT\n", "such as 1; give each node one row"),
        ("node,country\n,CH\n", "1 rows have no node"),
        ("node,country\n", "no rows"),
        ("", "is empty"),
    ],
)
def test_a_bad_table_says_what_is_wrong(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(BadSettings, match=why):
        read_attributes(written(tmp_path, text))


def test_a_file_that_is_missing_or_of_another_form_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFound, match=r"no file .*countries"):
        read_attributes(tmp_path / "countries")
    with pytest.raises(BadSettings, match=r"countries is none of \.csv, "):
        read_attributes(written(tmp_path, "node,country\n1,CH\n", "countries"))


@pytest.mark.parametrize(("column", "read"), [("town", read_attributes), ("label", label_groups)])
def test_text_that_is_not_utf_8_is_refused_where_it_is(
    column: str, read: Callable[[Path], object], tmp_path: Path
) -> None:
    text = f"node,{column}\n1,Bern\n2,Zürich\n3,Zörich\n".encode("latin-1")
    with pytest.raises(BadRow, match=r"towns\.csv:3: 'Z.rich' is not UTF-8"):
        read(written(tmp_path, text, "towns.csv"))


def test_labels_that_are_no_texts_or_numbers_are_refused(tmp_path: Path) -> None:
    table = pa.table({"node": [1, 2], "label": [["a"], ["b"]]})
    with pytest.raises(BadRow, match=r"known\.parquet: label is no column of texts or numbers"):
        label_groups(written(tmp_path, table, "known.parquet"))
