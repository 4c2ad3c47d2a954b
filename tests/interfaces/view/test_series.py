"""Stable ids are the tracker's own, memory is bounded, late windows are as in tracking."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from stream_icd.core.communities import Labels
from stream_icd.core.lineage import Gate
from stream_icd.interfaces.view.data.all_series import AllSeries, PageBudget
from stream_icd.interfaces.view.data.kept import KeptValues
from stream_icd.interfaces.view.panels.queries import NothingSeen
from stream_icd.methods.tracking.packed import unpacked
from stream_icd.wire.announcements import Announcement
from tests.interfaces.view.windows import (
    ORIGIN,
    drifting,
    letter,
    name,
    queries,
    seen,
    tracked_elsewhere,
)
from tests.testbed.windows import START, follow, window


def ids_of(everything: AllSeries) -> list[list[int]]:
    return [unpacked(one.members)[1].tolist() for one in everything.windows(name(), 100)]


def test_ids_and_events_are_those_that_a_tracker_gives() -> None:
    everything = seen(12)
    days = follow(window(hour, labels) for hour, labels in enumerate(drifting(12)))
    assert ids_of(everything) == [day.communities.tolist() for day in days]
    assert [one.events for one in everything.windows(name(), 100)] == [day.events for day in days]


@pytest.mark.parametrize("first", ["events", "results", "alternately", "until it stopped"])
def test_what_a_tracker_published_is_used_whenever_it_comes(first: str) -> None:
    found, days = tracked_elsewhere(5)
    everything = AllSeries()
    take = [lambda day=day: everything.add_events(day.identity(), lambda: day) for day in days]
    add = [lambda one=one: everything.add(one, ORIGIN) for one in found]
    steps = {
        "events": take + add,
        "results": add + take,
        "alternately": [step for pair in zip(add, take, strict=True) for step in pair],
        "until it stopped": take[:3] + add,
    }
    for step in steps[first]:
        step()
    assert ids_of(everything) == [day.communities.tolist() for day in days]


def test_a_revision_of_the_newest_window_replaces_it_and_a_late_window_is_counted() -> None:
    everything = seen(3)
    revised = replace(window(2, [0, 0, 1]), revision="again")
    assert everything.add(revised, ORIGIN) is not None
    assert [one.number for one in everything.windows(name(), 10)] == [0, 1, 2]
    assert everything.windows(name(), 10)[-1].n_nodes == 3
    assert everything.add(window(0, [0, 1]), ORIGIN) is None
    (summary,) = everything.summaries()
    assert (summary.kept, summary.late) == (3, 1)
    seen([[0, 0, 1]], first=6, to=everything)
    missed = [one.tracking.missed for one in everything.windows(name(), 10)]
    assert missed == [0, 0, 0, 3], "missing windows are told"


def test_another_model_continues_the_series_and_the_change_is_known() -> None:
    everything = AllSeries()
    for hour, model in enumerate(("gn", "gn", "retrained@1", "retrained@2", "gn")):
        seen([[0, 1]], model=model, first=hour, to=everything)
    assert [summary.name for summary in everything.summaries()] == [name()]
    before = [one.tracking.model_before for one in everything.windows(name(), 9)]
    assert before == [None, None, "gn", "retrained@1", "retrained@2"]
    again = window(0, [0, 0], model="gn", revision="again")
    assert everything.add(again, ORIGIN) is None, "a correction by the model before is late"
    (summary,) = everything.summaries()
    assert summary.models == ("gn", "retrained@1", "retrained@2")
    assert (summary.kept, summary.late) == (5, 1)


def both(one: str, other: str) -> list[tuple[str, ...]]:
    """Results of two models in four windows: which of them is first changes."""
    return [(one, other), (other, one)] * 2


def later(*swapped: int) -> list[tuple[str, ...]]:
    """A second model comes after five windows; it is first in some of the others."""
    return [("old",)] * 5 + [
        ("new", "old") if hour in swapped else ("old", "new") for hour in range(5, 9)
    ]


@pytest.mark.parametrize(
    ("results", "series"),
    [
        *(
            (both(first, second), {"": [first] * 4, second: [second] * 4})
            for first, second in (("as@2", "as@1"), ("y@1", "x"))
        ),
        *((later(*swapped), {"": ["old"] * 9, "new": ["new"] * 4}) for swapped in ((), (5, 6, 7))),
        (
            [("old", "new@1")] * 2 + [("old", "new@2")] * 2,
            {"": ["old"] * 4, "new@1": ["new@1"] * 2 + ["new@2"] * 2},
        ),
    ],
)
def test_two_models_at_work_at_once_have_a_series_each(
    results: list[tuple[str, ...]], series: dict[str, list[str]]
) -> None:
    """A second model that comes later takes nothing over, and its new version continues it."""
    everything = AllSeries()
    for hour, models in enumerate(results):
        for model in models:
            everything.add(window(hour, [0, 1], model=model), ORIGIN)
    assert series == {
        summary.name.model: [w.result.model for w in everything.windows(summary.name, 99)]
        for summary in everything.summaries()
    }
    numbers = [one.number for one in everything.windows(name(), 99)]
    assert numbers == list(range(len(results)))
    assert everything.bytes_held == held(everything)


def held(everything: AllSeries) -> int:
    names = [summary.name for summary in everything.summaries()]
    return sum(one.bytes_held for name in names for one in everything.windows(name, 99))


def test_graphs_without_windows_are_forgotten_and_questions_find_theirs_at_once() -> None:
    everything, one = AllSeries(PageBudget(windows=3000)), window(0, [0, 1])
    for graph in range(4000):
        everything.add(replace(one, graph=f"graph {graph}"), ORIGIN)
    assert len(everything.summaries(most=4000)) == len(everything.index) == 3000
    asked = queries(everything)
    began = time.process_time()
    for graph in range(1000, 4000):
        assert asked.version({"graph": f"graph {graph}"})
        assert asked.life({"graph": f"graph {graph}", "origin": ORIGIN})
        assert asked.version({})
    assert time.process_time() - began < 3, "each question walks all series"
    with pytest.raises(NothingSeen):
        asked.life({"graph": "graph 7"})


def test_a_graph_that_was_dropped_is_another_one_when_it_comes_again() -> None:
    """It gets new numbers and ids, and no answer of before is given for it."""
    everything = AllSeries(PageBudget(windows=1))
    versions, windows = [], []
    for hour in range(4):
        seen([[0, 1]], "rare", first=hour, to=everything)
        versions.append(everything.index.version_of(name("rare")))
        windows.append(everything.window(name("rare")))
        seen([[0, 1]], "often", first=hour, to=everything)
        assert everything.index.version_of(name("rare")) == -1
    assert len(set(versions)) == 4
    assert [(one.number, one.ids.min()) for one in windows if one] == [(n, 2 * n) for n in range(4)]


def test_what_waits_for_results_is_bounded_with_its_names() -> None:
    everything = AllSeries(PageBudget(waiting_bytes=100_000))
    found = window(0, [0, 0, 1, 1])
    for number in range(1000):
        truth = Labels("g" * 1000, f"g/{number}", found.window, found.nodes, found.labels)
        everything.know(truth)
        everything.add_events(("g", f"g/{number}", "m", ""), lambda: None, 2000)
    assert 20 < len(everything._truth) < 100
    assert 20 < len(everything._early_events) <= 50


def test_decisions_and_dead_letters_are_noted_once_and_in_short() -> None:
    everything, long = AllSeries(), "x" * 10**6
    gate = Gate(long, long, START, START, 1, passed=True, reason=long)
    first = Announcement("promoted", long, long, long, START, long, long, generation=1, gate=gate)
    second = replace(first, reason="two", generation=2)
    for announcement in (first, second, first):
        everything.announce(announcement)
    kept, other = everything.announcements()
    assert len(repr(kept)) < 3000
    assert kept.version == f"{'x' * 499}…"
    assert other.reason == "two", "one that is announced again keeps its place"
    for offset in (1, 1, 2):
        everything.bury(letter(long, offset, message=long))
    n_letters, letters = everything.dead_letters()
    assert n_letters == 2
    assert len(repr(letters)) < 2000


def test_what_is_used_least_lately_is_dropped_first() -> None:
    kept = KeptValues[str, int](10)
    for key, size in (("a", 3), ("b", 3), ("c", 3)):
        assert kept.put(key, size, size) == 3
    assert kept.get("a") == 3
    kept.put("d", 4, 4)  # "b" has been used least lately
    assert kept.values() == [3, 3, 4]
    kept.put("a", 5, 5)  # in its place, not beside it
    assert (kept.values(), "c" in kept) == ([4, 5], False)
    kept.put("e", 11, 11)
    assert len(kept) == 0  # nothing that is larger than all that may be kept


@pytest.mark.parametrize("budget", [PageBudget(windows=10), PageBudget(bytes=30_000)])
def test_the_oldest_windows_of_all_series_are_dropped(budget: PageBudget) -> None:
    everything = AllSeries(budget)
    for hour, labels in enumerate(drifting(23)):
        for graph in ("a", "b"):
            seen([labels], graph, first=hour, to=everything)
    kept = [summary.kept for summary in everything.summaries()]
    assert max(kept) - min(kept) <= 1
    assert sum(kept) <= 10
    assert held(everything) == everything.bytes_held <= max(budget.bytes, 0)
    assert everything.window(name(graph="b")).number == 22


@pytest.mark.parametrize("read_later", [False, True])
def test_a_graph_that_begins_anew_may_go_back_in_time(read_later: bool) -> None:
    """Who reads it later has all events, with the record that began it anew, before the results."""
    before = [window(hour, labels) for hour, labels in enumerate(drifting(3), start=50)]
    after = [window(hour, labels) for hour, labels in enumerate(drifting(4))]
    everything = AllSeries()
    for windows in (before, after):
        if windows is after:
            everything.begin_anew("g")
        for tracked, communities in zip(follow(windows), windows, strict=True):
            if read_later:
                everything.add_events(tracked.identity(), lambda tracked=tracked: tracked)
            else:
                everything.add(communities, ORIGIN)
    if read_later:
        for communities in (*before, *after):
            everything.add(communities, ORIGIN)
    seen_windows = everything.windows(name(), 10)
    assert [one.number for one in seen_windows] == list(range(7))
    ends = [one.result.window.end for one in seen_windows]
    assert ends == [one.window.end for one in (*before, *after)]
    if not read_later:  # a tracker begins with id 0 again
        assert seen_windows[3].ids.min() > seen_windows[2].ids.max()
