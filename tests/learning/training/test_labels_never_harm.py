"""Known communities never make detection worse: on planted, LFR and real graphs, K unknown."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from sklearn.metrics import adjusted_mutual_info_score

from stream_icd.interfaces.estimator import ICD
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph
from tests.real_data import real_data

Draw = Callable[[int], PlantedGraph]


def planted(k: int, size: int, p_in: float, p_out: float) -> Draw:
    return lambda seed: generate_gn(np.random.default_rng(seed), k * size, k, p_in, p_out)


def lfr(n_nodes: int, mixing: float) -> Draw:
    return lambda seed: generate_lfr(
        np.random.default_rng(seed), LfrSettings(n_nodes=n_nodes, mixing=mixing)
    )


KINDS: dict[str, Draw] = {
    "4 communities of 32, few edges": planted(4, 32, 0.3, 0.1),
    "LFR, 400 nodes": lfr(400, 0.3),
}


def agreement(icd: ICD, graphs: list[PlantedGraph]) -> float:
    found = [
        adjusted_mutual_info_score(graph.communities, icd.predict(graph.adjacency()))
        for graph in graphs
    ]
    return float(np.mean(found))


@pytest.mark.parametrize("draw", KINDS.values(), ids=KINDS)
def test_labels_do_not_lower_what_is_found_in_graphs_not_seen(draw: Draw) -> None:
    past, unseen = ([draw(seed) for seed in seeds] for seeds in (range(2), range(10, 14)))
    graphs = [graph.adjacency() for graph in past]
    with_labels = agreement(ICD().fit(graphs, [graph.communities for graph in past]), unseen)
    assert with_labels >= agreement(ICD().fit(graphs), unseen) - 0.01
    assert with_labels >= agreement(ICD.load("default"), unseen) - 0.01


def real(name: str) -> tuple[csr_array, NDArray[np.str_]]:
    edges = pq.read_table(real_data(f"labelled/edges/{name}.parquet"))
    known = pq.read_table(real_data(f"labelled/labels/{name}.parquet")).to_pydict()
    labels = {str(node): str(label) for node, label in zip(*known.values(), strict=True)}
    pairs = [tuple(map(str, edge.values())) for edge in edges.select(["src", "dst"]).to_pylist()]
    place = {node: at for at, node in enumerate(sorted(labels))}
    rows, columns = np.array([[place[node] for node in pair] for pair in pairs]).T
    upper = coo_array((np.ones(len(rows)), (rows, columns)), shape=(len(place), len(place)))
    return csr_array(upper + upper.T), np.array([labels[node] for node in place])


@pytest.mark.parametrize("name", ["football", "polbooks", "karate"])
def test_labels_do_not_lower_what_is_found_in_a_real_graph(name: str) -> None:
    graph, labels = real(name)
    with_labels, without, default = (
        adjusted_mutual_info_score(labels, icd.predict(graph))
        for icd in (ICD().fit([graph], [labels]), ICD().fit([graph]), ICD.load("default"))
    )
    assert with_labels >= max(without, default) - 1e-9
