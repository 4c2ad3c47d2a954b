"""Attributes that change: the newest of each node counts, and memory has a limit."""

from __future__ import annotations

import pyarrow as pa
import pytest

from stream_icd.methods.names.attributes import (
    MOST_ATTRIBUTES,
    LiveAttributes,
    Tables,
    attributes_of,
)


def known(attributes: LiveAttributes, graph: str, kind: pa.DataType) -> dict[str, dict[str, str]]:
    table = attributes.of_graph(graph, kind)
    return {} if table is None else table.rows()


def test_the_newest_attributes_of_a_node_count_and_belong_to_its_graph() -> None:
    attributes = LiveAttributes(clock=iter(range(100)).__next__)
    attributes.take("g", "7", {"country": "US", "tier": "1"})
    attributes.take("g", "7", {"country": "CH"})
    attributes.take("h", "7", {"country": "FR"})
    assert known(attributes, "g", pa.int64()) == {"7": {"country": "CH"}}
    assert known(attributes, "h", pa.string()) == {"7": {"country": "FR"}}
    assert attributes.names == ("country",)
    attributes.take("g", "7", {})
    assert known(attributes, "g", pa.int64()) == {}
    assert attributes.rows("g") == {}


def test_only_integers_are_ids_of_a_graph_of_integers() -> None:
    attributes = LiveAttributes(clock=lambda: 0.0)
    nodes = ["7", "-7", "0", "-0", "07", "x", "7 ", "1e3", str(1 << 63), str(1 << 64), "9" * 20]
    for node in nodes:
        attributes.take("g", node, {"a": "x"})
    high = known(attributes, "g", pa.uint64())
    assert set(high) == {"0", "7", str(1 << 63)}
    attributes.take("g", str(1 << 63), {})
    assert set(known(attributes, "g", pa.int64())) == {"0", "7", "-7"}
    assert set(known(attributes, "g", pa.string())) == {*nodes} - {str(1 << 63)}


def test_a_table_is_not_made_anew_all_the_time() -> None:
    times = iter([0.0, 1.0, 2.0, 30.0, 31.0])
    attributes = LiveAttributes(clock=times.__next__)
    attributes.take("g", "a", {"x": "1"})
    first = attributes.of_graph("g", pa.string())  # takes a second
    attributes.take("g", "b", {"x": "2"})
    assert attributes.of_graph("g", pa.string()) is first
    assert len(known(attributes, "g", pa.string())) == 2


def test_memory_has_a_limit_and_what_is_taken_back_makes_room() -> None:
    attributes = LiveAttributes(most_bytes=20_000, clock=lambda: 0.0)
    for node in range(1000):
        attributes.take("g", f"n{node}", {"a": "x" * 100})
    n_kept = len(attributes.rows("g"))
    assert 10 < n_kept < 50
    assert "those of other nodes are ignored" in attributes.trouble
    for node in range(n_kept):
        attributes.take("g", f"n{node}", {})
    attributes.take("h", "new", {"a": "y"})
    assert attributes.rows("h") == {"new": {"a": "y"}}
    for graph in range(1000):
        attributes.take(f"graph {graph}", "n", {"a": "x"})
    assert sum(bool(attributes.rows(f"graph {graph}")) for graph in range(1000)) < 10


def test_a_graph_has_a_limited_number_of_attributes() -> None:
    attributes = LiveAttributes(clock=lambda: 0.0)
    for node in range(3 * MOST_ATTRIBUTES):
        attributes.take("g", str(node), {f"attribute {node}": "x"})
    assert len(attributes.names) == MOST_ATTRIBUTES
    assert "are ignored" in attributes.trouble


def test_a_graph_with_room_for_one_more_attribute_takes_one_of_many() -> None:
    attributes = LiveAttributes()
    for node, first in enumerate((1, MOST_ATTRIBUTES)):
        attributes.take(
            "g", str(node), {f"a{first + at}": "x" for at in range(MOST_ATTRIBUTES - 1)}
        )
    assert len(attributes.names) == MOST_ATTRIBUTES
    assert "are ignored" in attributes.trouble


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
def test_a_fixed_table_is_that_of_its_graph_or_of_the_only_one(kind: pa.DataType) -> None:
    table = attributes_of(pa.array([7, 8]), {"country": ["US", None]})
    assert table.rows() == {"7": {"country": "US"}, "8": {}}
    of_one, of_any = Tables({"g": table}), Tables({None: table})
    assert of_one.of_graph("g", kind) is of_any.of_graph("g", kind) is table
    assert of_one.of_graph("other", kind) is of_any.of_graph("other", kind) is None
    assert of_any.of_graph("g", kind) is None, "nobody knows any more whose table it is"
    assert "give --names g=FILE" in of_any.trouble
    assert of_one.trouble == ""
