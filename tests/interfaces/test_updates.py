"""`ICD.update`: a graph that changes, the ids of its communities, and which of them changed."""

from __future__ import annotations

import pickle

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


def test_removed_nodes_and_communities_that_end(icd: ICD) -> None:
    now = icd.update()
    members = now.members(5)
    without = icd.update(remove=members[:1])
    assert without.changed == (5,)
    assert without.members(5) == members[1:]
    gone = icd.update(remove=members[1:])
    assert gone.ended == (5,)
    assert 5 not in gone.changed
    back = icd.update(add=[(one, other) for one in members for other in members if one < other])
    assert back.members(back.changed[0]) == members


def test_communities_that_merge_and_one_that_is_new(icd: ICD) -> None:
    now = icd.update()
    one, other = now.members(0), now.members(1)
    chance = np.random.default_rng(0)
    joined = icd.update(add=[(a, b) for a in one for b in other if chance.random() < 0.5])
    (gone,) = joined.ended
    assert gone in (0, 1)
    assert joined.changed == (1 - gone,)
    clique = [(a, b) for a in range(2000, 2015) for b in range(a) if b >= 2000]
    new = icd.update(add=clique)
    assert new.members(new.changed[-1]) == list(range(2000, 2015))
    assert new.changed[-1] >= K


def test_the_same_updates_give_the_same_and_a_pickle_continues(
    icd: ICD, pairs: list[tuple[int, int]]
) -> None:
    other = pickle.loads(pickle.dumps(icd))
    step = [(1000, one) for one in range(8)]
    first, second = icd.update(add=step), other.update(add=step)
    assert first.communities.tolist() == second.communities.tolist()
    assert first.changed == second.changed
    fresh = ICD.load("default")
    fresh.update(add=pairs)
    assert fresh.update(add=step).communities.tolist() == first.communities.tolist()


@pytest.mark.parametrize(
    ("add", "remove", "says"),
    [
        ([(1,)], [], "give \\(src, dst\\)"),
        ([(1, 2, 3, 4)], [], "give \\(src, dst\\)"),
        ([(1, None)], [], "give \\(src, dst\\)"),
        ([1.5], [], "give \\(src, dst\\)"),
        ([(1, 2, -1)], [], "the weight must be a number above 0"),
        ([(1, 2, float("nan"))], [], "the weight must be a number above 0"),
        ([("a", 2)], [], "ids of two types"),
        ([("a", "b")], [], "ids of two types"),
        ([], list(range(K * SIZE)), "has no edge after this update"),
    ],
)
def test_a_wrong_update_is_refused_and_changes_nothing(
    icd: ICD, add: list[object], remove: list[object], says: str
) -> None:
    with pytest.raises(BadInput, match=says):
        icd.update(add=[(5000, 5001), *add] if says[0] != "h" else add, remove=remove)
    now = icd.update()
    assert now.changed == ()
    assert 5000 not in now.nodes


def test_texts_numpy_integers_and_nodes_alone() -> None:
    icd, numbers, ids = ICD.load("default"), ICD.load("default"), np.arange(6)
    triangles = [("a", "b"), ("b", "c"), ("a", "c"), ("x", "y"), ("y", "z"), ("x", "z")]
    update = icd.update(add=[*triangles, "alone"])
    assert update.nodes.tolist() == ["a", "alone", "b", "c", "x", "y", "z"]
    assert update.members(99) == []
    first = numbers.update(add=[(ids[0], ids[1]), (ids[1], ids[2]), (ids[0], ids[2])])
    assert first.nodes.tolist() == [0, 1, 2]
    with pytest.raises(NotFitted):
        ICD().update(add=[(1, 2)])
