"""Edges that come and go: the graph as it stands, at any time and after any restart."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.core.errors import BadRow, BadSettings, LimitExceeded
from stream_icd.core.snapshot import Snapshot
from stream_icd.sources.changes import Change, ChangeColumns, StandingWindows
from stream_icd.sources.tables import rows_of_json
from stream_icd.sources.windows import Quiet
from stream_icd.wire.snapshots import decode_snapshot, encode_snapshot
from tests.sources.reading import weighted

MINUTE = 60_000_000
Edges = dict[tuple[object, ...], float]


def windows(
    last: Snapshot | None = None, *, now: int = 1000 * MINUTE, **options: object
) -> StandingWindows:
    every = timedelta(minutes=1)
    named = {"topic": "edges", "n_streams": 1, "now": lambda: now, **options}
    return StandingWindows(last, "g", every=every, **named)


def add(minute: float, src: str, dst: str | None, weight: float | None = None) -> Change:
    return Change(round(minute * MINUTE), 0, 0, "add", src, dst, weight)


def remove(minute: float, src: str, dst: str | None = None) -> Change:
    return Change(round(minute * MINUTE), 0, 0, "remove", src, dst)


def placed(*changes: Change) -> list[Change]:
    return [dataclasses.replace(change, place=place) for place, change in enumerate(changes)]


def made(*changes: Change, **options: object) -> list[Snapshot]:
    return list(windows(**options).snapshots([placed(*changes)]))


def test_nodes_without_edges_stay_until_they_are_removed_unless_they_are_to_go() -> None:
    changes = (
        add(0, "a", "b"), add(0, "alone", None), add(0, "b", "c"), remove(1, "alone"),
        remove(1, "a", "b"), add(2, "d", None), remove(2, "a"), add(2, "d", "e"), remove(3, "d")
    )  # fmt: skip
    nodes = ["".join(snapshot.nodes.to_pylist()) for snapshot in made(*changes)]
    assert nodes == ["aalonebc", "abc", "bcde", "bce"]
    nodes = ["".join(snapshot.nodes.to_pylist()) for snapshot in made(*changes, isolated=False)]
    assert nodes == ["abc", "bc", "bcde", "bc"]


def add_to(counted: Counter[str], kind: str, n: int) -> None:
    counted[kind] += n


def test_windows_without_a_change_and_without_an_edge() -> None:
    changes = (add(0, "a", "b"), remove(3, "a", "b"), add(5, "a", "c"))
    for only_changed, n_made, expected in (
        (False, 4, {"empty_windows": 2}),  # minutes 0, 1, 2 and 5
        (True, 2, {"empty_windows": 1, "unchanged_windows": 3}),
    ):
        counted = Counter[str]()
        how = {"count": partial(add_to, counted), "only_changed": only_changed}
        assert len(made(*changes, **how)) == n_made
        assert counted == expected


def test_what_comes_late_counts_in_the_next_window() -> None:
    *_, last = made(add(0, "a", "b"), add(2, "b", "c"), add(0.5, "c", "d"))
    assert len(weighted(last)) == 3
    (after,) = windows(last).snapshots([[Change(0, 0, 7, "add", "d", "e")]])
    assert after.window.start == last.window.end
    assert len(weighted(after)) == 4


def test_streams_are_waited_for_unless_they_are_quiet() -> None:
    one = [Change(0, 0, 0, "add", "a", "b"), Change(5 * MINUTE, 0, 1, "add", "a", "c")]
    other = [Change(MINUTE, 1, 0, "add", "b", "c")]
    waiting = windows(n_streams=2, now=20 * MINUTE)
    found = waiting.snapshots(iter([one, other, Quiet(frozenset((1,))), Quiet(frozenset((0, 1)))]))
    assert [len(weighted(snapshot)) for snapshot in found] == [1, 2, 2, 2, 2, *[3] * 15]


def test_a_time_in_the_future_counts_as_now_and_one_long_ago_is_refused() -> None:
    clock = iter([9.5 * MINUTE, 10.5 * MINUTE, 11 * MINUTE])
    early = windows()
    early.now = lambda: round(next(clock))
    (only,) = early.snapshots([placed(add(5000, "a", "b"))])
    assert (only.window.end.hour, only.window.end.minute) == (0, 10)
    far = add(100_003, "b", "c")
    with pytest.raises(LimitExceeded, match="choose a longer --every, or --only-changed"):
        made(add(0, "a", "b"), far, now=10**8 * MINUTE)
    assert len(made(add(0, "a", "b"), far, now=10**8 * MINUTE, only_changed=True)) == 2


NODES = st.sampled_from("abcd")
TIMES, WEIGHTS = st.floats(0, 6), st.none() | st.sampled_from([1.0, 2.0, 0.5])
ADDED = st.builds(add, TIMES, NODES, st.none() | NODES, WEIGHTS)
REMOVED = st.builds(remove, TIMES, NODES, st.none() | NODES)
CHANGES = st.lists(ADDED | ADDED | REMOVED, min_size=6, max_size=30)


def reference(changes: Sequence[Change]) -> tuple[Edges, set[str]]:
    """The graph after changes, the plain way: its edges and nodes."""
    found: Edges = {}
    nodes: set[str] = set()
    for change in changes:
        ends = {change.src} if change.dst is None else {change.src, change.dst}
        if change.op == "add":
            nodes |= ends
            if len(ends) == 2:
                found[tuple(sorted(ends))] = 1.0 if change.weight is None else change.weight
        elif change.dst is None:
            nodes -= ends
            found = {pair: weight for pair, weight in found.items() if change.src not in pair}
        else:
            found.pop(tuple(sorted(ends)), None)
    return found, nodes


def wired(snapshot: Snapshot) -> Snapshot:
    message = encode_snapshot(snapshot)
    return decode_snapshot(message.key, message.value, message.headers)


def run(changes: Sequence[Change], last: Snapshot | None, parts: int) -> Iterator[Snapshot]:
    """The snapshots of what a run reads after the last snapshot, in so many parts."""
    begun = windows(last)
    read = [change for change in changes if change.place >= begun.places.get(0, 0)]
    size = max(1, -(-len(read) // parts))
    batches = [read[at : at + size] for at in range(0, len(read), size)]
    yield from begun.snapshots(batches)


@given(CHANGES, st.integers(1, 4), st.integers(0, 8))
def test_exactly_what_was_added_is_there_also_after_restarts(
    changes: list[Change], parts: int, stopped: int
) -> None:
    ordered = placed(*changes)
    unbroken = list(run(ordered, None, 1))
    first = [wired(snapshot) for snapshot in run(ordered, None, parts)][:stopped]
    continued = [*first, *run(ordered, first[-1] if first else None, parts)]
    assert continued == unbroken
    expected, nodes = reference(ordered)
    if expected:
        assert weighted(unbroken[-1]) == expected
        assert set(unbroken[-1].nodes.to_pylist()) == nodes


def test_a_snapshot_says_the_places_of_its_topic_and_no_other_source_continues_it() -> None:
    topic, other = windows(topic="a.b-c_d"), Change(1, 7, 8, "add", "alone", None)
    (snapshot,) = topic.snapshots([placed(add(0, "a", "b", 2.0)), [other]])
    corrected = dataclasses.replace(snapshot, source=snapshot.source + "#correction=2")
    assert windows(corrected, topic="a.b-c_d").places == {0: 1, 7: 9}
    with pytest.raises(BadSettings, match="give this graph another --graph"):
        windows(dataclasses.replace(snapshot, source="urn:stream_icd:events"))


def test_rows_are_read_and_bad_ones_reported() -> None:
    bad: list[BadRow] = []
    columns = ChangeColumns("t", bad.append, lambda: "auto")
    rows = [
        b'{"op": "add", "src": 1, "dst": 2, "weight": 2, "t": 60}',
        b'{"op": "add", "src": 3, "t": "1970-01-01T00:01:00Z"}',
        b'{"op": "remove", "src": 1, "dst": null, "t": 60}',
        b'{"op": "put", "src": 1, "dst": 2, "t": 60}',
        b'{"op": "add", "src": 1, "dst": 2, "t": "soon"}',
        b'{"op": "add", "src": "", "dst": 2, "t": 60}',
        b'{"op": "add", "src": 1, "dst": "x", "t": 60}',
        b'{"op": "add", "src": 1, "dst": 2, "weight": -1, "t": 60}',
        b'{"src": 1, "dst": 2, "t": 60}',
    ]
    batch = rows_of_json("edges[0]", list(enumerate(rows)), columns.names, bad.append, 0,
                         ("dst", "weight"))  # fmt: skip
    columns._ids = columns._ids.__class__("integer")
    found = columns.read(batch)
    assert [dataclasses.replace(change, time=0) for change in found] == [
        Change(0, 0, 0, "add", 1, 2, 2.0),
        Change(0, 0, 1, "add", 3, None),
        Change(0, 0, 2, "remove", 1, None),
    ]
    assert {change.time for change in found} == {MINUTE}
    reasons = ["is not an object", "op 'put'", "is not a time", "src is empty", "dst is", "weight"]
    assert all(any(reason in str(error) for error in bad) for reason in reasons)
    assert len(bad) == 6
