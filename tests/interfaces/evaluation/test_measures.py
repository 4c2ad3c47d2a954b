import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score

from stream_icd.core.errors import BadSettings
from stream_icd.interfaces.evaluation.evaluate import measure
from stream_icd.interfaces.evaluation.method import OWN, Task, chosen, methods_in
from stream_icd.interfaces.evaluation.methods.others import search_resolution
from stream_icd.methods.quality.partition import ncut
from stream_icd.methods.synthetic.gn import generate_gn

PLANTED = generate_gn(np.random.default_rng(3), 90, 3, 0.5, 0.05)
GRAPH, TRUTH = PLANTED.adjacency(), PLANTED.communities


def test_all_measures_are_there_and_agree_with_their_definitions() -> None:
    found = np.roll(TRUTH, 5)
    measures = measure(GRAPH, found, TRUTH)
    assert measures.n_communities == 3
    assert measures.ncut == ncut(GRAPH, found)
    assert measures.ami == pytest.approx(adjusted_mutual_info_score(TRUTH, found), abs=1e-12)
    assert measures.ari == adjusted_rand_score(TRUTH, found)
    perfect = measure(GRAPH, TRUTH, TRUTH)
    assert (perfect.nmi, perfect.ac, perfect.ami, perfect.ari) == pytest.approx((1, 1, 1, 1))


def test_agreement_is_measured_where_the_truth_is_known() -> None:
    partly = np.where(np.arange(len(TRUTH)) % 2 == 0, TRUTH, -1).astype(np.int32)
    wrong_elsewhere = np.where(partly < 0, 7, TRUTH)
    assert measure(GRAPH, wrong_elsewhere, partly).nmi == pytest.approx(1)
    unknown = np.full(len(TRUTH), -1, np.int32)
    assert measure(GRAPH, TRUTH, unknown) == measure(GRAPH, TRUTH)
    assert measure(GRAPH, TRUTH).nmi is None


def test_methods_are_chosen_by_name() -> None:
    methods = methods_in(OWN)
    assert list(chosen(["leiden", "bp"], methods)) == ["leiden", "bp"]
    with pytest.raises(BadSettings, match="no method 'lieden'; did you mean leiden"):
        chosen(["lieden"], methods)
    with pytest.raises(BadSettings, match="no method is named: choose from bp"):
        chosen([], methods)


def test_two_methods_of_one_name_are_refused() -> None:
    with pytest.raises(BadSettings, match="second method"):
        methods_in(OWN, OWN)


@pytest.mark.parametrize("k", [1, 7, 40, 900])
def test_the_resolution_that_gives_k_is_found(k: int) -> None:
    partition = search_resolution(lambda at: np.arange(max(1, round(13 * at)), dtype=np.int32), k)
    assert len(partition.labels) == k


def test_leiden_leaves_nodes_without_edges_alone() -> None:
    pytest.importorskip("graspologic_native", reason="pip install 'stream-icd[evaluate]'")
    assert methods_in(OWN)["leiden"].find(Task(csr_array((3, 3)))).tolist() == [0, 1, 2]
