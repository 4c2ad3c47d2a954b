"""Attributes that change: the newest of each node counts, and memory has a limit."""

from __future__ import annotations

import pyarrow as pa
import pytest

from stream_icd.names.attributes import attributes_of
from stream_icd.names.live import MOST_ATTRIBUTES, LiveAttributes


def known(found: LiveAttributes, graph: str, kind: pa.DataType) -> dict[str, dict[str, str]]:
    table = found.of_graph(graph, kind)
    return {} if table is None else table.rows()


def test_the_newest_attributes_of_a_node_count_and_belong_to_its_graph() -> None:
    found = LiveAttributes(clock=iter(range(100)).__next__)
    found.take("g", "7", {"country": "US", "tier": "1"})
    found.take("g", "7", {"country": "CH"})
    found.take("h", "7", {"country": "FR"})
    assert known(found, "g", pa.int64()) == {"7": {"country": "CH"}}
    assert known(found, "h", pa.string()) == {"7": {"country": "FR"}}
    assert found.names == ("country",)
    found.take("g", "7", {})
    assert known(found, "g", pa.int64()) == {}
    assert found.rows("g") == {}


def test_only_integers_are_ids_of_a_graph_of_integers() -> None:
    found = LiveAttributes(clock=lambda: 0.0)
    nodes = ["7", "-7", "0", "-0", "07", "x", "7 ", "1e3", str(1 << 63), str(1 << 64), "9" * 20]
    for node in nodes:
        found.take("g", node, {"a": "x"})
    high = known(found, "g", pa.uint64())
    assert set(high) == {"0", "7", str(1 << 63)}
    found.take("g", str(1 << 63), {})
    assert set(known(found, "g", pa.int64())) == {"0", "7", "-7"}
    assert set(known(found, "g", pa.string())) == {*nodes} - {str(1 << 63)}


def test_a_table_is_not_made_anew_all_the_time() -> None:
    times = iter([0.0, 1.0, 2.0, 30.0, 31.0])
    found = LiveAttributes(clock=times.__next__)
    found.take("g", "a", {"x": "1"})
    first = found.of_graph("g", pa.string())  # takes a second
    found.take("g", "b", {"x": "2"})
    assert found.of_graph("g", pa.string()) is first
    assert len(known(found, "g", pa.string())) == 2


def test_memory_has_a_limit_and_what_is_taken_back_makes_room() -> None:
    found = LiveAttributes(most_bytes=20_000, clock=lambda: 0.0)
    for node in range(1000):
        found.take("g", f"n{node}", {"a": "x" * 100})
    n_kept = len(found.rows("g"))
    assert 10 < n_kept < 50
    assert "those of other nodes are ignored" in found.trouble
    for node in range(n_kept):
        found.take("g", f"n{node}", {})
    found.take("h", "new", {"a": "y"})
    assert found.rows("h") == {"new": {"a": "y"}}
    for graph in range(1000):
        found.take(f"graph {graph}", "n", {"a": "x"})
    assert sum(bool(found.rows(f"graph {graph}")) for graph in range(1000)) < 10


def test_a_graph_has_a_limited_number_of_attributes() -> None:
    found = LiveAttributes(clock=lambda: 0.0)
    for node in range(3 * MOST_ATTRIBUTES):
        found.take("g", str(node), {f"attribute {node}": "x"})
    assert len(found.names) == MOST_ATTRIBUTES
    assert "are ignored" in found.trouble


def test_a_graph_with_room_for_one_more_attribute_takes_one_of_many() -> None:
    found = LiveAttributes()
    for node, first in enumerate((1, MOST_ATTRIBUTES)):
        found.take("g", str(node), {f"a{first + at}": "x" for at in range(MOST_ATTRIBUTES - 1)})
    assert len(found.names) == MOST_ATTRIBUTES
    assert "are ignored" in found.trouble


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
def test_a_fixed_table_is_one_of_any_graph(kind: pa.DataType) -> None:
    table = attributes_of(pa.array([7, 8]), {"country": ["US", None]})
    assert table.of_graph("g", kind) is table
    assert table.rows() == {"7": {"country": "US"}, "8": {}}
