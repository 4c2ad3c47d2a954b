"""A community is explained by its members, where they were and went, and the edges between two."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from stream_icd.core.errors import BadSettings
from stream_icd.methods.memory.changes import moved
from stream_icd.methods.tracking.explain_community import (
    ExplainedMember,
    MembersPlace,
    explain_community,
)
from tests.methods.tracking.test_explain import AFTER, BEFORE, graph
from tests.streaming.workers.tracked import unbroken, window

LATER = np.array([0] * 4 + [1] * 16)
BEFORE_ALL, NOW, NEXT = unbroken(
    [window("g", hour, labels) for hour, labels in enumerate((BEFORE, AFTER, LATER))]
)
EXTRA = ((9, 0), (9, 1))
GRAPHS = [graph(1, AFTER, EXTRA), graph(0, BEFORE)]


def test_where_members_were_and_go() -> None:
    found = explain_community(1, [BEFORE_ALL, NOW], GRAPHS[:1], after=NEXT)
    assert (found.size, found.size_then, found.still) == (13, 10, 10)
    assert found.since == BEFORE_ALL.window.start
    assert found.before == (MembersPlace(1, 10), MembersPlace(0, 3))
    assert found.after == (MembersPlace(1, 13),)
    left = explain_community(0, [BEFORE_ALL, NOW], GRAPHS[:1], after=NEXT)
    assert left.after == (MembersPlace(0, 4), MembersPlace(1, 3))
    first = explain_community(1, [BEFORE_ALL], GRAPHS[1:])
    assert (first.before, first.after) == (None, None)


def test_the_bits_are_those_of_a_merger_undone() -> None:
    found = explain_community(1, [BEFORE_ALL, NOW], GRAPHS[:1]).apart
    assert found is not None
    src, dst = GRAPHS[0].edges
    ones = np.ones(2 * len(src))
    adjacency = csr_array((ones, (np.r_[src, dst], np.r_[dst, src])), (20, 20))
    as_new = moved(adjacency, AFTER.astype(np.int32), np.array([0, 1]), np.full(20, -1), 1)
    assert as_new.pairs.tolist() == [[-1, 1]]
    assert found.bits == pytest.approx(as_new.bits[0], abs=0.001)
    assert (found.edges_inside, found.edges_across) == (78, 2)


def test_each_edge_has_its_part_of_the_bits() -> None:
    found = explain_community(1, [BEFORE_ALL, NOW], GRAPHS[:1])
    assert found.apart is not None
    inside = [link for link in found.links if link.bits > 0]
    against = {(link.one, link.other): link.bits for link in found.links if link.bits < 0}
    assert inside[0].bits == pytest.approx(found.apart.inside / 78)
    assert against == pytest.approx(dict.fromkeys([("0", "9"), ("1", "9")], found.apart.across / 2))
    assert inside[0].one == "9" or inside[0].other == "9"  # it has the most edges of all
    assert found.members[0] == ExplainedMember("7", 12, 0)
    assert ExplainedMember("9", 12, 2) in found.members


def test_older_windows_count_less_and_an_edge_of_both_is_one() -> None:
    found = explain_community(1, [BEFORE_ALL, NOW], GRAPHS, horizon=2)
    assert found.apart is not None
    # 45 pairs of both windows; 7, 8 and 9 have been here for one, and were with 0 to 6 before
    assert (found.apart.edges_inside, found.apart.edges_across) == (78 + 24, 2 + 0.5 * 21)
    assert {link.weight for link in found.links} <= {1.5, 1.0, 0.5}
    assert len({(link.one, link.other) for link in found.links}) == len(found.links)
    assert found.reach == GRAPHS[1].window.start


def test_the_words_name_communities_and_say_which_edges_decide() -> None:
    names = {0: "PC, 7 of 7", 1: "MP, 13 of 13"}
    words = list(explain_community(1, [BEFORE_ALL, NOW], GRAPHS[:1], after=NEXT).sentences(names))
    assert words[:4] == [
        "Community 1 (MP, 13 of 13) has 13 members in the window of 2020-01-01 01:00 UTC.",
        "It was there in the window of 2020-01-01 already, with 10 members; 10 of them are "
        "in it now.",
        "In the window before, 10 were in it, 3 in community 0 (PC, 7 of 7).",
        "In the window after, all of them are in it.",
    ]
    assert words[4] == "Nearest to it is community 0 (PC, 7 of 7)."
    assert words[5].startswith("Edges inside either speak for two communities (")
    assert words[6].startswith("So the edges need ")
    assert words[6].endswith(" bits fewer with two communities.")
    assert words[7] == "Most edges inside have: 7, 8, 9, 10, 11."
    assert words[-1].endswith("it is worth 1 window.")


def test_a_community_that_has_gone_that_never_was_and_that_is_alone() -> None:
    merged = replace(NOW, communities=np.zeros(20, np.int64))
    gone = explain_community(1, [BEFORE_ALL, merged], GRAPHS[:1])
    assert list(gone.sentences()) == [
        "Community 1 is not in the window of 2020-01-01 01:00 UTC.",
        "It was last seen until 2020-01-01 01:00.",
        "Of its members then, all of them are in community 0.",
    ]
    with pytest.raises(BadSettings, match="no window up to .* has community 7"):
        explain_community(7, [BEFORE_ALL, NOW], GRAPHS[:1])
    alone = explain_community(0, [merged], GRAPHS[:1])
    assert alone.apart is None
    assert list(alone.sentences())[-1] == (
        "No edge joins it to another community: nothing speaks against it."
    )


def test_a_community_without_an_edge_inside_is_explained() -> None:
    """Such as one of a single node."""
    single = replace(NOW, communities=np.array([*NOW.communities[:-1].tolist(), 7]))
    found = explain_community(7, [BEFORE_ALL, single], GRAPHS[:1])
    assert (found.size, found.members, found.apart is None) == (1, (), False)
    assert "Community 7 has 1 member" in next(iter(found.sentences()))
