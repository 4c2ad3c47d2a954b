"""Memory with another method than bp: here, the connected components of the evidence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.memory.detect import Remembered, detect_window
from stream_icd.methods.memory.follow import Find
from stream_icd.methods.memory.horizon import Horizon
from tests.methods.memory.streams import hour, ids_of, through_bytes

EACH = pytest.mark.parametrize("horizon", ["auto", "off", 1, 5])
A, B, C = list(range(8)), list(range(10, 18)), list(range(20, 28))
"""Groups of eight nodes."""


def components(
    graph: csr_array,
    _k: int | None,
    before: NDArray[np.int32],
    _known: NDArray[np.int32] | None = None,
) -> NDArray[np.int32]:
    assert before.shape == (graph.shape[0],)
    return connected_components(graph)[1].astype(np.int32)


def detected(
    number: int,
    nodes: Sequence[int],
    groups: Sequence[Sequence[int]],
    last: Remembered | None = None,
    horizon: Horizon = "auto",
    k: int | None = None,
    find: Find = components,
) -> Remembered:
    """A window of these nodes, in which each group is a clique."""
    edges = np.zeros((len(nodes), len(nodes)))
    for group in groups:
        at = [list(nodes).index(node) for node in group]
        edges[np.ix_(at, at)] = 1
    np.fill_diagonal(edges, 0)
    ids, memory = pa.array(nodes, pa.int64()), None if last is None else through_bytes(last.memory)
    graph, parameters = csr_array(edges), BpParameters()
    return detect_window(
        graph, ids, hour(number), parameters, memory, k, horizon=horizon, find=find
    )


def ids(one: Remembered) -> list[int]:
    return ids_of(one).tolist()


@EACH
def test_a_community_that_is_away_comes_back_with_its_id(horizon: Horizon) -> None:
    first = detected(0, A + B + C, [A, B, C], horizon=horizon)
    second = detected(1, A + B, [A, B], first, horizon)
    third = detected(2, A + B + C, [A, B, C], second, horizon)
    assert ids(first) == ids(third) == [0] * 8 + [1] * 8 + [2] * 8
    assert ids(second) == [0] * 8 + [1] * 8


@EACH
def test_nodes_without_edges_stay_where_they_were(horizon: Horizon) -> None:
    first = detected(0, A + B, [A, B], horizon=horizon)
    alone = detected(1, [*A, 10, 30], [A], first, horizon)
    assert ids(alone) == [0] * 8 + [1, 2]
    nobody = detected(2, [*A, 30], [], alone, horizon)
    assert ids(nobody) == [0] * 8 + [2]
    assert nobody.memory.posterior.shares.max() <= 1


def test_absent_nodes_follow_their_community() -> None:
    a, b = list(range(6)), list(range(10, 16))
    first = detected(0, a + b, [a, b], horizon="off")
    merged = detected(1, [*a, 10, 11, 12], [[*a, 10, 11, 12]], first, "off")
    back = detected(2, [*a, *b], [a + b[:3]], merged, "off")
    assert set(ids(merged)) == set(ids(back)) == {0}


@pytest.mark.parametrize(("horizon", "worth", "together"), [("off", 1, 2), (1, 1, 2), (5, 4.66, 6)])
def test_the_method_sees_the_edges_of_earlier_windows(
    horizon: Horizon, worth: float, together: int
) -> None:
    asked_about: list[int] = []

    def noted(
        graph: csr_array, k: int | None, before: NDArray[np.int32], _known: None
    ) -> NDArray[np.int32]:
        asked_about.append(graph.shape[0])
        return components(graph, k, before)

    ring, found = [(at, (at + 1) % 6) for at in range(6)], None
    for number in range(12):
        found = detected(number, range(6), [ring[number % 6]], found, horizon, find=noted)
    assert found is not None
    assert found.horizon == pytest.approx(worth, 0.01)
    assert asked_about[-1] == together


def test_one_that_moves_does_not_take_the_absent_along() -> None:
    a, b = list(range(10)), list(range(10, 20))
    first = detected(0, a + b, [a, b], horizon="off")
    moved = detected(1, [*a, 10], [[*a, 10]], first, "off")
    back = detected(2, a + b, [[*a, 10], b[1:]], moved, "off")
    assert ids(back) == [0] * 11 + [1] * 9


@EACH
def test_one_node_and_none(horizon: Horizon) -> None:
    one = detected(0, [7], [], horizon=horizon)
    none = detected(1, [], [], one, horizon)
    again = detected(2, [7], [], none, horizon)
    given = detected(3, [7], [], again, horizon, 1)
    assert (ids(one), ids(none), ids(again), ids(given)) == ([0], [], [0], [0])
    begun = detected(0, [], [], horizon=horizon)
    assert ids(begun) == []
    assert ids(detected(1, [7, 8], [[7, 8]], begun, horizon)) == [0, 0]
