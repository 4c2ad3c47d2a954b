"""An explanation says where a node was and is, and which edges decided."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from stream_icd.core.errors import BadSettings
from stream_icd.core.snapshot import Snapshot, snapshot_from_pairs
from stream_icd.methods.tracking.explain import explain, told
from stream_icd.methods.tracking.explain_community import explain_community
from tests.streaming.workers.tracked import unbroken, window

BEFORE = np.repeat([0, 1], 10)
AFTER = np.array([0] * 7 + [1] * 13)  # 7, 8 and 9 moved


def graph(hour: int, labels: np.ndarray, extra: tuple[tuple[int, int], ...] = ()) -> Snapshot:
    """Two cliques, and some more edges."""
    a, b = np.nonzero(np.triu(labels[:, None] == labels, 1))
    src, dst = [*a.tolist(), *(one for one, _ in extra)], [*b.tolist(), *(one for _, one in extra)]
    at = window("g", hour, labels).window
    return snapshot_from_pairs(src, dst, graph="g", id=f"g/{hour}", window=at)


TRACKED = unbroken([window("g", 0, BEFORE), window("g", 1, AFTER)])
GRAPHS = [graph(1, AFTER, ((9, 0), (9, 1))), graph(0, BEFORE)]


def test_where_a_node_was_and_is_and_who_moved_with_it() -> None:
    explanation = explain("9", TRACKED, GRAPHS[:1])
    assert (explanation.before, explanation.now) == (0, 1)
    assert explanation.left == TRACKED[0].window.end
    assert explanation.companions == ("7", "8")
    assert explanation.choices[0].community == 1
    assert explanation.choices[0].probability > 0.99
    assert explanation.choices[1].edges == 2


@pytest.mark.parametrize("node", [9, np.int64(9), "09"])
def test_an_integer_id_may_be_given_in_any_form(node: int | str) -> None:
    explanation = explain(node, TRACKED, GRAPHS[:1])
    assert explanation == replace(explain("9", TRACKED, GRAPHS[:1]), node=str(node))


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


def test_edges_for_its_own_community_come_first_however_much_others_say() -> None:
    """An edge to a small community says more bits than one to a large one."""
    labels = np.repeat([0, 1], [40, 4])
    spread = ((39, 40), (39, 41))
    (tracked,) = unbroken([window("g", 0, labels)])
    found = explain("39", [tracked], [graph(0, labels, spread)])
    assert [edge.community for edge in found.edges] == [0] * 18 + [1] * 2
    assert found.edges[-1].bits > found.edges[0].bits
    said = " ".join(found.sentences())
    assert "Its edges to community 0 weigh" in said
    assert "The edge that says most for community 0 is to" in said


def test_graphs_that_do_not_count_are_not_said_to() -> None:
    assert explain("9", TRACKED, GRAPHS) == explain("9", TRACKED, GRAPHS[:1])
    both = explain_community(1, TRACKED, GRAPHS)
    assert both == explain_community(1, TRACKED, GRAPHS[:1])


def test_edges_of_older_windows_count_less() -> None:
    explanation = explain("9", TRACKED, GRAPHS, horizon=2)
    weights = {edge.to: edge.weight for edge in explanation.edges}
    assert (weights["8"], weights["0"], weights["2"], weights["15"]) == (1.5, 1.5, 0.5, 1.0)
    assert explanation.reach == GRAPHS[1].window.start


def test_the_words_name_communities_and_probabilities() -> None:
    words = list(explain("9", TRACKED, GRAPHS[:1]).sentences({1: "RU, 12 of 13"}))
    assert (
        words[0] == "Node 9 is in community 1 (RU, 12 of 13) in the window of 2020-01-01 01:00 UTC."
    )
    assert words[1] == "It was in community 0 until 2020-01-01 01:00."
    assert words[2] == "With it moved 2 others."
    assert words[3].startswith(
        "Probability, given where all others are: community 1 (RU, 12 of 13): "
    )
    assert words[-1].endswith("it is worth 1 window.")


def test_a_node_that_is_not_there_and_one_without_edges_are_said_so() -> None:
    assert list(explain("99", TRACKED, GRAPHS).sentences()) == [
        "Node 99 is not in the window of 2020-01-01 01:00 UTC."
    ]
    lonely = replace(TRACKED[1], communities=np.arange(20))
    alone = explain("3", [lonely], [graph(1, np.array([0] * 2 + [2] * 18))][:1])
    assert alone.before is None
    nothing = explain("0", [TRACKED[1]], [snapshot_from_pairs(
        [5], [6], graph="g", id="g/1", window=TRACKED[1].window)])  # fmt: skip
    assert nothing.edges == ()
    assert "nothing speaks" in list(nothing.sentences())[-1]


def test_without_a_graph_there_is_nothing_to_explain() -> None:
    with pytest.raises(BadSettings, match="its graph"):
        explain("1", TRACKED, [])


def test_graphs_and_horizons_that_would_give_wrong_numbers_are_refused() -> None:
    for graphs in (GRAPHS[::-1], GRAPHS[1:]):
        with pytest.raises(BadSettings, match="ends at 2020-01-01 02:00 first.*newest first"):
            explain("9", TRACKED, graphs, horizon=2)
    for horizon in (0, 0.5, float("nan")):
        with pytest.raises(BadSettings, match="horizon=.*at least 1 window"):
            explain("9", TRACKED, GRAPHS, horizon)


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (datetime(2020, 1, 1, 1, tzinfo=UTC), "2020-01-01 01:00"),
        (datetime(2020, 1, 1, 1, 0, 30, tzinfo=UTC), "2020-01-01 01:00:30"),
        (datetime(2020, 1, 1, 1, 0, 0, 500_000, tzinfo=UTC), "2020-01-01 01:00:00.500000"),
    ],
)
def test_windows_of_seconds_are_told_apart(time: datetime, text: str) -> None:
    assert told(time) == text
