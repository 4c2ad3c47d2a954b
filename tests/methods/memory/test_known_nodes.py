"""What is known of some nodes is kept over the windows of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stream_icd.core.arrays import NOBODY, Ids
from stream_icd.core.errors import BadInput, BadSettings
from stream_icd.interfaces.estimator import ICD
from stream_icd.methods.bp.known import Known
from stream_icd.methods.memory.detect import Remembered
from stream_icd.methods.quality.agreement import ami
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_drifting_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph
from tests.methods.memory.streams import ids_of

Pairs = list[tuple[str, str]]


def stream(n_windows: int, mixing: float = 0.6) -> Iterator[tuple[PlantedGraph, Ids]]:
    yield from generate_drifting_lfr(5, n_windows, LfrSettings(1000, mixing=mixing))


def cliques(*groups: str) -> Pairs:
    """Each group of letters is a clique; one edge joins it to the next."""
    inside = [pair for group in groups for pair in combinations(group, 2)]
    return inside + [(one[0], other[1]) for one, other in pairwise(groups)]


EAST, WEST, SOUTH = "abcdefgh", "ijklmnop", "qrstuvwx"


def id_by_node(icd: ICD, found: Remembered) -> dict[object, int]:
    return dict(zip(icd.nodes_.tolist(), ids_of(found).tolist(), strict=True))


@pytest.mark.parametrize("horizon", ["auto", "off", 3])
@pytest.mark.parametrize("method", ["bp", "icd"])
def test_a_label_keeps_its_nodes_and_its_id(method: str, horizon: str | int) -> None:
    icd, memory, ids = ICD.load("default", method=method), None, []
    planted = list(stream(5))
    truth = planted[0][0].communities
    known = {node: f"label {of}" for node, of in enumerate(truth.tolist()) if of < 4 and node % 3}
    for snapshot, _ in planted:
        found = icd.predict_next(snapshot, memory, known=known, fixed=True, horizon=horizon)
        memory = found.memory.checked()
        ids.append(icd.known_)
        of = id_by_node(icd, found)
        there = {(label, of[node]) for node, label in known.items() if node in of}
        assert there <= set(icd.known_.items())
        if method == "bp":
            sure = dict(zip(icd.nodes_.tolist(), found.probabilities, strict=True))
            assert {sure[node] for node in known if node in of} == {1.0}
    assert all(one == ids[0] for one in ids)
    assert len(set(ids[0].values())) == 4


def test_what_is_known_helps_the_other_nodes_of_a_stream() -> None:
    scores = {}
    for share in (0.0, 0.2):
        icd, memory, own = ICD.load("default"), None, []
        for planted, _ in stream(4, 0.65):
            truth = planted.communities
            given = np.random.default_rng(0).random(len(truth)) < 0.2
            known = dict(zip(np.flatnonzero(given).tolist(), truth[given].tolist(), strict=True))
            found = icd.predict_next(planted, memory, known=known if share else None, fixed=True)
            memory = found.memory
            own.append(ami(truth[~given], found.communities[~given]))
        scores[share] = np.mean(own)
    assert scores[0.2] > scores[0.0] + 0.02


def test_without_known_nodes_in_a_window_nothing_changes() -> None:
    plain, other, memory, same = ICD.load("lfr"), ICD.load("lfr"), None, None
    for snapshot, _ in stream(3):
        found = plain.predict_next(snapshot, memory)
        again = other.predict_next(snapshot, same, known={-7: "nobody"})
        memory, same = found.memory, again.memory
        assert other.known_ == {"nobody": -1}
        assert (found.communities == again.communities).all()
        assert (found.community_ids == again.community_ids).all()
        assert (found.probabilities == again.probabilities).all()


def test_a_label_takes_its_id_along_when_its_nodes_join_others() -> None:
    icd, known = ICD.load("default"), {"a": "us", "b": "us", "i": "them"}
    first = icd.predict_next(cliques(EAST, WEST, SOUTH), known=known, fixed=True, horizon="off")
    before = icd.known_
    moved = cliques("abijklmnop", "cdefgh", SOUTH)
    then = icd.predict_next(moved, first.memory, known=known, fixed=True, horizon="off")
    assert icd.known_ == before
    of = id_by_node(icd, then)
    assert of["a"] == of["b"] == before["us"] != of["i"] == before["them"]
    assert len(set(then.community_ids)) == len(then.community_ids)


def test_edges_may_contradict_what_is_not_fixed() -> None:
    icd, known = ICD.load("default"), {"a": 0, "b": 0, "c": 0, "q": 0}
    memory = None
    for _ in range(2):
        found = icd.predict_next(cliques(EAST, WEST, SOUTH), memory, known=known)
        memory = found.memory
    of = id_by_node(icd, found)
    assert of["a"] == of["h"] == icd.known_[0] != of["q"] == of["x"]
    assert found.probabilities is not None
    assert ((found.probabilities >= 0) & (found.probabilities <= 1)).all()


def test_ids_of_known_nodes_are_found_as_text_and_as_numbers() -> None:
    known = Known(pa.array(["7", "701", "x"]), np.array([4, 2, 2], np.int32))
    labels, present, _ = known.of(pa.array([5, 7, 701]))
    assert labels.tolist() == [NOBODY, 1, 0]
    assert present.tolist() == [2, 4]
    number = Known(pa.array([7]), np.zeros(1, np.int32))
    assert number.of(pa.array(["7", "8"])).labels.tolist() == [0, NOBODY]


@pytest.mark.parametrize(
    ("known", "k", "said"),
    [
        ({"a": 1, 7: 2}, None, "known nodes are neither integers of 64 bits nor text"),
        ({1.5: 1}, None, "known nodes are integers or text, not double"),
        ({"a": 1}, 2, "the method bp determines K"),
    ],
)
def test_what_cannot_be_known_is_refused(known: dict[Any, int], k: int | None, said: str) -> None:
    with pytest.raises((BadInput, BadSettings), match=said):
        ICD.load("default").predict_next(cliques(EAST, WEST), n_communities=k, known=known)
