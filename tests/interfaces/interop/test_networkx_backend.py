"""NetworkX finds our backend by its entry point, and its own suite holds with it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from inspect import signature
from itertools import product
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from stream_icd import ICD
from stream_icd.interfaces.interop import networkx_backend
from stream_icd.interfaces.interop.networkx_info import get_info

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.skipif(
    not entry_points(group="networkx.backends", name="stream_icd"),
    reason="run `make test`: the project was installed here before it was a backend of NetworkX",
)


@pytest.fixture(autouse=True)
def _without_a_warning_of_cached_graphs() -> Iterator[None]:
    with nx.config(warnings_to_ignore={"cache"}):
        yield


SAYS_METRIC = "metric" in signature(nx.community.leiden_communities).parameters
"""Since NetworkX 3.7; the default is CPM then, and modularity before."""

both = pytest.mark.parametrize("function", ["louvain_communities", "leiden_communities"])


@pytest.fixture(scope="module")
def graph() -> nx.Graph:
    """Ten groups, clear to a method that sees the weights; the names are no numbers."""
    planted = nx.planted_partition_graph(10, 40, 0.3, 0.02, seed=1)
    return nx.relabel_nodes(planted, lambda node: f"n{node}")


def communities(graph: nx.Graph, function: str = "louvain_communities", **named) -> list[set]:
    if function == "leiden_communities" and SAYS_METRIC:
        named = {"metric": "modularity", **named}
    return getattr(nx.community, function)(graph, backend="stream_icd", **named)


@both
def test_it_finds_at_least_the_modularity_of_networkx(graph: nx.Graph, function: str) -> None:
    ours = communities(graph, function, seed=3)
    theirs = nx.community.louvain_communities(graph, seed=3, backend="networkx")
    assert nx.community.is_partition(graph, ours)
    assert nx.community.modularity(graph, ours) >= nx.community.modularity(graph, theirs) - 1e-9
    sparse = nx.gnm_random_graph(50, 75, seed=418)  # in which a node leaves two parts behind
    for one, found in ((graph, ours), (sparse, communities(sparse, function, seed=418))):
        assert all(nx.is_connected(one.subgraph(members)) for members in found)
    numbers = [len(communities(graph, function, resolution=at, seed=0)) for at in (0.1, 1, 20)]
    assert numbers == sorted(numbers), "a higher resolution finds smaller communities"
    assert numbers[0] < numbers[-1]


def test_the_same_seed_gives_the_same_answer() -> None:
    random = nx.gnm_random_graph(200, 600, seed=0)
    answers = [communities(random, seed=seed) for seed in (1, 1, np.random.RandomState(1))]
    assert answers[0] == answers[1]
    assert any(communities(random, seed=seed) != answers[0] for seed in range(2, 8))


def test_weights_count_and_may_be_left_out() -> None:
    squares = nx.Graph([(0, 1), (1, 2), (2, 3), (3, 0), (4, 5), (5, 6), (6, 7), (7, 4), (0, 4)])
    for u, v in squares.edges:
        squares.edges[u, v]["heavy"] = 100.0 if u // 2 == v // 2 else 0.1
    pairs = [{0, 1}, {2, 3}, {4, 5}, {6, 7}]
    assert sorted(communities(squares, weight="heavy"), key=min) == pairs
    for unweighted in (None, "weight"):
        assert len(communities(squares, weight=unweighted)) == 2
    assert len(communities(nx.MultiGraph([(0, 1)] * 9 + [(1, 2)] + [(2, 3)] * 9))) == 2


@pytest.mark.parametrize("unit", [1e-140, 1e-12, 1e140])
def test_the_unit_of_the_weights_changes_nothing(unit: float) -> None:
    karate = nx.karate_club_graph()
    karate.add_edge(0, 0, weight=2)
    found = communities(karate, seed=1)
    for _, _, edge in karate.edges(data=True):
        edge["weight"] *= unit
    assert communities(karate.copy(), seed=1) == found


def test_a_self_loop_counts_as_networkx_counts_it() -> None:
    """The best of all partitions of up to three communities at each weight of the loop."""
    graph = nx.Graph([(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (3, 5)])
    found = {}
    for loop in (0.0, 30.0):
        graph.add_edge(0, 0, weight=loop)
        found[loop] = communities(graph, seed=0)
        best = max(
            nx.community.modularity(
                graph, [{node for node in graph if of[node] == one} for one in set(of)]
            )
            for of in product(range(3), repeat=6)
        )
        assert nx.community.modularity(graph, found[loop]) == pytest.approx(best)
    assert sorted(found[0.0], key=min) != sorted(found[30.0], key=min)


def converted(graph: nx.Graph) -> networkx_backend._UndirectedGraph:
    return networkx_backend.convert_from_nx(graph, edge_attrs={"weight": 1})


def constant_potts_model(graph: nx.Graph, found: list[set], resolution: float) -> float:
    inside = (graph.subgraph(members).size(weight="weight") for members in found)
    return sum(inside) - resolution / 2 * sum(len(members) ** 2 for members in found)


def test_a_call_without_a_metric_maximises_what_networkx_says(graph: nx.Graph) -> None:
    assert ("cpm" if SAYS_METRIC else "modularity") == networkx_backend._METRIC
    found = nx.community.leiden_communities(graph, backend="stream_icd", seed=1)
    ours = converted(graph)
    assert found == networkx_backend.leiden_communities(
        ours, seed=1, metric=networkx_backend._METRIC
    )
    with nx.config(backend_priority=["stream_icd"]):
        assert nx.community.leiden_communities(graph, seed=1) == found
    by_metric = [
        networkx_backend.leiden_communities(ours, seed=1, metric=metric, theta=0.01)
        for metric in ("cpm", "modularity")
    ]
    assert len(by_metric[0]) > 2 * len(by_metric[1])


@pytest.mark.parametrize("unit", [1e-12, 1, 1e12])
def test_the_constant_potts_model_is_maximised(graph: nx.Graph, unit: float) -> None:
    """The planted groups are the best communities at a density between theirs and the rest's."""
    weighted = nx.Graph()
    weighted.add_weighted_edges_from((u, v, unit) for u, v in graph.edges)
    for node in list(graph)[:3]:
        weighted.add_edge(node, node, weight=1000 * unit)  # counts, but moves nothing
    planted = [{f"n{node}" for node in range(start, start + 40)} for start in range(0, 400, 40)]
    found = networkx_backend.leiden_communities(
        converted(weighted), resolution=0.1 * unit, seed=0, metric="cpm"
    )
    best, ours = (constant_potts_model(weighted, one, 0.1 * unit) for one in (planted, found))
    assert ours == pytest.approx(best, rel=1e-3)
    finer = networkx_backend.leiden_communities(
        converted(weighted), resolution=2 * unit, seed=0, metric="cpm"
    )
    assert sorted(map(len, finer)) == [1] * 400  # no pair gains more than it costs


