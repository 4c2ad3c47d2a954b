"""Detection on a stream: nodes that come and go, gaps, late windows, models that change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from stream_icd.core.errors import BadInput, BadSettings
from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.core.times import missed_windows
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.memory.detect import Remembered, detect_remembering
from stream_icd.methods.memory.encoding import encode_memory
from stream_icd.methods.memory.memory import MOST_READ_IDS
from stream_icd.methods.memory.nodes import cut
from stream_icd.methods.memory.smoothing import detect_smoothed
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_drifting_lfr
from stream_icd.registry.find import open_model
from stream_icd.sources.generated import planted_snapshots
from tests.methods.memory.streams import (
    BELIEFS,
    HOUR,
    START,
    cliques,
    detected,
    hour,
    ids_of,
    model,
    through_bytes,
)

BOTH = pytest.mark.parametrize(
    "parameters", [BELIEFS, BpParameters()], ids=["beliefs", "modularity"]
)
TWO = (range(10), range(20, 30))
"""Groups of nodes, each a clique."""


def seen(
    parameters: BpParameters, *windows: Sequence[Sequence[int]]
) -> list[tuple[Remembered, dict[int, int]]]:
    """Each result, with the id of each node's community, of windows in which groups are cliques."""
    snapshots = [cliques(number, *groups) for number, groups in enumerate(windows)]
    found = detected(snapshots, model(parameters))
    return [(one, ids_by_node(one, at)) for one, at in zip(found, snapshots, strict=True)]


def ids_by_node(found: Remembered, snapshot: Snapshot) -> dict[int, int]:
    return dict(zip(snapshot.nodes.to_pylist(), ids_of(found).tolist(), strict=True))


@BOTH
def test_ids_belong_to_nodes_whatever_their_places(parameters: BpParameters) -> None:
    after = (range(1, 5), range(20, 30), range(10, 20))  # new nodes come first now
    (first, before), (second, now) = seen(parameters, (range(10, 20), range(20, 30)), after)
    assert (now[10], now[20]) == (before[10], before[20])
    assert now[1] >= first.memory.next_id
    assert second.n_continued == 2


@BOTH
def test_a_new_node_joins_the_community_that_it_is_linked_to(parameters: BpParameters) -> None:
    (_, before), (_, now) = seen(parameters, TWO, (range(11), range(20, 30)))
    assert now[10] == before[0]


@BOTH
def test_a_community_that_was_away_comes_back_with_its_id(parameters: BpParameters) -> None:
    (_, before), _, (away, _), (_, now) = seen(parameters, TWO, TWO, TWO[1:], TWO)
    assert away.memory.n_nodes == 20
    assert now[0] == before[0]


@BOTH
def test_nodes_that_stay_away_are_forgotten(parameters: BpParameters) -> None:
    kept = [one.memory.n_nodes for one, _ in seen(parameters, TWO, *[TWO[1:]] * 199)]
    assert (kept[1], kept[-1]) == (20, 10)
    assert sorted(kept, reverse=True) == kept


def test_missing_windows_change_nothing_and_are_counted_in_lengths_of_the_present_one() -> None:
    groups = (range(20, 30), range(30, 40), range(40, 50))
    before = detected(cliques(number, range(10), *groups) for number in range(3))[-1].memory
    next_one, late = (detected([cliques(at, *groups)], memory=before)[0] for at in (3, 1000))
    assert next_one.community_ids.tolist() == late.community_ids.tolist()
    assert np.array_equal(*(one.memory.known.shares for one in (next_one, late)))
    assert [missed_windows(hour(0), hour(at)) for at in (1, 4)] == [0, 3]
    instant = Window(START + 9 * HOUR, START + 9 * HOUR)
    assert missed_windows(hour(4), hour(0)) == missed_windows(hour(0), instant) == 0


@BOTH
def test_a_late_window_is_found_with_memory_and_leaves_it_unchanged(
    parameters: BpParameters,
) -> None:
    (first, before), (second, _) = seen(parameters, TWO, TWO)
    late = cliques(0.5, *TWO)
    found = detect_remembering(late, model(parameters), second.memory)
    assert ids_by_node(found, late)[0] == before[0]
    assert encode_memory(found.memory) != encode_memory(first.memory)
    again = detect_remembering(cliques(-5, *TWO), model(parameters), second.memory)
    assert again.memory is second.memory


@BOTH
def test_another_model_goes_on_with_the_memory(parameters: BpParameters) -> None:
    (first,) = detected([cliques(0, *TWO)])
    (second,) = detected([cliques(1, *TWO)], model(parameters), first.memory)
    assert ids_of(second).tolist() == ids_of(first).tolist()


