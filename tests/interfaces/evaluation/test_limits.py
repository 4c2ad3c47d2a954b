"""However a method ends, its run has an outcome, and the next one begins."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from scipy.sparse import csr_array

from stream_icd.core.errors import BadSettings
from stream_icd.interfaces.evaluation.limits import MethodProcess
from stream_icd.interfaces.evaluation.method import Task
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.streaming.execution.budget import Allowance
from tests.interfaces.evaluation.unruly.methods import COMPILATION_S

UNRULY = ("tests.interfaces.evaluation.unruly",)
GRAPH = csr_array(np.ones((6, 6)) - np.eye(6))


@pytest.fixture(scope="module")
def process() -> Iterator[MethodProcess]:
    process = MethodProcess(UNRULY, Allowance(seconds=1, memory_bytes=200_000_000))
    yield process
    process.end()


def test_a_result_has_its_labels_numbered_and_its_time_measured(process: MethodProcess) -> None:
    outcome = process.find("halves", Task(GRAPH))
    assert outcome.status == "ok"
    assert outcome.labels is not None
    assert outcome.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert 0 < outcome.stages["halve"] <= outcome.seconds


def test_no_result_pays_for_compilation(process: MethodProcess) -> None:
    for n_nodes in (6, 9):  # 9 nodes compile what 6 did not
        graph = csr_array(np.ones((n_nodes, n_nodes)) - np.eye(n_nodes))
        assert process.find("compiles", Task(graph)).seconds < COMPILATION_S


def test_what_was_learned_comes_back(process: MethodProcess) -> None:
    outcome = process.learn("halves", [LabelledGraph(GRAPH)], seed=5)
    assert outcome.learned == (1, 5)
    assert process.learn("fails", [LabelledGraph(GRAPH)], seed=5).learned is None


@pytest.mark.parametrize(
    ("name", "status", "detail"),
    [
        ("absent", "missing", "needs no_such_library: pip install it"),
        ("fails", "error", "ZeroDivisionError: no halves of 6"),
        ("needs-k", "error", "BadSettings: needs the number of communities"),
        ("too-few", "error", "TypeError: labels are int32 of shape (1,), not (6,)"),
        ("crashes", "crash", "its process ended with exit status -9"),
        ("spins", "limit", "took more than 1 s of processor time"),
        ("swells", "limit", "took more than 200 MB of memory"),
    ],
)
def test_a_run_without_a_result_says_why(
    process: MethodProcess, name: str, status: str, detail: str
) -> None:
    outcome = process.find(name, Task(GRAPH))
    assert (outcome.status, outcome.detail) == (status, detail)
    assert outcome.labels is None


@pytest.mark.parametrize("limits", [{"seconds": 0}, {"memory_bytes": 0}])
def test_limits_are_above_zero(limits: dict[str, int]) -> None:
    with pytest.raises(BadSettings, match="above 0"):
        Allowance(**{"seconds": 1, "memory_bytes": 1, **limits})
