"""Communities as CDlib's result: its measures and comparisons work on it."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import igraph
import networkx as nx
import numpy as np
import pytest
from cdlib import evaluation

from stream_icd import ICD, to_cdlib, to_cdlib_stream
from stream_icd.core.errors import BadInput, MissingExtra
from tests.streaming.workers.tracked import window


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
