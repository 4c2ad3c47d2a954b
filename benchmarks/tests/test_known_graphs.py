"""Single graphs with known classes: all classifications count, on the labelled nodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_mutual_info_score

from benchmarks.shared.graphs.known_graphs import (
    CHOOSE,
    REPORT,
    agreement,
    known_graphs,
    labelled_files,
)
from benchmarks.shared.streams.known_streams import NO_CLASS


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
    assert [one.tolist() for one in graph.classifications] == [[0, 0, 1, NO_CLASS], [0, 1, 1, 0]]


def test_the_agreement_is_the_mean_over_the_classifications(data: Path) -> None:
    graph = known_graphs(data)["fb100_Reed98"].load()[0]
    of_year = np.array([0, 1, 1, 0], np.int32)
    of_dorm_alone = adjusted_mutual_info_score([0, 0, 1], [0, 1, 1])
    found = agreement(adjusted_mutual_info_score, graph, of_year)
    assert found == pytest.approx(100 * (1 + of_dorm_alone) / 2)


def test_no_graph_is_both_chosen_on_and_reported() -> None:
    assert not set(CHOOSE) & set(REPORT)
    assert len(CHOOSE) == len(REPORT) == 10
    purposes = {one.name: one.purpose for one in known_graphs(Path("nowhere")).values()}
    assert all(purposes[name] == "choose" for name in CHOOSE)
    assert sum(purpose == "report" for purpose in purposes.values()) == len(REPORT) + 1


def test_files_of_single_graphs_have_one_class_for_each_node(data: Path) -> None:
    assert [edges.stem for edges, _ in labelled_files(data / "labelled")] == ["karate"]
