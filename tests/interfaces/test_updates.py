"""`ICD.update`: a graph that changes, the ids of its communities, and which of them changed."""

from __future__ import annotations

import pickle
from itertools import combinations, product

import numpy as np
import pytest

from stream_icd import ICD
from stream_icd.core.errors import BadInput
from stream_icd.interfaces.estimator import NotFitted
from stream_icd.methods.synthetic.gn import generate_gn

K, SIZE = 10, 20


@pytest.fixture(scope="module")
def pairs() -> list[tuple[int, int]]:
    """The edges of ten communities of twenty nodes."""
    planted = generate_gn(np.random.default_rng(3), K * SIZE, K, 0.5, 0.01)
    return list(zip(*(ends.tolist() for ends in planted.edges), strict=True))


@pytest.fixture
def icd(pairs: list[tuple[int, int]]) -> ICD:
    found = ICD.load("default")
    first = found.update(add=pairs)
    assert first.changed == tuple(range(K))
    assert first.ended == ()
    return found


def test_only_the_communities_that_a_node_or_an_edge_is_in_change(icd: ICD) -> None:
    before = icd.update()
    assert before.changed == ()
    members = before.members(4)
    after = icd.update(add=[(1000, member) for member in members[:6]])
    assert after.changed == (4,)
    assert after.members(4) == [*members, 1000]
    for other in set(range(K)) - {4}:
        assert after.members(other) == before.members(other)
    one, two, *_ = before.members(2)
    assert icd.update(add=[(one, two, 1.0)]).changed == (2,)
    assert icd.update(remove=[(one, two)]).changed == (2,)
    assert icd.update(add=[(one, before.members(3)[0])]).changed == (), "it is between two"


def test_communities_end_merge_and_begin(icd: ICD) -> None:
    now = icd.update()
    members, one, other = (now.members(community) for community in (5, 0, 1))
    without = icd.update(remove=members[:1])
    assert without.changed == (5,)
    assert without.members(5) == members[1:]
    gone = icd.update(remove=members[1:])
    assert (gone.ended, 5 in gone.changed) == ((5,), False)
    back = icd.update(add=combinations(members, 2))
    assert back.members(back.changed[0]) == members
    chance = np.random.default_rng(0)
    joined = icd.update(add=[pair for pair in product(one, other) if chance.random() < 0.5])
    (merged,) = joined.ended
    assert merged in (0, 1)
    assert joined.changed == (1 - merged,)
    new = icd.update(add=combinations(range(2000, 2015), 2))
    assert new.members(new.changed[-1]) == list(range(2000, 2015))
    assert new.changed[-1] >= K


def test_a_pickle_and_a_repetition_give_the_same(icd: ICD, pairs: list[tuple[int, int]]) -> None:
    other = pickle.loads(pickle.dumps(icd))
    step = [(1000, one) for one in range(8)]
    first, second = icd.update(add=step), other.update(add=step)
    assert first.communities.tolist() == second.communities.tolist()
    assert first.changed == second.changed
    fresh = ICD.load("default")
    fresh.update(add=pairs)
    assert fresh.update(add=step).communities.tolist() == first.communities.tolist()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        *(([one], "give \\(src, dst\\)") for one in ((1,), (1, 2, 3, 4), (1, None), 1.5)),
        *(([(1, 2, weight)], "must be a number above 0") for weight in (-1, float("nan"))),
        *(([pair], "ids of two types") for pair in (("a", 2), ("a", "b"))),
        (None, "has no edge after this update"),
    ],
)
def test_a_wrong_update_changes_nothing(icd: ICD, wrong: list[object] | None, says: str) -> None:
    add = [] if wrong is None else [(5000, 5001), *wrong]
    with pytest.raises(BadInput, match=says):
        icd.update(add=add, remove=range(K * SIZE) if wrong is None else ())
    now = icd.update()
    assert now.changed == ()
    assert 5000 not in now.nodes


def test_texts_numpy_integers_and_nodes_alone() -> None:
    icd, numbers = ICD.load("default"), ICD.load("default")
    update = icd.update(add=[*combinations("abc", 2), *combinations("xyz", 2), "alone"])
    assert update.nodes.tolist() == ["a", "alone", "b", "c", "x", "y", "z"]
    assert update.members(99) == []
    assert numbers.update(add=combinations(np.arange(3), 2)).nodes.tolist() == [0, 1, 2]
    with pytest.raises(NotFitted):
        ICD().update(add=[(1, 2)])
