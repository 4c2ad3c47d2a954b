"""Graphs over time of other libraries, cut into windows; communities as results of CDlib."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import dynetx
import igraph
import networkx as nx
import networkx_temporal
import numpy as np
import pytest
from cdlib import evaluation

from stream_icd import ICD, temporal_snapshots, to_cdlib, to_cdlib_stream
from stream_icd.core.errors import BadInput, BadSettings, BadSnapshot, MissingExtra
from stream_icd.core.snapshot import EPOCH, Snapshot
from tests.streaming.workers.tracked import window

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


@pytest.fixture(scope="module")
def graph() -> nx.Graph:
    return nx.relabel_nodes(nx.planted_partition_graph(6, 20, 0.5, 0.02, seed=1), "n{}".format)


def test_measures_of_cdlib_agree_with_those_of_networkx_on_every_kind_of_graph(
    graph: nx.Graph,
) -> None:
    icd = ICD.load("default")
    found = to_cdlib(graph, icd.predict(graph), {"method": icd.method, "seed": icd.seed})
    expected = nx.community.modularity(graph, [set(community) for community in found.communities])
    assert evaluation.newman_girvan_modularity(graph, found).score == pytest.approx(expected)
    assert found.node_coverage == 1
    assert found.method_name == "stream_icd"
    assert json.loads(found.to_json())["params"] == {"method": "auto", "seed": 0}
    assert found.normalized_mutual_information(found).score == pytest.approx(1)
    theirs = igraph.Graph.from_networkx(graph)
    theirs.vs["name"] = theirs.vs["_nx_name"]
    for same in (theirs, list(graph.edges)):
        again = to_cdlib(same, icd.predict(same))
        assert set(map(frozenset, again.communities)) == set(map(frozenset, found.communities))
    assert nx.utils.graphs_equal(nx.Graph(again.graph.edges), nx.Graph(graph.edges))
    unnamed = to_cdlib(igraph.Graph(4, [(0, 1), (1, 2), (2, 3)]), [0, 0, 1, 1])
    assert unnamed.newman_girvan_modularity().score == pytest.approx(1 / 6)


def test_what_cannot_be_a_result_of_cdlib_is_refused(
    graph: nx.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_gaps = ([0, np.nan], ["red", None], np.ma.masked_equal([0, 1], 1))
    for one, communities, says in (
        (graph, np.zeros(7, int), "120 nodes need one community each"),
        *(([("a", "b")], gaps, "one label for each node") for gaps in with_gaps),
        (nx.Graph(), [], "graph without nodes"),
    ):
        with pytest.raises(BadInput, match=says):
            to_cdlib(one, communities)
    with pytest.raises(BadInput, match="no windows"):
        to_cdlib_stream([])
    for name in [name for name in sys.modules if name.split(".")[0] == "cdlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(MissingExtra, match="pip install cdlib"):
        to_cdlib(graph, np.zeros(120, int))


def test_a_stream_is_a_temporal_clustering_whose_communities_are_matched_by_their_ids() -> None:
    icd, memory, windows = ICD.load("default"), None, []
    cliques = [nx.relabel_nodes(nx.complete_graph(8), lambda n, at=at: f"{at}.{n}") for at in "abc"]
    bridge = [("a.0", "b.0"), ("b.1", "c.1")]
    for there in ("abc", "ac", "abc"):
        graph = nx.Graph(bridge if there == "abc" else [("a.0", "c.1")])
        for name, clique in zip("abc", cliques, strict=True):
            graph.update(clique if name in there else nx.Graph())
        found = icd.predict_next(graph, memory, horizon="off")
        windows.append((graph, found))
        memory = found.memory
    temporal = to_cdlib_stream(windows)
    assert temporal.get_observation_ids() == [0, 1, 2]
    assert temporal.has_explicit_match()
    for one, other, score in temporal.get_explicit_community_match():
        before, after = (set(temporal.get_community(name)) for name in (one, other))
        assert score == len(before & after) / len(before | after) == 1
    pairs = {(one[0], other[0]) for one, other, _ in temporal.get_explicit_community_match()}
    assert {("0", "1"), ("1", "2")} <= pairs
    stability = temporal.clustering_stability_trend(lambda one, other: evaluation.nf1(one, other))
    assert len(stability) == 2


def test_results_of_subscribers_are_a_stream_too() -> None:
    first = window("g", 0, [0, 0, 0, 1, 1, 1])
    path = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    temporal = to_cdlib_stream([(path, first), (path, window("g", 1, [0, 0, 0, 1, 1, 1]))])
    assert not temporal.has_explicit_match()
    ids, none = np.array([7, 9]), np.empty((0, 2), np.int64)
    with_ids = [replace(first, community_ids=ids, replaced=none) for _ in range(2)]
    temporal = to_cdlib_stream([(path, one) for one in with_ids])
    assert len(temporal.get_explicit_community_match()) == 2
