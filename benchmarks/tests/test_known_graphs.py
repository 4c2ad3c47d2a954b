"""Single graphs with known classes: all classifications count, on the labelled nodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import adjusted_mutual_info_score

from benchmarks.detection import BEHIND_HEAD, behind
from benchmarks.shared.graphs.known_graphs import (
    CHOOSE,
    REPORT,
    agreement,
    known_graphs,
    labelled_files,
    stream_graphs,
)
from benchmarks.shared.peers.spectral_peers import Labels, regularised_spectral, spectral
from benchmarks.shared.streams.known_streams import NO_CLASS

Find = Callable[[csr_array, int, int], Labels]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """fb100_Reed98 has two classifications, karate has one, and a stream is not a single graph."""
    for folder in ("edges", "labels"):
        (tmp_path / "labelled" / folder).mkdir(parents=True)

    def write(name: str, **columns: list[object]) -> None:
        pd.DataFrame(columns).to_parquet(tmp_path / "labelled" / f"{name}.parquet")

    for name in ("fb100_Reed98", "karate", "stream_brain"):
        write(f"edges/{name}", src=[0, 1, 4], dst=[1, 4, 9])
    write("labels/fb100_Reed98_dorm", node=[0, 1, 4], label=[7, 7, 8])
    write("labels/fb100_Reed98_year", node=[0, 1, 4, 9], label=[1, 2, 2, 1])
    write("labels/karate", node=[0, 1, 4, 9], label=["a", "a", "b", "b"])
    write("labels/stream_brain", node=[0, 1, 4, 9], label=[0, 0, 1, 1])
    return tmp_path


def test_a_graph_has_all_its_classifications(data: Path) -> None:
    graph = known_graphs(data)["fb100_Reed98"].load()[0]
    assert graph.adjacency.shape == (4, 4)
    assert [classification.tolist() for classification in graph.classifications] == [
        [0, 0, 1, NO_CLASS],
        [0, 1, 1, 0],
    ]


def test_the_agreement_is_the_mean_over_the_classifications(data: Path) -> None:
    graph = known_graphs(data)["fb100_Reed98"].load()[0]
    of_year = np.array([0, 1, 1, 0], np.int32)
    of_dorm_alone = adjusted_mutual_info_score([0, 0, 1], [0, 1, 1])
    found = agreement(adjusted_mutual_info_score, graph, of_year)
    assert found == pytest.approx(100 * (1 + of_dorm_alone) / 2)


def test_no_graph_is_both_chosen_on_and_reported() -> None:
    assert not set(CHOOSE) & set(REPORT)
    assert len(CHOOSE) == len(REPORT) == 10
    purposes = {graph.name: graph.purpose for graph in known_graphs(Path("nowhere")).values()}
    assert all(purposes[name] == "choose" for name in CHOOSE)
    assert sum(purpose == "report" for purpose in purposes.values()) == len(REPORT) + 1


def test_files_of_single_graphs_have_one_class_for_each_node(data: Path) -> None:
    assert [edges.stem for edges, _ in labelled_files(data / "labelled")] == ["karate"]


def test_the_windows_of_a_stream_are_one_graph_whose_edges_are_counted(tmp_path: Path) -> None:
    for folder in ("edges", "labels"):
        (tmp_path / folder).mkdir()
    pairs = {"window": [0, 0, 1], "src": [0, 1, 0], "dst": [1, 4, 1]}
    pd.DataFrame(pairs).to_parquet(tmp_path / "edges" / "stream_brain.parquet")
    labels = pd.DataFrame({"node": [0, 1, 4], "label": ["a", "a", "b"]})
    labels.to_parquet(tmp_path / "labels" / "stream_brain.parquet")
    [(name, graph)] = stream_graphs(tmp_path, ["brain, all windows"])
    assert name == "brain, all windows"
    assert graph.adjacency.toarray().tolist() == [[0, 2, 0], [2, 0, 1], [0, 1, 0]]
    assert graph.truth.tolist() == [0, 0, 1]


@pytest.mark.parametrize("find", [spectral, regularised_spectral])
def test_spectral_clustering_finds_two_triangles_of_one_edge_between(find: Find) -> None:
    graph = np.kron(np.eye(2), np.ones((3, 3)) - np.eye(3))
    graph[2, 3] = graph[3, 2] = 1
    labels = find(csr_array(graph), 2, 0)
    assert np.unique(labels).tolist() == [0, 1]
    assert len(set(labels[:3])) == len(set(labels[3:])) == 1


def test_graphs_on_which_a_peer_is_ahead_are_listed_by_how_far() -> None:
    rows = [
        f"| {kind} | {method} | {given} | {score} | 1.0 | 1.0 | 1.0 | 3 | 0.1 | abc |\n"
        for kind, method, given, score in (
            ("a", "bp, model `default`", "no", "50.00"),
            ("a", "Leiden", "no", "49.00"),
            ("a", "Infomap", "no", "52.50"),
            ("a", "bp, learned with labels", "no", "99.00"),
            ("a", "bp, model `default`", "yes", "60.00"),
            ("a", "Leiden, converged", "yes", "60.00"),
            ("b", "bp, model `default`", "yes", "70.00"),
            ("b", "Leiden, converged", "yes", "70.50"),
            ("b", "spectral, scikit-learn", "yes", ""),
        )
    ]
    assert behind(rows) == BEHIND_HEAD + (
        "| b | yes | 70.00 | 70.50 | Leiden, converged | 0.50 |\n"
        "| a | no | 50.00 | 52.50 | Infomap | 2.50 |\n"
    )