@pytest.mark.parametrize(("metric", "resolution"), [("cpm", 0.05), ("modularity", 1)])
def test_partitions_rise_to_the_communities(metric: str, resolution: float) -> None:
    random = nx.gnm_random_graph(200, 600, seed=0)
    at = {"resolution": resolution, "seed": 0, "metric": metric}
    partitions = list(networkx_backend.leiden_partitions(converted(random), **at))
    assert partitions[-1] == networkx_backend.leiden_communities(converted(random), **at)
    assert all(nx.community.is_partition(random, one) for one in partitions)
    of_metric = {"cpm": constant_potts_model, "modularity": nx.community.modularity}[metric]
    quality = [of_metric(random, one, resolution=resolution) for one in partitions]
    assert len(quality) > 1
    assert quality == sorted(quality)


@pytest.mark.parametrize("name", ["leiden_communities", "leiden_partitions"])
def test_what_leiden_has_and_we_lack_is_refused_with_its_reason(graph: nx.Graph, name: str) -> None:
    directed = networkx_backend.can_run(name, (graph.to_directed(),), {})
    assert "to_undirected" in str(directed)
    assert networkx_backend.can_run(name, (graph,), {"metric": "cpm", "theta": 0.01}) is True
    refused: list[tuple[dict[str, Any], str]] = [
        ({"metric": "barber_modularity"}, "the metric must be modularity or cpm"),
        ({"metric": None}, "the metric must be"),
        ({"theta": 0.1}, "leave out theta"),
        ({"resolution": 0.5, "model": "default"}, "leave out resolution or model"),
    ]
    if name == "leiden_communities":
        refused.append(({"max_level": 1}, "leave out threshold and max_level"))
    for arguments, reason in refused:
        assert reason in str(networkx_backend.can_run(name, (graph,), arguments))
        with pytest.raises(NotImplementedError, match=reason):
            getattr(networkx_backend, name)(converted(graph), **arguments)


