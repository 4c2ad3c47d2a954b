"""Names in what is followed, whatever other graphs are there."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from stream_icd.commands.cli import subscribe_shapes as shapes
from stream_icd.core.communities import STAGES, Communities
from stream_icd.core.errors import BadSettings
from stream_icd.core.snapshot import Window
from stream_icd.methods.names.attributes import attributes_of
from stream_icd.methods.names.names import Naming
from tests.streaming.workers.tracked import unbroken, window

START = datetime(2026, 1, 1, tzinfo=UTC)
CLASSES = attributes_of(pa.array(range(18)), {"class": ["PC"] * 10 + ["MP"] * 8})


def naming(*graphs: str) -> Naming:
    return Naming(dict.fromkeys(graphs or (None,), CLASSES))


def result(graph: str, *, text: bool = False) -> Communities:
    nodes = pa.array(range(10, 28) if text else range(18))
    return Communities(
        graph, f"{graph}/0", Window(START, START), nodes.cast(pa.string()) if text else nodes,
        (np.arange(18) >= 10).astype(np.int32), 9, "m@1", 0.5, 1.0,
        dict.fromkeys(STAGES, 1.0), START,
    )  # fmt: skip


def test_a_graph_with_other_ids_takes_no_names_from_the_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    graphs = ("x\x1b[2J", "y", "g")
    named = shapes.Named(shapes.OfCommunities(), naming(*graphs), of_one_graph=False)
    for graph, text in (("x\x1b[2J", True), ("y", True), ("g", False)):
        names = named.document(result(graph, text=text))["names"]
        assert names == ({} if text else {"0": "PC, 10 of 10", "1": "MP, 8 of 8"})
    (warned,) = capsys.readouterr().err.splitlines()
    assert r"no names of graph x\x1b[2J: the table of attributes names nodes by integers" in warned


def test_one_graph_with_other_ids_is_an_error() -> None:
    named = shapes.Named(shapes.OfCommunities(), naming(), of_one_graph=True)
    with pytest.raises(BadSettings, match="names nodes by integers, the graph by text"):
        named.document(result("g", text=True))


def test_one_table_and_two_graphs_is_an_error() -> None:
    named = shapes.Named(shapes.OfCommunities(), naming(), of_one_graph=False)
    assert named.names_of(result("g"))
    with pytest.raises(BadSettings, match=r"belongs to g, school: give --names g=FILE"):
        named.names_of(result("school"))


def test_a_table_names_the_communities_of_its_graph_only() -> None:
    named = shapes.Named(shapes.OfCommunities(), naming("g"), of_one_graph=False)
    assert named.names_of(result("school")) == {}
    assert named.names_of(result("g")) == {0: "PC, 10 of 10", 1: "MP, 8 of 8"}


def test_names_of_graphs_without_end_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "_MOST_GRAPHS", 2)
    named = shapes.Named(shapes.OfCommunities(), naming("g", "h0", "h1"), of_one_graph=False)
    first = result("g")
    for communities in (first, *(result(f"h{number}") for number in range(2))):
        named.names_of(communities)
    assert list(named._last) == ["h0", "h1"]
    assert named.names_of(replace(first, snapshot_id="g/1")) == {0: "PC, 10 of 10", 1: "MP, 8 of 8"}


def test_each_result_has_the_names_of_its_own_communities() -> None:
    named = shapes.Named(shapes.OfCommunities(), naming(), of_one_graph=True)
    first = result("g")
    other = replace(first, labels=1 - first.labels)
    assert named.names_of(first) == {0: "PC, 10 of 10", 1: "MP, 8 of 8"}
    for again in ({"revision": "b"}, {"model": "n@1"}):
        assert named.names_of(replace(other, **again)) == {1: "PC, 10 of 10", 0: "MP, 8 of 8"}
    mixed = replace(first, snapshot_id="g/1", labels=np.arange(18, dtype=np.int32) % 2)
    assert named.names_of(mixed) == {}, "those of the window before are of other communities"


def test_what_has_just_ended_keeps_its_name_and_what_goes_on_has_the_new_one() -> None:
    named = shapes.Named(shapes.OfCommunities(), naming(), of_one_graph=True)
    ids, replaced = np.array([4, 7]), np.empty((0, 2), np.int64)
    first = replace(result("g"), community_ids=ids, replaced=replaced)
    assert named.names_of(first) == {4: "PC, 10 of 10", 7: "MP, 8 of 8"}
    one = replace(first, snapshot_id="g/1", labels=0 * first.labels, community_ids=ids[:1])
    for revision in ("a", "b"):
        assert named.names_of(replace(one, revision=revision)) == {7: "MP, 8 of 8"}


def test_lines_leave_out_what_the_edges_speak_against() -> None:
    first, merged = unbroken([window("g", 0, [0] * 10 + [1] * 8), window("g", 1, [0] * 18)])
    (event,) = merged.events
    for bits, said in ((-22.4, []), (16.4, ["16 bits"]), (None, [""])):
        told = replace(merged, events=(replace(event, bits=bits),))
        lines = list(shapes.OfEvents(least_bits=0.0).lines(told))
        assert [line.partition("community 0")[2].strip("; ") for line in lines] == said
        assert len(list(shapes.OfEvents().lines(told))) == 1
    assert len(list(shapes.OfEvents(["born"]).lines(first))) == 0


def test_members_have_the_name_of_their_community_not_of_that_of_an_event() -> None:
    apart, together = [0] * 10 + [1] * 8, [0] * 18
    hours = [window("g", hour, labels) for hour, labels in enumerate((apart, together, apart))]
    named = shapes.Named(shapes.OfMembers(1), naming(), of_one_graph=True)
    lines = [line for hour in unbroken(hours) for line in named.lines(hour)]
    assert len(lines) == 3
    assert all(line.endswith("  MP, 8 of 8") for line in lines)
