"""The encoder also learns from sums of the windows, as memory keeps them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

from stream_icd.core.snapshot import Window
from stream_icd.learning.training.icd import taught as module
from stream_icd.learning.training.icd.taught import Taught, summed
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.labelled_graph import LabelledGraph, Moment
from stream_icd.methods.memory.detect import detect_window

START, HOUR = datetime(2026, 1, 1, tzinfo=UTC), timedelta(hours=1)


def taught(number: int, nodes: list[int], labels: list[int], graph: str | None = "g") -> Taught:
    """A window of a path through these nodes."""
    adjacency = csr_array(np.eye(len(nodes), k=1) + np.eye(len(nodes), k=-1))
    at = Window(START + number * HOUR, START + (number + 1) * HOUR)
    moment = None if graph is None else Moment(graph, pa.array(nodes), at)
    return Taught(LabelledGraph(adjacency, None, moment), np.array(labels, np.int32), "labels")


def test_a_sum_has_the_weights_that_memory_has() -> None:
    windows = [taught(0, [1, 2, 3], [0, 0, 1]), taught(1, [2, 3, 5], [0, 1, -1])]
    memory = None
    for one in windows:
        graph = one.graph
        assert graph.moment is not None
        given = graph.adjacency, graph.moment.nodes, graph.moment.window, BpParameters(search=True)
        memory = detect_window(*given, memory).memory
    assert memory is not None
    expected = memory.hypotheses[0].evidence
    ((adjacency, labels),) = summed(windows)
    assert adjacency.data.tolist() == expected.weights.tolist()
    assert adjacency.indices.tolist() == expected.indices.tolist()
    assert labels.tolist() == [0, 0, 1, -1]  # of 1, 2, 3, 5


def test_a_single_window_and_graphs_of_no_stream_have_no_sums() -> None:
    alone = [taught(0, [1, 2], [0, 0]), taught(1, [1, 2], [0, 0], graph=None)]
    assert summed(alone) == []


def test_the_newest_sums_come_first_within_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = [taught(at, [10 * at, 10 * at + 1], [0, 0]) for at in range(4)]
    assert [one.nnz for one, _ in summed(windows)] == [8, 6, 4]
    monkeypatch.setattr(module, "_MOST_ENTRIES", 0)
    assert [one.nnz for one, _ in summed(windows)] == [8]  # the windows have 8 together


def test_ids_of_another_kind_have_no_sums() -> None:
    other = taught(1, [1, 2], [0, 0])
    moment = other.graph.moment
    assert moment is not None
    named = Moment("g", pa.array(["a", "b"]), moment.window)
    graph = LabelledGraph(other.graph.adjacency, None, named)
    assert summed([taught(0, [1, 2], [0, 0]), Taught(graph, other.labels, "labels")]) == []
