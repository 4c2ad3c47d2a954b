"""NMI, AMI and AC, against scikit-learn and brute force."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from stream_icd.core.errors import BadSettings
from stream_icd.methods.quality import agreement
from stream_icd.methods.quality.agreement import accuracy, ami, nmi

EACH_METRIC = pytest.mark.parametrize("metric", [nmi, ami, accuracy])


@st.composite
def partition_pairs(draw: st.DrawFn, max_label: int = 6) -> tuple[np.ndarray, np.ndarray]:
    n_nodes = draw(st.integers(1, 40))
    labels = st.lists(st.integers(0, max_label), min_size=n_nodes, max_size=n_nodes)
    return np.array(draw(labels), dtype=np.int32), np.array(draw(labels), dtype=np.int32)


@given(partition_pairs())
def test_nmi_and_ami_are_scikit_learns(pair: tuple[np.ndarray, np.ndarray]) -> None:
    assert nmi(*pair) == pytest.approx(normalized_mutual_info_score(*pair), abs=1e-12)
    assert ami(*pair) == pytest.approx(adjusted_mutual_info_score(*pair), abs=1e-9)


@given(partition_pairs(max_label=4))
def test_accuracy_is_that_of_the_best_naming(pair: tuple[np.ndarray, np.ndarray]) -> None:
    truth, found = pair
    names = permutations(range(max(truth.max(), found.max()) + 1))
    best = max(float(np.mean(np.array(naming)[found] == truth)) for naming in names)
    assert accuracy(truth, found) == pytest.approx(best)


def best_assignment(truth: np.ndarray, found: np.ndarray) -> float:
    table = contingency_matrix(truth, found)
    return float(table[linear_sum_assignment(-table)].sum() / len(truth))


@pytest.mark.parametrize(("k_truth", "k_found"), [(300, 300), (20, 400), (400, 20)])
def test_accuracy_is_the_dense_assignments_at_any_k(k_truth: int, k_found: int) -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(k_truth, size=5000)
    found = np.where(rng.random(5000) < 0.6, truth, rng.integers(k_found, size=5000)) % k_found
    assert accuracy(truth, found) == best_assignment(truth, found)


def test_accuracy_of_similar_partitions_needs_no_quadratic_solver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(agreement, "min_weight_full_bipartite_matching")
    rng, alone = np.random.default_rng(0), np.arange(5000)
    assert accuracy(alone, rng.permutation(alone)) == 1.0
    pairs, moves = alone // 2, rng.random(5000) < 0.05
    moved = np.where(moves, rng.integers(2500, size=5000), pairs)
    assert accuracy(pairs, moved) == best_assignment(pairs, moved)


@EACH_METRIC
@given(pair=partition_pairs(), seed=st.integers(0, 99))
def test_names_and_order_of_communities_do_not_matter(metric, pair, seed) -> None:  # type: ignore[no-untyped-def]
    truth, found = pair
    renamed = np.random.default_rng(seed).permutation(100)[found] * 7
    assert metric(truth, renamed) == pytest.approx(metric(truth, found))
    assert metric(found, truth) == pytest.approx(metric(truth, found))
    assert metric(truth, truth) == pytest.approx(1.0)


@pytest.mark.parametrize(("metric", "at_least"), [(nmi, 0.0), (ami, 0.0), (accuracy, 1 / 6)])
def test_values_where_a_partition_says_nothing(metric, at_least: float) -> None:  # type: ignore[no-untyped-def]
    one, all_alone, nobody = np.zeros(6, np.int32), np.arange(6), np.empty(0, np.int32)
    assert metric(one, one) == metric(all_alone, all_alone) == metric(nobody, nobody) == 1.0
    assert metric(one, all_alone) == pytest.approx(at_least)
    assert metric(all_alone, one) == pytest.approx(at_least)
    # A partition may be a list, also of labels above int64.
    assert metric([0, 0, 1, 1], [3, 3, 2, 2]) == metric([], []) == 1.0
    assert metric([1 << 63, (1 << 64) - 1, 1 << 63], [0, 1, 0]) == 1.0


@EACH_METRIC
def test_partitions_that_do_not_fit_are_refused(metric) -> None:  # type: ignore[no-untyped-def]
    other_length, two_dimensional = np.zeros(4, np.int32), np.zeros((5, 1), np.int32)
    for wrong in (other_length, two_dimensional, np.zeros(5), list("abcde")):
        with pytest.raises(BadSettings):
            metric(np.zeros(5, np.int32), wrong)