def test_a_model_gives_what_icd_finds(graph: nx.Graph, tmp_path: Path) -> None:
    icd = ICD.load("default")
    icd.save(tmp_path / "copy")
    labels = icd.predict(graph)
    expected = {frozenset(icd.nodes_[labels == label]) for label in set(labels.tolist())}
    for model in ("default", tmp_path / "copy"):
        found = communities(graph, model=model, seed=0)
        assert {frozenset(community) for community in found} == expected
    once = nx.community.leiden_partitions(graph, backend="stream_icd", model="default", seed=0)
    assert list(once) == [communities(graph, model="default", seed=0)]


@pytest.mark.parametrize(
    ("graph", "arguments", "reason"),
    [
        (nx.DiGraph([(0, 1)]), {}, "to_undirected"),
        (nx.path_graph(3), {"max_level": 2}, "leave out threshold and max_level"),
        (nx.path_graph(3), {"threshold": 0.1}, "leave out threshold and max_level"),
        (nx.path_graph(3), {"model": "default", "resolution": 2}, "leave out resolution"),
        (nx.path_graph(3), {"resolution": float("nan")}, "must be a finite number"),
        (nx.path_graph(3), {"resolution": "1"}, "must be a finite number"),
        (nx.path_graph(3), {"model": ICD()}, "the name of a shipped model or the folder of one"),
        (nx.Graph([(0, 1, {"weight": -1})]), {}, "not negative"),
        (nx.Graph([(0, 1, {"weight": 1e-200})]), {}, "multiply or divide all"),
        (nx.Graph([(0, 1, {"weight": 1e308}), (1, 2, {"weight": 1e308})]), {}, "divide all"),
        (nx.Graph([(0, 1, {"weight": "x"})]), {}, "must be numbers"),
        (nx.Graph([(0, 1, {"weight": 10**400})]), {}, "must be numbers"),
        (nx.Graph([(0, 1, {"weight": [1, 2]})]), {}, "must be numbers, not lists"),
    ],
)
def test_a_refusal_says_why(graph: nx.Graph, arguments: dict[str, object], reason: str) -> None:
    with pytest.raises(NotImplementedError) as refused:
        communities(graph, **arguments)
    logged = networkx_backend.can_run("louvain_communities", (graph,), arguments)
    assert reason in f"{refused.value} {refused.value.__cause__} {logged}"


def test_networkx_falls_back_to_its_own_and_a_graph_is_converted_once(graph: nx.Graph) -> None:
    with nx.config(backend_priority=["stream_icd"]):
        found = nx.community.louvain_communities(graph.to_directed(), seed=0)
    assert nx.community.is_partition(graph, found)
    ours = converted(graph)
    assert nx.community.louvain_communities(ours, seed=1) == communities(graph, seed=1)
    assert networkx_backend.convert_to_nx(ours) is graph
    with pytest.raises(NotImplementedError, match="converted without 'heavy'"):
        ours.weights_of("heavy")
    fresh = nx.Graph(graph.edges)
    with pytest.raises(NotImplementedError, match="not implemented by 'stream_icd' .* arguments"):
        communities(fresh, weight=lambda *_: 1)
    assert nx.community.is_partition(fresh, communities(fresh)), "it is usable afterwards"


def test_a_graph_without_edges_is_single_nodes() -> None:
    assert communities(nx.empty_graph(3)) == [{0}, {1}, {2}]
    assert communities(nx.Graph()) == []
    assert list(nx.community.leiden_partitions(nx.Graph(), backend="stream_icd")) == [[]]


def test_the_documentation_names_our_functions() -> None:
    assert set(get_info()["functions"]) == set(networkx_backend._PARAMETERS)
    assert "model : str or path, optional" in nx.community.louvain_communities.__doc__


def test_networkx_own_suite_of_communities_holds(tmp_path: Path) -> None:
    suite = ["--pyargs", "networkx.algorithms.community", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *suite],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "NETWORKX_TEST_BACKEND": "stream_icd",
            "NETWORKX_FALLBACK_TO_NX": "True",
        },
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    counted = {what: int(n) for n, what in re.findall(r"(\d+) (\w+)", done.stdout.splitlines()[-1])}
    assert counted["passed"] > 100
    assert counted["xfailed"] <= len(networkx_backend._OF_ITS_OWN_STEPS)
