"""Single graphs: the plain grid, figures that are kept, and the section of the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from benchmarks import real_graphs
from benchmarks.search_rules import RULES, cells_without, planted
from benchmarks.shared.graphs.known_graphs import ClassifiedGraph, KnownGraphs
from benchmarks.shared.kept import Kept
from benchmarks.shared.methods.graph_methods import candidates, mixing_of, shortest_of_the_grid
from stream_icd.methods.quality.partition import description_length
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr

PLANTED = generate_lfr(np.random.default_rng(1), LfrSettings(n_nodes=300, mixing=0.2))
GRAPH = ClassifiedGraph(PLANTED.adjacency(), (PLANTED.communities.astype(np.int64),))


def test_the_grid_has_plain_modularity_and_beliefs() -> None:
    found = list(candidates(GRAPH.adjacency, 0))
    assert len(found) == 9 + 2 * 7
    assert all(one.shape == (300,) for one in found)


def test_the_grid_takes_the_shortest_description_but_never_one_community() -> None:
    taken = shortest_of_the_grid(GRAPH, 0)
    lengths = [
        description_length(GRAPH.adjacency, candidate)
        for candidate in candidates(GRAPH.adjacency, 0)
        if candidate.max()
    ]
    assert description_length(GRAPH.adjacency, taken) == min(lengths)
    assert taken.max() > 0


def test_mixing_is_the_share_of_the_weight_between_communities() -> None:
    weights = csr_array([[0.0, 3.0, 0.0], [3.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    assert mixing_of(weights, np.array([0, 0, 1], np.int32)) == 0.25
    assert mixing_of(weights, np.zeros(3, np.int32)) == 0


def test_each_graph_is_measured_once_and_means_need_all_graphs(tmp_path: Path) -> None:
    loaded = []

    def load(name: str) -> list[ClassifiedGraph]:
        loaded.append(name)
        return [GRAPH, GRAPH]

    kinds = [
        KnownGraphs("a", "choose", lambda: load("a")),
        KnownGraphs("b", "choose", lambda: load("b")),
        KnownGraphs("c", "report", lambda: load("c")),
    ]
    right = {"right": lambda *_: PLANTED.communities, "one": lambda *_: np.zeros(300, np.int32)}
    figures = Kept(tmp_path / "figures.jsonl")
    real_graphs.measure(kinds[:1], right, figures)
    real_graphs.measure(kinds[:2], {"right": right["right"]}, figures)
    assert loaded == ["a", "b"]
    assert figures.known["a | right"]["ami"] == pytest.approx([100] * 8)
    assert figures.known["a | one"]["ami"] == pytest.approx([0] * 8, abs=1e-6)
    text = real_graphs.section(figures.known, {kind.name: kind for kind in kinds}, ["right", "one"])
    rows = text.splitlines()
    assert rows[2] == "| a | chosen on | 100.0 ± 0.0 | 0.0 ± 0.0 |"
    assert rows[3] == "| b | chosen on | 100.0 ± 0.0 |  |"
    assert rows[4].startswith("| **mean** | chosen on | **100.0 ± 0.0** (0.000 s) |  |")
    assert rows[5] == "| c | reported |  |  |"


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_of_the_search_can_be_left_out(rule: str) -> None:
    cells = list(cells_without(rule, {"planted": [[GRAPH]]}, 2))
    assert float(cells[0].split()[0]) > 90


def test_a_rule_that_is_left_out_is_missed() -> None:
    hard = {"planted": [list(planted(1000, 0.6))]}
    with_all, without = (
        float(next(cells_without(rule, hard, 2)).split()[0]) for rule in list(RULES)[:2]
    )
    assert with_all > without + 5
