"""Rules of alerts, which alerts windows give, how long events must last, and words for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.core.errors import BadSettings
from stream_icd.core.events import EVENT_KINDS, CommunityEvent, CommunityEvents
from stream_icd.methods.tracking.alerts import Alerting
from stream_icd.methods.tracking.confirmation import (
    STEPS,
    FollowedEvents,
    confirmed,
    followed,
    still_hold,
)
from stream_icd.methods.tracking.rules import MOVED, NUMBERS, Rule, Subject
from stream_icd.methods.tracking.sentences import certainty, sentence, told, without_consequences
from stream_icd.wire.alerts import Alert
from tests.streaming.workers.tracked import START, unbroken, window
from tests.testbed.windows import HOUR

CONDITIONS = (*EVENT_KINDS, MOVED, *NUMBERS, "graph", "name", "community", "node")
SIGNS = ("<", "<=", ">", ">=", "=", "!=", "and", "or", "not", "(", ")", "7", "'")
MOST_WORDS = 200
FILES = {"watch.csv": frozenset(("7", "x")), "my nodes.txt": frozenset(("8",))}


def parse(text: str):
    return Rule.parse(text, FILES.__getitem__)


def subject(kind: str = "merged", nodes: tuple[str, ...] = (), **numbers: float | None) -> Subject:
    return Subject(
        graph="as733",
        kind=kind,
        communities=(12, 3),
        numbers={"size": 60, **numbers},
        name="mostly RU, UA",
        among=lambda sought: not sought.isdisjoint(nodes),
    )


@pytest.mark.parametrize(
    ("rule", "fires"),
    [
        ("merged and bits >= 20 and size >= 50", True),
        ("merged and bits > 25", False),
        ("split or born and merged", False),
        ("(split or merged) and size=60", True),
        ("size < 60 or size > 60 or size != 60", False),
        ("size <= 60 and size >= 60", True),
        ("merged and not (split or size < 9) and (bits > 99 or graph = as733)", True),
        ("overlap < 1", False),  # not known
        ("not overlap < 1", True),
        ("community = 3 and not community != 3", True),
        ("graph != 'as733'", False),
        ('graph contains "73"', True),
        ("name contains UA and not name = UA", True),
        ("node in watch.csv", True),
        ('node in "my nodes.txt"', False),
        ("node = 7 and not node != 7", True),
        ("bits>=2.5e1", True),
    ],
)
def test_what_rules_mean(rule: str, fires: bool) -> None:
    assert parse(rule).fires(subject(nodes=("7",), bits=25.0)) is fires


def test_a_rule_that_asks_for_nodes_that_moved_and_one_without_end() -> None:
    rule = parse("node in watch.csv and moved")
    assert rule.moves
    assert rule.fires(subject(MOVED, ("x",)))
    assert not rule.fires(subject(MOVED, ("y",)))
    assert not rule.fires(subject("merged", ("x",)))
    assert not parse("merged").moves
    with pytest.raises(KeyError):  # as the file is read
        parse("node in other.csv")
    deepest = (MOST_WORDS - 1) // 2
    assert parse("(" * deepest + "merged" + ")" * deepest).fires(subject())
    assert parse("not " * (MOST_WORDS - 2) + "merged").fires(subject())
    with pytest.raises(BadSettings, match=f"at most {MOST_WORDS} words"):
        parse("not " * MOST_WORDS + "merged")


@pytest.mark.parametrize(
    ("rule", "reason", "word"),
    [
        ("merged and bitz >= 20", "'bitz' is no kind of event and no field; did you", "bitz"),
        ("bits >= many", "bits is compared with a number, not 'many'", "many"),
        ("bits >= '20'", "bits is compared with a number", "'20'"),
        ("bits >= nan", "bits is compared with a number", "nan"),
        ("bits merged", "compare bits with <", "merged"),
        ("merged bits > 1", "expected and, or, or the end, not 'bits'", "bits"),
        ("size < 3 and (merged or split", "the rule ends, expected a closing bracket", ""),
        ("(merged size > 3)", "expected ) here", "size"),
        ("merged and", "the rule ends, expected a condition", ""),
        ("community = x", "'x' is no id of a community", "x"),
        ("community < 3", "compare a community with = !=", "<"),
        ("node watch.csv", "after node, expected in = !=", "watch.csv"),
        ("moved and size > 3", "say which nodes", "moved"),
        ("graph > a", "compare graph with = != contains", ">"),
        ("graph = 'as", '"\'" is not expected here', "'"),
        ("merged and 'split'", "'split' is no kind of event", "'split'"),
    ],
)
def test_errors_point_at_the_word(rule: str, reason: str, word: str) -> None:
    with pytest.raises(BadSettings) as error:
        parse(rule)
    said, shown, mark = str(error.value).split("\n")
    assert reason in said
    assert shown == rule
    start = mark.index("^")
    assert mark[start:] == "^" * max(len(word), 1)
    assert rule[start:] == "" if not word else rule[start : start + len(word)] == word


@given(st.lists(st.sampled_from([*CONDITIONS, *SIGNS])) | st.text())
def test_any_text_is_a_rule_or_an_error_that_shows_where(words: list[str] | str) -> None:
    text = words if isinstance(words, str) else " ".join(words)
    try:
        rule = Rule.parse(text, lambda _: frozenset())
    except BadSettings as error:
        said = str(error)
    else:
        assert rule.fires(subject(bits=1.0)) in (True, False)
        return
    assert said.count("\n") == 2
    assert said.rsplit("\n", 1)[1].strip().strip("^") == ""


A, B, C = [0] * 10, [1] * 10, [2] * 10
APART, MERGED = [*A, *B, *C], [*A, *A, *C]
WATCHED = frozenset(("25", "99"))


def tracked(*labels: Sequence[int], graph: str = "g") -> list[CommunityEvents]:
    return unbroken(window(graph, hour, found) for hour, found in enumerate(labels))


def alerting(*rules: str, lasting: int = 0) -> Alerting:
    return Alerting([Rule.parse(rule, lambda _: WATCHED) for rule in rules], lasting, "desk")


def alerts(alerting: Alerting, windows: Sequence[CommunityEvents]) -> list[list[Alert]]:
    """The alerts of each window, as a worker gets them."""
    return [
        list(alerting.alerts(windows[max(end - alerting.windows, 0) : end]))
        for end in range(1, len(windows) + 1)
    ]


def test_a_merger_is_told_with_what_happened() -> None:
    rules = "merged and size >= 20", "size > 5 and not split"
    first, (alert,) = alerts(alerting(*rules), tracked(APART, MERGED))
    assert first == []
    assert alert.event == "merged"
    assert (alert.size, alert.group, alert.graph, alert.snapshot_id) == (20, "desk", "g", "g/1")
    assert alert.rules == ("merged and size >= 20", "size > 5 and not split")
    assert alert.text == "community 1 (10 nodes) joined community 0"
    assert sorted(alert.parents) == [0, 1]
    ((other,),) = alerts(alerting("merged or born"), tracked(APART, MERGED))[1:]
    assert other.id == alert.id  # it names the event, whatever rule fired


def test_the_first_window_has_no_alerts_and_births_that_a_split_causes_are_none() -> None:
    found = alerts(alerting("born or split"), tracked(MERGED, APART))
    assert [[alert.event for alert in of] for of in found] == [[], ["split"]]
    ((merger,),) = alerts(alerting("merged"), tracked(APART, MERGED))[1:]
    assert found[1][0].id != merger.id


def test_strength_and_names_are_in_the_words() -> None:
    before, now = tracked(APART, MERGED)
    events = tuple(replace(event, bits=31.4, name="mostly RU") for event in now.events)
    (alert,) = alerting("bits > 31 and size < 99").alerts([before, replace(now, events=events)])
    assert (alert.bits, alert.name) == (31.4, "mostly RU")
    assert alert.text == "community 1 (10 nodes) joined community 0 (mostly RU) (31 bits)"


def test_confirmed_events_come_once_they_have_held() -> None:
    lasted, undone = (
        alerts(alerting("merged", lasting=2), tracked(APART, MERGED, MERGED, last))
        for last in (MERGED, APART)
    )
    assert lasted[:3] == [[], [], []]
    ((alert,),) = lasted[3:]
    assert (alert.event, alert.snapshot_id, alert.confirmed) == ("merged", "g/1", 2)
    assert undone == [[], [], [], []]


def test_a_watched_node_that_moves() -> None:
    moved = [*A, *B, *C[:5], 0, *C[6:]]  # node 25
    (alert,) = alerts(alerting("node in watch.csv and moved"), tracked(APART, moved))[1]
    assert (alert.event, alert.node) == ("moved", "25")
    assert (alert.community_before, alert.community) == (2, 0)
    assert alert.text == "25 moved from community 2 to community 0"
    assert (alert.size, alert.size_before) == (11, 10)
    assert alerts(alerting("node = 26 and moved"), tracked(APART, moved)) == [[], []]
    confirmed = alerting("node = 25 and moved", lasting=1)
    assert alerts(confirmed, tracked(APART, moved, APART)) == [[], [], []]
    assert [len(of) for of in alerts(confirmed, tracked(APART, moved, moved))] == [0, 0, 1]


def test_events_of_communities_with_a_watched_node() -> None:
    split = [*A, *B, *C[:5], *[3] * 5]
    found = alerts(alerting("node in watch.csv and not continued"), tracked(APART, split, split))
    assert {alert.event for alert in found[1]} == {"split"}
    assert found[2] == []
    assert alerts(alerting("node = 25"), tracked(APART, APART)) == [[], []]
    assert len(alerts(alerting("node = 25 and continued"), tracked(APART, APART))[1]) == 1
    assert alerts(alerting("node = 3 and split"), tracked(APART, split)) == [[], []]


PARTS, TOGETHER = [0] * 10 + [1] * 8, [0] * 18


def kinds(windows: Sequence[CommunityEvents], lasting: int) -> list[set[str]]:
    return [
        {event.kind for event in events.events if event.kind in ("merged", "split")}
        for events in confirmed(windows, lasting)
    ]


def test_events_that_last_are_confirmed_that_many_windows_later_and_others_are_not() -> None:
    windows = tracked(PARTS, PARTS, TOGETHER, TOGETHER, TOGETHER)
    assert kinds(windows, 2) == [set(), set(), {"merged"}]
    assert [events.snapshot_id for events in confirmed(windows, 2)] == ["g/0", "g/1", "g/2"]
    windows = tracked(PARTS, PARTS, TOGETHER, PARTS, PARTS, PARTS)
    assert kinds(windows, 2) == [set(), set(), set(), {"split"}]
    assert kinds(windows[:4], 1) == [set(), set(), set()]
    windows = tracked(TOGETHER, TOGETHER, PARTS, PARTS, TOGETHER, TOGETHER)
    assert {"split"} in kinds(windows, 1)
    assert {"split"} not in kinds(windows, 2)
    third, larger = [*PARTS, *[2] * 6], [*PARTS, 0, 0]
    for kind, before, now in (
        ("born", PARTS, third), ("died", third, PARTS),
        ("grown", PARTS, larger), ("shrunk", larger, PARTS),
    ):  # fmt: skip
        first, changed, undone = tracked(before, now, before)
        held = zip(changed.events, still_hold(changed.events, first, changed, undone), strict=True)
        assert {event.kind: holds for event, holds in held} == {"continued": True, kind: False}
        assert all(still_hold(changed.events, first, changed, changed))
    # A merger of unknown parts holds while its community exists.
    _, merged, gone = tracked(PARTS, TOGETHER, [*range(18)])
    holds = [still_hold(merged.events, None, merged, later) for later in (merged, gone)]
    assert holds == [[True], [False]]


def late_window(window: CommunityEvents) -> CommunityEvents:
    nothing = {"nodes": window.nodes.slice(0, 0), "communities": np.empty(0, np.int64)}
    return replace(window, **nothing, events=(), late=True)


def test_graphs_are_confirmed_each_for_itself_and_late_windows_are_left_out() -> None:
    one, other = (tracked(PARTS, TOGETHER, TOGETHER, graph=graph) for graph in ("a", "b"))
    mixed = [window for pair in zip(one, other, strict=True) for window in pair]
    found = list(confirmed([*mixed[:3], late_window(one[0]), *mixed[3:]], 1))
    assert [each.snapshot_id for each in found] == ["a/0", "b/0", "a/1", "b/1"]


def test_a_revision_takes_the_place_of_the_window_that_it_corrects() -> None:
    first, wrong, third = tracked(PARTS, TOGETHER, TOGETHER)
    (_, right) = tracked(PARTS, PARTS)
    assert kinds([first, wrong, third], 1) == [set(), {"merged"}]
    assert kinds([first, wrong, right, third], 1) == [set(), set()]
    for waiting in (0, 9):  # all are told to those who follow
        seen = list(followed([first, wrong, right, late_window(first), third], waiting))
        assert [one.late for one in seen] == [False, False, False, True, False]
        assert [one.events for one in seen[1:3]] == [wrong.events, right.events]
        assert seen[2].before.snapshot_id == "g/0"


def lasted(told: Sequence[FollowedEvents], kind: str) -> list[tuple[int, bool]]:
    """The hours for which events of a kind lasted, and whether they were undone."""
    known = [(event, last) for one in told for event, last in one.lasted.items()]
    return [(last.time // HOUR, last.undone) for event, last in known if event.kind == kind]


def test_windows_that_wait_tell_how_long_their_events_have_lasted() -> None:
    windows = tracked(PARTS, TOGETHER, TOGETHER, TOGETHER, PARTS, PARTS)
    told = list(followed(windows, len(windows)))
    assert [one.snapshot_id for one in told] == [f"g/{hour}" for hour in range(6)]
    assert lasted(told, "merged") == [(2, True)]
    assert lasted(told, "split") == [(1, False)]
    long = list(followed(tracked(PARTS, *[TOGETHER] * 9), 20))  # known as of the last step
    assert lasted(long, "merged") == [(max(step for step in STEPS if step < 9), False)]
    at_once = list(followed(windows, 0))
    assert [one.events for one in at_once] == [one.events for one in windows]
    assert not any(one.lasted for one in at_once)
    for found in (told, at_once):
        before = [one.before and one.before.snapshot_id for one in found]
        assert before == [None, "g/0", "g/1", "g/2", "g/3", "g/4"]


def test_names_of_the_tracker_are_those_of_both_windows() -> None:
    def given(window: CommunityEvents, name: str) -> CommunityEvents:
        named = (replace(event, name=f"{name} {event.community}") for event in window.events)
        return replace(window, events=tuple(named))

    before, after = tracked(PARTS, TOGETHER)
    (_, told) = followed([given(before, "early"), given(after, "late")], 0)
    assert told.names == {0: "late 0", 1: "early 1"}
    assert before.names_given() == {}


NAMES = {3: "DE, GB, IT · 3", 17: "GB · 17"}
SPLIT = CommunityEvent("split", 3, 0, 28, 34, children=(3, 17), bits=16.4)
BIRTH = CommunityEvent("born", 17, 1, 6, 0, parents=(3,), bits=16.4)
OTHER = CommunityEvent("born", 18, 2, 5, 0)


def in_words(event: CommunityEvent) -> str:
    sizes = {17: 6, 4: 1}
    before, now = (sizes, {}) if event.kind == "merged" else ({}, sizes)
    return sentence(event, lambda one: NAMES.get(one, f"community {one}"), before, now)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (SPLIT, "GB · 17 (6 nodes) left DE, GB, IT · 3"),
        (CommunityEvent("split", 3, None, 0, 34, children=(4, 17)),
         "DE, GB, IT · 3 fell apart into community 4 (1 node) and GB · 17 (6 nodes)"),
        (CommunityEvent("merged", 3, 0, 34, 28, parents=(3, 17)),
         "GB · 17 (6 nodes) joined DE, GB, IT · 3"),
        (CommunityEvent("merged", 5, 0, 9, 0, parents=(1, 2)),
         "community 1 and community 2 became community 5"),
        (OTHER, "community 18 is new, with 5 nodes"),
        (CommunityEvent("returned", 17, 0, 6, 7, away=2), "GB · 17 is back, with 6 nodes"),
        (CommunityEvent("died", 17, None, 0, 6), "GB · 17 ended; it had 6 nodes"),
        (CommunityEvent("shrunk", 17, 0, 4, 6), "GB · 17 shrank from 6 to 4 nodes"),
        (CommunityEvent("continued", 17, 0, 1, 1), "GB · 17 continues, with 1 node"),
    ],
)  # fmt: skip
def test_an_event_is_a_sentence(event: CommunityEvent, said: str) -> None:
    assert in_words(event) == said


def test_it_is_said_how_strong_an_event_is_and_how_long_it_lasted() -> None:
    month, nothing = timedelta(days=31), timedelta()
    assert certainty(SPLIT, month, undone=False) == "16 bits; still apart 31 days later"
    assert certainty(SPLIT, month, undone=True) == "16 bits; undone after 31 days"
    assert certainty(OTHER, nothing, undone=False) == ""
    assert certainty(OTHER, nothing, undone=True) == "gone in the next window"
    assert certainty(OTHER, month, undone=True) == "there for 31 days"


def test_a_split_and_the_birth_that_it_causes_are_one_event() -> None:
    assert without_consequences([SPLIT, BIRTH, OTHER]) == [SPLIT, OTHER]
    merged = CommunityEvent("merged", 17, 0, 9, 0, parents=(1, 2))
    assert without_consequences([BIRTH, merged]) == [merged]


def test_windows_of_seconds_are_told_apart() -> None:
    times = [told(START + timedelta(hours=hours)) for hours in (0, 1, 1 / 120, 1 / 7200)]
    assert times[:2] == ["2020-01-01", "2020-01-01 01:00"]
    assert times[2:] == ["2020-01-01 00:00:30", "2020-01-01 00:00:00.500000"]
