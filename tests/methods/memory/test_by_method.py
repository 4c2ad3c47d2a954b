"""Memory with another method than bp: here, the connected components of the evidence."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.memory.detect import detect_window
from stream_icd.methods.memory.horizon import Horizon
from tests.methods.memory.streams import hour, ids_of, through_bytes

EACH = pytest.mark.parametrize("horizon", ["auto", "off", 1, 5])
A, B, C = list(range(8)), list(range(10, 18)), list(range(20, 28))
"""Groups of eight nodes."""
Window = tuple[list[int], list[list[int]]]
"""Nodes, and groups of them each of which is a clique."""


def components(
    graph: csr_array,
    _k: int | None,
    before: NDArray[np.int32],
    _known: NDArray[np.int32] | None = None,
) -> NDArray[np.int32]:
    assert before.shape == (graph.shape[0],)
    return connected_components(graph)[1].astype(np.int32)


def detected(horizon: Horizon, *windows: Window) -> list[list[int]]:
    """The ids of nodes, window by window."""
    found, memory = [], None
    for number, (nodes, groups) in enumerate(windows):
        edges = np.zeros((len(nodes), len(nodes)))
        for group in groups:
            at = np.searchsorted(nodes, group)
            edges[np.ix_(at, at)] = 1 - np.eye(len(at))
        graph, ids = csr_array(edges), pa.array(nodes, pa.int64())
        memory = through_bytes(memory)
        now = detect_window(
            graph, ids, hour(number), BpParameters(), memory, horizon=horizon, find=components
        )
        memory = now.memory
        assert memory.posterior.shares.max(initial=0) <= 1
        found.append(ids_of(now).tolist())
    return found


@EACH
def test_ids_last_while_communities_and_edges_come_and_go(horizon: Horizon) -> None:
    all_three, two = (A + B + C, [A, B, C]), (A + B, [A, B])
    first, away, back = detected(horizon, all_three, two, all_three)
    assert first == back == [0] * 8 + [1] * 8 + [2] * 8
    assert away == [0] * 8 + [1] * 8
    # Node 10 has no edge any more, and 30 never had one.
    _, alone, nobody = detected(horizon, two, ([*A, 10, 30], [A]), ([*A, 30], []))
    assert (alone, nobody) == ([0] * 8 + [1, 2], [0] * 8 + [2])


def test_absent_nodes_follow_most_of_their_community_and_no_single_node() -> None:
    a, b = A[:6], B[:6]
    joined = [*a, *b[:3]]
    *_, merged, back = detected("off", (a + b, [a, b]), (joined, [joined]), (a + b, [joined]))
    assert set(merged) == set(back) == {0}
    joined = [*A, B[0]]
    *_, back = detected("off", (A + B, [A, B]), (joined, [joined]), (A + B, [joined, B[1:]]))
    assert back == [0] * 9 + [1] * 7


@pytest.mark.parametrize(("horizon", "decay"), [("off", 0.0), (1, 0.0), (5, 0.8)])
def test_the_method_sees_the_edges_of_earlier_windows_which_count_less(
    horizon: Horizon, decay: float
) -> None:
    rng, shown, expected, found = np.random.default_rng(0), [], np.zeros((12, 12)), None

    def noted(graph: csr_array, *_: object) -> NDArray[np.int32]:
        shown.append(graph.toarray())
        return np.zeros(graph.shape[0], np.int32)

    for number in range(8):
        nodes = np.sort(rng.choice(12, 8, replace=False))
        drawn = np.triu(rng.random((8, 8)) < 0.5, 1)
        window = (drawn | drawn.T).astype(float)
        expected *= decay
        expected[np.ix_(nodes, nodes)] += window
        memory = None if found is None else through_bytes(found.memory)
        found = detect_window(
            csr_array(window), pa.array(nodes), hour(number), BpParameters(weight_exponent=1),
            memory, horizon=horizon, find=noted,
        )  # fmt: skip
        linked = np.flatnonzero(expected.any(axis=0))
        assert shown[-1] == pytest.approx(expected[np.ix_(linked, linked)], rel=0.01)
        assert found.horizon == pytest.approx(sum(decay**age for age in range(number + 1)))


@EACH
def test_one_node_and_none(horizon: Horizon) -> None:
    one, nobody = ([7], []), ([], [])
    assert detected(horizon, one, nobody, one) == [[0], [], [0]]
    assert detected(horizon, nobody, ([7, 8], [[7, 8]])) == [[], [0, 0]]
