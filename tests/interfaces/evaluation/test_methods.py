"""Methods are found and measured; however one ends, its run has an outcome."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score

from stream_icd.core.errors import BadSettings
from stream_icd.interfaces.evaluation.evaluate import measure
from stream_icd.interfaces.evaluation.limits import MethodProcess
from stream_icd.interfaces.evaluation.method import OWN, Task, chosen, methods_in
from stream_icd.interfaces.evaluation.methods.others import search_resolution
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.quality.partition import ncut
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.streaming.execution.budget import Allowance
from tests.interfaces.evaluation.unruly.methods import COMPILATION_S

UNRULY = ("tests.interfaces.evaluation.unruly",)


def clique(n_nodes: int) -> csr_array:
    return csr_array(np.ones((n_nodes, n_nodes)) - np.eye(n_nodes))


SIX = clique(6)


@pytest.fixture(scope="module")
def process() -> Iterator[MethodProcess]:
    process = MethodProcess(UNRULY, Allowance(seconds=1, memory_bytes=200_000_000))
    yield process
    process.end()


def test_a_result_has_its_labels_numbered_and_its_time_measured(process: MethodProcess) -> None:
    outcome = process.find("halves", Task(SIX))
    assert outcome.status == "ok"
    assert outcome.labels is not None
    assert outcome.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert 0 < outcome.stages["halve"] <= outcome.seconds
    for n_nodes in (6, 9):  # 9 nodes compile what 6 did not
        assert process.find("compiles", Task(clique(n_nodes))).seconds < COMPILATION_S
    learned = [process.learn(name, [LabelledGraph(SIX)], seed=5) for name in ("halves", "fails")]
    assert [one.learned for one in learned] == [(1, 5), None]


@pytest.mark.parametrize(
    ("name", "status", "detail"),
    [
        ("absent", "missing", "needs no_such_library: pip install it"),
        ("fails", "error", "ZeroDivisionError: no halves of 6"),
        ("needs-k", "error", "BadSettings: needs the number of communities"),
        ("too_few", "error", "TypeError: labels are int32 of shape (1,), not (6,)"),
        ("crashes", "crash", "its process ended with exit status -9"),
        ("spins", "limit", "took more than 1 s of processor time"),
        ("swells", "limit", "took more than 200 MB of memory"),
    ],
)
def test_a_run_without_a_result_says_why(
    process: MethodProcess, name: str, status: str, detail: str
) -> None:
    outcome = process.find(name, Task(SIX))
    assert (outcome.status, outcome.detail) == (status, detail)
    assert outcome.labels is None


def test_measures_agree_with_their_definitions_where_the_truth_is_known() -> None:
    planted = generate_gn(np.random.default_rng(3), 90, 3, 0.5, 0.05)
    graph, truth = planted.adjacency(), planted.communities
    found = np.roll(truth, 5)
    measures = measure(graph, found, truth)
    assert (measures.n_communities, measures.ncut) == (3, ncut(graph, found))
    assert measures.ami == pytest.approx(adjusted_mutual_info_score(truth, found), abs=1e-12)
    assert measures.ari == adjusted_rand_score(truth, found)
    perfect = measure(graph, truth, truth)
    assert (perfect.nmi, perfect.ac, perfect.ami, perfect.ari) == pytest.approx((1, 1, 1, 1))
    partly = np.where(np.arange(90) % 2 == 0, truth, -1).astype(np.int32)
    assert measure(graph, np.where(partly < 0, 7, truth), partly).nmi == pytest.approx(1)
    unknown = measure(graph, truth, np.full(90, -1, np.int32))
    assert unknown == measure(graph, truth)
    assert unknown.nmi is None


def test_methods_are_chosen_by_name() -> None:
    methods = methods_in(OWN)
    assert list(chosen(["leiden", "bp"], methods)) == ["leiden", "bp"]
    with pytest.raises(BadSettings, match="no method 'lieden'; did you mean leiden"):
        chosen(["lieden"], methods)
    with pytest.raises(BadSettings, match="no method is named: choose from bp"):
        chosen([], methods)
    with pytest.raises(BadSettings, match="second method"):
        methods_in(OWN, OWN)


@pytest.mark.parametrize("k", [1, 7, 40, 900])
def test_the_resolution_that_gives_k_is_found(k: int) -> None:
    labels, _ = search_resolution(lambda at: np.arange(max(1, round(13 * at)), dtype=np.int32), k)
    assert len(labels) == k


def test_leiden_leaves_nodes_without_edges_alone() -> None:
    pytest.importorskip("graspologic_native", reason="pip install 'stream-icd[evaluate]'")
    assert methods_in(OWN)["leiden"].find(Task(csr_array((3, 3)))).tolist() == [0, 1, 2]
