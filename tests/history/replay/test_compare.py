"""Two versions of the same past, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from stream_icd.core.communities import Communities
from stream_icd.history.replay.compare import LabelledNodes, churn, compare
from tests.history.conftest import make_communities
from tests.history.replay.conftest import make_snapshot


def found(i: int, labels: Sequence[int], model: str = "old@1") -> Communities:
    """A result for the i-th snapshot, labels repeated over its nodes."""
    one = make_communities(make_snapshot(i), model)
    return replace(one, labels=np.resize(np.asarray(labels, np.int32), one.n_nodes))


def test_the_same_partition_by_other_names_agrees_and_does_not_move() -> None:
    before = [found(i, (0, 1)) for i in range(3)]
    after = [replace(found(i, (1, 0), "new@1"), modularity=0.75) for i in range(3)]
    comparison = compare(before, after)
    (agreement,) = comparison.agreements
    assert (agreement.windows, agreement.same) == (3, 0)
    assert agreement.nmi == agreement.least_nmi == pytest.approx(1.0)
    old, new = sorted(comparison.qualities, key=lambda quality: quality.modularity)
    assert old.version == ("past", "old@1", "before")
    assert new.version == ("past", "new@1", "replayed")
    assert (new.modularity, new.communities, new.windows) == (0.75, 2, 3)
    assert old.churn == new.churn == 0.0
    comparison = compare(before, after[1:2])  # those that were not replayed do not count
    assert [quality.windows for quality in comparison.qualities] == [1, 1]
    assert comparison.agreements[0].windows == 1


def test_the_window_where_they_differ_most_is_named() -> None:
    before = [found(i, (0, 1)) for i in range(3)]
    after = [found(0, (0, 1), "n"), found(1, (0, 0, 1, 1), "n"), found(2, (0, 1), "n")]
    (agreement,) = compare(before, after).agreements
    assert agreement.least_at == "past/1"
    assert agreement.least_nmi == pytest.approx(0.0, abs=0.01)
    assert agreement.nmi == pytest.approx(2 / 3, abs=0.01)
    assert agreement.same == 2
    # Without a common node, as after a correction that turns ids from numbers into texts.
    after[1] = replace(found(1, (0, 1), "n"), nodes=before[1].nodes.cast(pa.string()))
    (agreement,) = compare(before, after).agreements
    assert agreement.nmi == pytest.approx(2 / 3)
    assert (agreement.least_nmi, agreement.least_at) == (0.0, "past/1")


def test_the_mean_horizon_and_bits_are_of_windows_that_say_them() -> None:
    first = replace(found(0, (0, 1)), horizon=1.0)
    told = [first, replace(found(1, (0, 1)), horizon=4.0, predicted_bits=0.5)]
    (with_memory,) = compare([], told).qualities
    assert (with_memory.horizon, with_memory.predicted_bits) == (2.5, 0.5)
    (alone,) = compare([], [found(i, (0, 1)) for i in range(2)]).qualities
    assert np.isnan([alone.horizon, alone.predicted_bits]).all()


def test_churn_is_the_share_of_common_nodes_that_moved() -> None:
    earlier, later = found(0, (0, 1)), found(1, (1, 0))
    assert earlier.nodes.equals(later.nodes)
    moved = later.labels.copy()
    moved[:10] = 1 - moved[:10]
    assert churn(earlier, replace(later, labels=moved)) == pytest.approx(0.1)
    fewer = replace(later, nodes=later.nodes.slice(3), labels=later.labels[3:])
    assert churn(earlier, fewer) == 0.0
    assert churn(LabelledNodes(earlier.nodes[:3], earlier.labels[:3]), fewer) is None
