"""Explanations say where a node or members were and are, and which edges decided, in words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from stream_icd.core.errors import BadSettings
from stream_icd.core.snapshot import Snapshot, snapshot_from_pairs
from stream_icd.methods.memory.changes import moved
from stream_icd.methods.tracking.explain import explain
from stream_icd.methods.tracking.explain_community import CommunityExplanation, explain_community
from tests.streaming.workers.tracked import unbroken, window

BEFORE = np.repeat([0, 1], 10)
AFTER = np.array([0] * 7 + [1] * 13)  # 7, 8 and 9 moved
LATER = np.array([0] * 4 + [1] * 16)
THEN, NOW, NEXT = unbroken(
    [window("g", hour, labels) for hour, labels in enumerate((BEFORE, AFTER, LATER))]
)
TRACKED = [THEN, NOW]


def graph(hour: int, labels: np.ndarray, extra: tuple[tuple[int, int], ...] = ()) -> Snapshot:
    """Two cliques, and some more edges."""
    a, b = np.nonzero(np.triu(labels[:, None] == labels, 1))
    src, dst = [*a.tolist(), *(one for one, _ in extra)], [*b.tolist(), *(one for _, one in extra)]
    at = window("g", hour, labels).window
    return snapshot_from_pairs(src, dst, graph="g", id=f"g/{hour}", window=at)


GRAPHS = [graph(1, AFTER, ((9, 0), (9, 1))), graph(0, BEFORE)]


@pytest.mark.parametrize("node", ["9", 9, np.int64(9), "09"])
def test_where_a_node_was_and_is_and_who_moved_with_it(node: int | str) -> None:
    explanation = explain(node, TRACKED, GRAPHS[:1])
    assert explanation.node == str(node)
    assert (explanation.before, explanation.now) == (0, 1)
    assert explanation.left == THEN.window.end
    assert explanation.companions == ("7", "8")
    assert explanation.choices[0].community == 1
    assert explanation.choices[0].probability > 0.99
    assert explanation.choices[1].edges == 2
    first, then, moved_along, likely, *_, last = explanation.sentences({1: "RU, 12 of 13"})
    there = "community 1 (RU, 12 of 13)"
    assert first == f"Node {node} is in {there} in the window of 2020-01-01 01:00 UTC."
    assert then == "It was in community 0 until 2020-01-01 01:00."
    assert moved_along == "With it moved 2 others."
    assert likely.startswith(f"Probability, given where all others are: {there}: ")
    assert last.endswith("it is worth 1 window.")


def test_the_edges_speak_for_the_communities_of_their_other_ends() -> None:
    explanation = explain("9", TRACKED, GRAPHS[:1])
    assert {edge.to: edge.community for edge in explanation.edges} == {
        **{str(node): 1 for node in range(20) if node in (7, 8) or node >= 10},
        "0": 0,
        "1": 0,
    }
    within, volume, n_edges = 21 + 78, {0: 44, 1: 158}, 101
    mixing = (n_edges - within + 0.5) / (n_edges + 1)
    for edge in explanation.edges:
        rate = np.log2(1 + (1 - mixing) / mixing * 2 * n_edges / volume[edge.community])
        assert edge.bits == pytest.approx(rate)
    # Those for its own community come first, though an edge to a small one says more bits.
    labels, spread = np.repeat([0, 1], [40, 4]), ((39, 40), (39, 41))
    found = explain("39", unbroken([window("g", 0, labels)]), [graph(0, labels, spread)])
    assert [edge.community for edge in found.edges] == [0] * 18 + [1] * 2
    assert found.edges[-1].bits > found.edges[0].bits
    assert "The edge that says most for community 0 is to" in " ".join(found.sentences())


def test_edges_of_older_windows_count_less_or_not_at_all() -> None:
    assert explain("9", TRACKED, GRAPHS) == explain("9", TRACKED, GRAPHS[:1])
    both = explain_community(1, TRACKED, GRAPHS)
    assert both == explain_community(1, TRACKED, GRAPHS[:1])
    explanation = explain("9", TRACKED, GRAPHS, horizon=2)
    weights = {edge.to: edge.weight for edge in explanation.edges}
    assert (weights["8"], weights["0"], weights["2"], weights["15"]) == (1.5, 1.5, 0.5, 1.0)
    assert explanation.reach == GRAPHS[1].window.start
    of_all = explain_community(1, TRACKED, GRAPHS, horizon=2)
    # 45 pairs of both windows; 7, 8 and 9 have been here for one, and were with 0 to 6 before
    assert (of_all.apart.edges_inside, of_all.apart.edges_across) == (78 + 24, 2 + 0.5 * 21)
    assert {link.weight for link in of_all.links} <= {1.5, 1.0, 0.5}
    assert len({(link.one, link.other) for link in of_all.links}) == len(of_all.links)
    assert of_all.reach == GRAPHS[1].window.start


def test_a_node_that_is_not_there_and_one_without_edges_are_said_so() -> None:
    assert list(explain("99", TRACKED, GRAPHS).sentences()) == [
        "Node 99 is not in the window of 2020-01-01 01:00 UTC."
    ]
    lonely = replace(NOW, communities=np.arange(20))
    assert explain("3", [lonely], [graph(1, np.array([0] * 2 + [2] * 18))]).before is None
    pair = snapshot_from_pairs([5], [6], graph="g", id="g/1", window=NOW.window)
    nothing = explain("0", [NOW], [pair])
    assert nothing.edges == ()
    assert "nothing speaks" in list(nothing.sentences())[-1]


def test_graphs_and_horizons_that_would_give_wrong_numbers_are_refused() -> None:
    older_first = "ends at 2020-01-01 02:00 first.*newest first"
    for graphs, horizon, why in (
        ([], 1, "its graph"),
        (GRAPHS[::-1], 2, older_first),
        (GRAPHS[1:], 2, older_first),
        (GRAPHS, 0.5, "horizon=.*at least 1 window"),
        (GRAPHS, float("nan"), "horizon=.*at least 1 window"),
    ):
        for explained in (explain, explain_community):
            with pytest.raises(BadSettings, match=why):
                explained(1, TRACKED, graphs, horizon)


def places(found: CommunityExplanation, when: str) -> list[tuple[int | None, int]]:
    return [(place.community, place.members) for place in getattr(found, when)]


def test_where_members_were_and_go() -> None:
    found = explain_community(1, TRACKED, GRAPHS[:1], after=NEXT)
    assert (found.size, found.size_then, found.still) == (13, 10, 10)
    assert found.since == THEN.window.start
    assert places(found, "before") == [(1, 10), (0, 3)]
    assert places(found, "after") == [(1, 13)]
    left = explain_community(0, TRACKED, GRAPHS[:1], after=NEXT)
    assert places(left, "after") == [(0, 4), (1, 3)]
    first = explain_community(1, [THEN], GRAPHS[1:])
    assert (first.before, first.after) == (None, None)
    words = " ".join(found.sentences({0: "PC, 7 of 7", 1: "MP, 13 of 13"}))
    for part in (
        "Community 1 (MP, 13 of 13) has 13 members in the window of 2020-01-01 01:00 UTC.",
        "with 10 members; 10 of them are in it now.",
        "In the window before, 10 were in it, 3 in community 0 (PC, 7 of 7).",
        "In the window after, all of them are in it.",
        "Nearest to it is community 0 (PC, 7 of 7).",
        " bits fewer with two communities.",
        "Most edges inside have: 7, 8, 9, 10, 11.",
    ):
        assert part in words


def test_the_bits_are_those_of_a_merger_undone_and_each_edge_has_its_part() -> None:
    found = explain_community(1, TRACKED, GRAPHS[:1])
    assert found.apart is not None
    src, dst = GRAPHS[0].edges
    adjacency = csr_array((np.ones(2 * len(src)), (np.r_[src, dst], np.r_[dst, src])), (20, 20))
    as_new = moved(adjacency, AFTER.astype(np.int32), np.array([0, 1]), np.full(20, -1), 1)
    assert as_new.pairs.tolist() == [[-1, 1]]
    assert found.apart.bits == pytest.approx(as_new.bits[0], abs=0.001)
    assert (found.apart.edges_inside, found.apart.edges_across) == (78, 2)
    inside = [link for link in found.links if link.bits > 0]
    against = {(link.one, link.other): link.bits for link in found.links if link.bits < 0}
    assert inside[0].bits == pytest.approx(found.apart.inside / 78)
    assert against == pytest.approx(dict.fromkeys([("0", "9"), ("1", "9")], found.apart.across / 2))
    assert "9" in (inside[0].one, inside[0].other)  # it has the most edges of all
    members = [(member.node, member.inside, member.across) for member in found.members]
    assert members[0] == ("7", 12, 0)
    assert ("9", 12, 2) in members


def test_a_community_that_has_gone_that_never_was_that_is_alone_and_of_one_node() -> None:
    merged = replace(NOW, communities=np.zeros(20, np.int64))
    gone = explain_community(1, [THEN, merged], GRAPHS[:1])
    assert list(gone.sentences()) == [
        "Community 1 is not in the window of 2020-01-01 01:00 UTC.",
        "It was last seen until 2020-01-01 01:00.",
        "Of its members then, all of them are in community 0.",
    ]
    with pytest.raises(BadSettings, match="no window up to .* has community 7"):
        explain_community(7, TRACKED, GRAPHS[:1])
    alone = explain_community(0, [merged], GRAPHS[:1])
    assert alone.apart is None
    assert list(alone.sentences())[-1] == (
        "No edge joins it to another community: nothing speaks against it."
    )
    single = replace(NOW, communities=np.array([*NOW.communities[:-1].tolist(), 7]))
    found = explain_community(7, [THEN, single], GRAPHS[:1])
    assert (found.size, found.members, found.apart is None) == (1, (), False)
    assert "Community 7 has 1 member" in next(iter(found.sentences()))