def test_ids_of_another_type_are_other_nodes() -> None:
    texts = [[str(node) for node in group] for group in TWO]
    first, second = detected([cliques(0, *TWO), cliques(1, *texts)])
    assert second.n_continued == 0
    assert second.community_ids.min() >= first.memory.next_id
    assert second.memory.nodes.type == pa.string()


def test_away_nodes_follow_a_community_that_merged() -> None:
    others = (range(100, 110), range(200, 210), range(300, 310))
    joined = ((*range(1, 8), *range(20, 30)), *others)
    windows = (range(8), range(20, 30), *others), joined, (*joined, (0, 40))
    (_, before), (second, now), _ = seen(BELIEFS, *windows)
    assert now[20] == before[20]
    memory = second.memory
    assert memory.nodes[0].as_py() == 0
    assert memory.community_ids[memory.known.communities[0, 0]] == now[20]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"snapshot": np.ones((3, 3))}, "a Snapshot in place of the ndarray"),
        ({"model": "default"}, "a Model in place of the str"),
        ({"memory": b"memory"}, "a Memory in place of the bytes"),
    ],
)
def test_what_is_of_another_kind_is_named_with_what_it_should_be(
    given: dict[str, object], wanted: str
) -> None:
    right = {"snapshot": cliques(0, range(5)), "model": model(), "memory": None, **given}
    with pytest.raises(BadSettings, match=wanted):
        detect_remembering(**right)
    with pytest.raises(BadSettings, match=wanted):
        detect_smoothed([right["snapshot"]], right["model"], right["memory"])


def test_an_adjacency_of_other_nodes_is_refused() -> None:
    other = cliques(0, range(4)).adjacency()
    with pytest.raises(BadInput, match=r"shape \(4, 4\); 5 nodes"):
        detect_remembering(cliques(0, range(5)), model(), None, adjacency=other)


def test_new_communities_get_ids_after_the_highest_that_is_read() -> None:
    (first,) = detected([cliques(0, range(9))])
    known = replace(first.memory, next_id=MOST_READ_IDS)
    (second,) = detected([cliques(1, range(9), range(10, 19))], memory=known)
    assert ids_of(second)[-1] == MOST_READ_IDS


@BOTH
def test_a_memory_that_was_cut_to_no_nodes_starts_with_new_ids(parameters: BpParameters) -> None:
    ((first, _),) = seen(parameters, TWO)
    (found,) = detected([cliques(1, *TWO)], model(parameters), cut(first.memory, 0))
    assert min(found.community_ids) >= first.memory.next_id


def test_no_community_is_remembered_twice_of_a_node() -> None:
    """In the third window of this stream, a merger becomes the likeliest community of a node."""
    settings = LfrSettings(1000, max_degree=100, max_community=100, mixing=0.6)
    graphs = (graph for graph, _ in generate_drifting_lfr(4, 3, settings, churn=0.05))
    windows = [one for one, _ in planted_snapshots(graphs, "drifting", "test")]
    assert through_bytes(detected(windows)[-1].memory)  # else it is refused


def test_a_graph_that_stays_the_same_is_not_broken() -> None:
    # Of a hub and a ring of so many nodes, beliefs know fewer edges inside than chance has there.
    ring = np.arange(1, 50_001)
    src, dst = np.append(np.zeros_like(ring), ring[:-1]), np.append(ring, ring[1:])
    hubs = [
        snapshot_from_pairs(src, dst, graph="g", id=f"g/{number}", window=hour(number))
        for number in range(2)
    ]
    assert detected(hubs, open_model("default").model)[-1].n_continued


@BOTH
def test_a_node_between_two_communities_may_be_in_the_second(parameters: BpParameters) -> None:
    groups = (range(8), range(8, 16), [16, 0, 1], [16, 8, 9])
    for found, ids in seen(parameters, groups, groups):
        own, others, second = found.probabilities, found.second_ids, found.second_probabilities
        assert own is not None
        assert others is not None
        assert second is not None
        assert own[:16].min() > 0.95 > 0.8 > own[16] > 0.2
        assert own[16] + second[16] == pytest.approx(1, abs=0.05)
        assert {int(others[16]), ids[16]} == set(found.community_ids.tolist())


def test_what_another_method_found_has_no_probabilities() -> None:
    halves = np.repeat(np.array([0, 1], np.int32), 8)
    found = detect_remembering(cliques(0, range(8), range(8, 16)), model(), find=lambda *_: halves)
    assert (found.probabilities, found.second_ids, found.second_probabilities) == (None,) * 3
