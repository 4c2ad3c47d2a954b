"""NMI, AC and the contingency table, against scikit-learn and brute force."""

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
from stream_icd.methods.quality.agreement import accuracy, ami, contingency, nmi


@st.composite
def partition_pairs(draw: st.DrawFn, max_label: int = 6) -> tuple[np.ndarray, np.ndarray]:
    n_nodes = draw(st.integers(1, 40))
    labels = st.lists(st.integers(0, max_label), min_size=n_nodes, max_size=n_nodes)
    return np.array(draw(labels), dtype=np.int32), np.array(draw(labels), dtype=np.int32)


def best_naming(truth: np.ndarray, found: np.ndarray) -> float:
    """AC by trying every way to name the communities found."""
    names = range(max(truth.max(), found.max()) + 1)
    return max(float(np.mean(np.array(naming)[found] == truth)) for naming in permutations(names))


@given(partition_pairs())
def test_contingency_is_scikit_learns(pair: tuple[np.ndarray, np.ndarray]) -> None:
    assert np.array_equal(contingency(*pair).toarray(), contingency_matrix(*pair))


@given(partition_pairs())
def test_nmi_is_scikit_learns(pair: tuple[np.ndarray, np.ndarray]) -> None:
    assert nmi(*pair) == pytest.approx(normalized_mutual_info_score(*pair), abs=1e-12)


@given(partition_pairs())
def test_ami_is_scikit_learns(pair: tuple[np.ndarray, np.ndarray]) -> None:
    assert ami(*pair) == pytest.approx(adjusted_mutual_info_score(*pair), abs=1e-9)


def test_ami_does_not_rise_with_the_number_of_communities() -> None:
    rng = np.random.default_rng(0)
    truth, few, many = (rng.integers(k, size=2000) for k in (20, 20, 500))
    assert nmi(truth, many) > nmi(truth, few) + 0.1
    assert ami(truth, many) == pytest.approx(0.0, abs=0.01)
    assert ami(truth, few) == pytest.approx(0.0, abs=0.01)


@given(partition_pairs(max_label=4))
def test_accuracy_is_that_of_the_best_naming(pair: tuple[np.ndarray, np.ndarray]) -> None:
    assert accuracy(*pair) == pytest.approx(best_naming(*pair))


@pytest.mark.parametrize(("k_truth", "k_found"), [(300, 300), (20, 400), (400, 20)])
def test_accuracy_is_the_dense_assignments_at_any_k(k_truth: int, k_found: int) -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(k_truth, size=5000)
    found = np.where(rng.random(5000) < 0.6, truth, rng.integers(k_found, size=5000)) % k_found
    table = contingency_matrix(truth, found)
    assert accuracy(truth, found) == table[linear_sum_assignment(-table)].sum() / 5000


def test_accuracy_of_similar_partitions_needs_no_quadratic_solver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(agreement, "min_weight_full_bipartite_matching")
    rng, alone = np.random.default_rng(0), np.arange(5000)
    assert accuracy(alone, rng.permutation(alone)) == 1.0
    pairs, moves = alone // 2, rng.random(5000) < 0.05
    moved = np.where(moves, rng.integers(2500, size=5000), pairs)
    table = contingency_matrix(pairs, moved)
    assert accuracy(pairs, moved) == table[linear_sum_assignment(-table)].sum() / 5000


@pytest.mark.parametrize("metric", [nmi, ami, accuracy])
@given(pair=partition_pairs(), seed=st.integers(0, 99))
def test_names_and_order_of_communities_do_not_matter(metric, pair, seed) -> None:  # type: ignore[no-untyped-def]
    truth, found = pair
    renamed = np.random.default_rng(seed).permutation(100)[found] * 7
    assert metric(truth, renamed) == pytest.approx(metric(truth, found))
    assert metric(found, truth) == pytest.approx(metric(truth, found))
    assert metric(truth, truth) == pytest.approx(1.0)


def test_values_where_a_partition_says_nothing() -> None:
    one, all_alone = np.zeros(6, dtype=np.int32), np.arange(6, dtype=np.int32)
    nobody = np.empty(0, dtype=np.int32)
    assert nmi(one, one) == 1.0
    assert nmi(all_alone, all_alone) == 1.0
    assert nmi(one, all_alone) == 0.0
    assert nmi(nobody, nobody) == 1.0
    assert ami(one, one) == ami(all_alone, all_alone) == ami(nobody, nobody) == 1.0
    assert ami(one, all_alone) == 0.0
    assert accuracy(one, all_alone) == pytest.approx(1 / 6)
    assert accuracy(all_alone, one) == pytest.approx(1 / 6)
    assert accuracy(nobody, nobody) == 1.0


@pytest.mark.parametrize("metric", [nmi, ami, accuracy])
def test_a_partition_may_be_a_list(metric) -> None:  # type: ignore[no-untyped-def]
    assert metric([0, 0, 1, 1], [3, 3, 2, 2]) == 1.0
    assert metric([], []) == 1.0


@pytest.mark.parametrize("metric", [nmi, ami, accuracy])
def test_labels_may_be_above_the_range_of_int64(metric) -> None:  # type: ignore[no-untyped-def]
    assert metric([1 << 63, (1 << 64) - 1, 1 << 63], [0, 1, 0]) == 1.0


@pytest.mark.parametrize("metric", [nmi, ami, accuracy, contingency])
@pytest.mark.parametrize(
    "wrong",
    [np.zeros(4, dtype=np.int32), np.zeros((5, 1), dtype=np.int32), np.zeros(5), list("abcde")],
    ids=["other length", "two-dimensional", "not integers", "a list of texts"],
)
def test_partitions_that_do_not_fit_are_refused(metric, wrong: np.ndarray) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BadSettings):
        metric(np.zeros(5, dtype=np.int32), wrong)
