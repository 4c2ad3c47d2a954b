"""Graphs over time of other libraries, cut into windows."""

from __future__ import annotations

import sys
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import dynetx
import networkx as nx
import networkx_temporal
import numpy as np
import pytest

from stream_icd import ICD, temporal_snapshots
from stream_icd.core.errors import BadInput, BadSettings, BadSnapshot
from stream_icd.core.snapshot import EPOCH, Snapshot

CONTACTS = [("a", "b", 0), ("b", "c", 1), ("b", "a", 1), ("c", "d", 5), ("d", "d", 9)]
"""Of windows of two units: the first has one pair twice, the fifth a self loop only."""


def of_dynetx(contacts: list[tuple[Any, Any, int]]) -> Any:
    graph = dynetx.DynDiGraph()
    for src, dst, time in contacts:
        graph.add_interaction(src, dst, t=time)
    return graph


def of_networkx_temporal(contacts: list[tuple[Any, Any, int]]) -> Any:
    slices = [nx.Graph() for _ in range(10)]
    for src, dst, time in contacts:
        slices[time].add_edge(src, dst)
    return networkx_temporal.from_snapshots(slices)


def edges_of(snapshot: Snapshot) -> list[tuple[Any, Any, float]]:
    names = snapshot.nodes.to_pylist()
    pairs = snapshot.edges.T.tolist()
    return [(names[u], names[v], w) for (u, v), w in zip(pairs, snapshot.weights, strict=True)]


@pytest.mark.parametrize("form", [of_dynetx, of_networkx_temporal])
def test_windows_have_the_edges_of_their_time(form: Any) -> None:
    cut = list(temporal_snapshots(form(CONTACTS), "talk", every=2, unit=timedelta(minutes=1)))
    assert [one.id for one in cut] == [f"talk/1970-01-01T00:0{at}:00Z/PT2M" for at in (0, 4)]
    assert [edges_of(one) for one in cut] == [[("a", "b", 2.0), ("b", "c", 1.0)], [("c", "d", 1.0)]]
    minutes = [(w.start - EPOCH, w.end - EPOCH) for w in (one.window for one in cut)]
    assert minutes == [(timedelta(minutes=m), timedelta(minutes=m + 2)) for m in (0, 4)]


class TemporalData:
    """Stands for PyG's, which takes ten seconds to import: its events, as arrays."""

    def __init__(self, times: list[float]) -> None:
        self.src, self.dst, self.t = np.array([3, 1, 1]), np.array([1, 3, 2]), np.array(times)


@pytest.fixture
def pyg(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(TemporalData=TemporalData)
    monkeypatch.setitem(sys.modules, "torch_geometric.data", module)


@pytest.mark.usefixtures("pyg")
def test_events_of_pyg_are_sorted_into_windows() -> None:
    cut = list(temporal_snapshots(TemporalData([90_000, 5, 6]), "mails", every=86_400))
    assert [one.id for one in cut] == [f"mails/1970-01-0{day}T00:00:00Z/P1D" for day in (1, 2)]
    assert [edges_of(one) for one in cut] == [[(1, 2, 1.0), (1, 3, 1.0)], [(1, 3, 1.0)]]


def test_the_windows_can_be_followed() -> None:
    icd, memory = ICD.load("default"), None
    for one in temporal_snapshots(of_dynetx(CONTACTS), "talk", every=2):
        memory = icd.predict_next(one, memory).memory
    assert memory is not None
    assert set(memory.nodes.to_pylist()) == {"a", "b", "c", "d"}
    assert list(temporal_snapshots(dynetx.DynGraph(), "talk")) == [], "no edges, no windows"


@pytest.mark.parametrize(
    ("graph", "how", "error", "says"),
    [
        ([("a", "b")], {}, BadInput, "a list is no known graph over time"),
        (TemporalData([0.5, 1, 2]), {}, BadInput, "time 0.5 is no whole number"),
        (of_dynetx(CONTACTS), {"every": 0}, BadSettings, "every is 0"),
        (of_dynetx([("a", "b", 0), (1, "a", 0)]), {}, BadSnapshot, "integers or strings, not both"),
    ],
)
@pytest.mark.usefixtures("pyg")
def test_what_is_wrong_is_named(graph: Any, how: Any, error: type, says: str) -> None:
    with pytest.raises(error, match=says):
        list(temporal_snapshots(graph, "talk", **how))
