"""Communities as CDlib's result: its measures and comparisons work on it."""

from __future__ import annotations

import json
import sys

import igraph
import networkx as nx
import numpy as np
import pytest
from cdlib import evaluation

from stream_icd import ICD, to_cdlib
from stream_icd.core.errors import BadInput, MissingExtra


@pytest.fixture(scope="module")
def graph() -> nx.Graph:
    return nx.relabel_nodes(nx.planted_partition_graph(6, 20, 0.5, 0.02, seed=1), "n{}".format)


def test_measures_of_cdlib_agree_with_those_of_networkx(graph: nx.Graph) -> None:
    icd = ICD.load("default")
    found = to_cdlib(graph, icd.predict(graph), {"method": icd.method, "seed": icd.seed})
    expected = nx.community.modularity(graph, [set(community) for community in found.communities])
    assert evaluation.newman_girvan_modularity(graph, found).score == pytest.approx(expected)
    assert found.node_coverage == 1
    assert found.method_name == "stream_icd"
    assert json.loads(found.to_json())["params"] == {"method": "auto", "seed": 0}
    assert found.normalized_mutual_information(found).score == pytest.approx(1)


def test_every_kind_of_graph_gives_the_same_communities(graph: nx.Graph) -> None:
    icd = ICD.load("default")
    expected = {
        frozenset(community) for community in to_cdlib(graph, icd.predict(graph)).communities
    }
    theirs = igraph.Graph.from_networkx(graph)
    theirs.vs["name"] = theirs.vs["_nx_name"]
    for same in (theirs, list(graph.edges)):
        found = to_cdlib(same, icd.predict(same))
        assert {frozenset(community) for community in found.communities} == expected
        if same is not theirs:
            assert nx.utils.graphs_equal(nx.Graph(found.graph.edges), nx.Graph(graph.edges))


def test_cdlib_measures_an_igraph_graph_without_names() -> None:
    found = to_cdlib(igraph.Graph(4, [(0, 1), (1, 2), (2, 3)]), [0, 0, 1, 1])
    assert found.newman_girvan_modularity().score == pytest.approx(1 / 6)


def test_as_many_communities_as_nodes(graph: nx.Graph) -> None:
    with pytest.raises(BadInput, match="120 nodes need one community each"):
        to_cdlib(graph, np.zeros(7, int))
    for with_a_gap in ([0, np.nan], ["red", None], np.ma.masked_equal([0, 1], 1)):
        with pytest.raises(BadInput, match="one label for each node"):
            to_cdlib([("a", "b")], with_a_gap)
    with pytest.raises(BadInput, match="graph without nodes"):
        to_cdlib(nx.Graph(), [])


def test_without_cdlib_it_says_what_to_install(
    graph: nx.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "cdlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(MissingExtra, match="pip install cdlib"):
        to_cdlib(graph, np.zeros(120, int))
