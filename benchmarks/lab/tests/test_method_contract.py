"""Every method, ours and others, keeps the contract of `interfaces.evaluation.method`."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from benchmarks.lab.packages import PACKAGES
from stream_icd.core.arrays import Labels
from stream_icd.interfaces.evaluation.limits import InProcessRunner, MethodRun
from stream_icd.interfaces.evaluation.method import EvaluatedMethod, Task, methods_in
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.synthetic.gn import generate_gn

METHODS = methods_in(*PACKAGES)
N_NODES, K = 128, 4

PLANTED = generate_gn(np.random.default_rng(7), N_NODES, K, 0.5, 0.02)
PAST = generate_gn(np.random.default_rng(8), N_NODES, K, 0.5, 0.02)


class RunOnce(InProcessRunner):
    """A method neither runs on a small graph first, nor twice: no time is measured."""

    def __init__(self) -> None:
        super().__init__(PACKAGES)
        self._largest = dict.fromkeys(METHODS, N_NODES)


run = cache(RunOnce)


@pytest.fixture(params=list(METHODS.items()), ids=list(METHODS))
def named(request: pytest.FixtureRequest) -> tuple[str, EvaluatedMethod]:
    name, method = request.param
    missing = method.missing()
    if missing is not None:
        pytest.skip(missing)
    return name, method


def found(name: str, task: Task) -> Labels:
    outcome: MethodRun = run()((name, task))
    assert outcome.status == "ok", outcome.detail
    assert outcome.labels is not None
    return outcome.labels


def test_a_method_keeps_the_contract(named: tuple[str, EvaluatedMethod]) -> None:
    name, method = named
    past = (LabelledGraph(PAST.adjacency(), PAST.communities),)
    learned = pickle.loads(pickle.dumps(run()((name, (past, 0)))))  # as from a process
    assert learned.status == "ok", learned.detail
    assert (learned.learned is None) == (method.learn is None)

    task = Task(PLANTED.adjacency(), K, 0, learned.learned)
    labels = found(name, task)
    assert labels.shape == (N_NODES,)
    assert labels.dtype == np.int32
    assert set(labels) == set(range(labels.max() + 1)), "labels are 0..K-1, without gaps"
    again = task if method.weighted else replace(task, adjacency=7 * task.adjacency)
    assert np.array_equal(found(name, again), labels), "the same seed, the same communities"
    if not method.sees_communities:
        assert nmi(PLANTED.communities, labels) < 0.2, "if it finds them, say that it sees them"
        return
    assert nmi(PLANTED.communities, labels) > 0.5, "four clear communities"
    if method.k != "ignored":
        assert labels.max() + 1 == K
    if method.k != "needed":
        assert nmi(PLANTED.communities, found(name, replace(task, n_communities=None))) > 0.5


def test_a_source_is_named(named: tuple[str, EvaluatedMethod]) -> None:
    assert named[1].source
