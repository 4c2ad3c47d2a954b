"""Every planted event is found, none is invented, and what Asur et al. and Greene et al. define as
one is among them (the papers' definitions in brute force; CDlib's are in test_cdlib.py)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import combinations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_icd.core.events import CommunityEvents
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.memory.detect import detect_window
from stream_icd.methods.synthetic.lfr import Drift, LfrSettings, generate_drifting_lfr
from stream_icd.methods.tracking.track import remember, track
from tests.testbed.planted_events import (
    PLANTED,
    Key,
    Score,
    Step,
    found_events,
    overlaid,
    planted_events,
    score_late,
)
from tests.testbed.windows import window

Truth = NDArray[np.int64]
_Change = tuple[Drift, CommunityEvents, CommunityEvents, Truth, Truth]
SEED = 11


@cache
def steps() -> tuple[_Change, ...]:
    """A stream with planted events, tracked: (what was planted, before, after, truths)."""
    recent: tuple[CommunityEvents, ...] = ()
    truth_before, found = np.empty(0, np.int64), []
    stream = generate_drifting_lfr(SEED, 30, LfrSettings(n_nodes=2000), event_rate=0.3)
    for hour, (graph, drift) in enumerate(stream):
        truth = drift.identities[graph.communities]
        after = track(recent, window(hour, graph.communities))
        if recent:
            found.append((drift, recent[-1], after, truth_before, truth))
        recent, truth_before = remember(recent, after), truth
    return tuple(found)


def without(keys: set[Key], identities: set[int]) -> set[Key]:
    return {key for key in keys if not key[1] & identities}


def test_every_planted_event_is_found_and_none_is_invented() -> None:
    score = Score()
    for drift, before, after, truth_before, truth in steps():
        tangled = overlaid(drift)
        planted = without(planted_events(drift), tangled)
        found = without(found_events(before, after, truth_before, truth), tangled)
        assert found == planted
        score.add(planted, found)
    assert all(score.found[kind] >= 5 for kind in PLANTED), "the stream holds plenty of each kind"
    assert score.f1() == 1


def test_identities_stay_as_long_as_the_planted_ones() -> None:
    for _, before, after, truth_before, truth in steps():
        was = dict(zip(truth_before, before.communities, strict=True))
        now = dict(zip(truth, after.communities, strict=True))
        kept = [was[identity] == now[identity] for identity in was.keys() & now.keys()]
        assert np.mean(kept) > 0.9


def members(tracked: CommunityEvents) -> dict[int, set[int]]:
    return {c: set(np.flatnonzero(tracked.communities == c).tolist())
            for c in np.unique(tracked.communities).tolist()}  # fmt: skip


def mergers(
    old: dict[int, set[int]],
    new: dict[int, set[int]],
    takes_part: Callable[[set[int], set[int]], bool],
) -> set[tuple[int, ...]]:
    """(a, b, c) for all a and b that take part in c."""
    return {
        (a, b, c)
        for c, whole in new.items()
        for a, b in combinations([a for a in sorted(old) if takes_part(old[a], whole)], 2)
    }


def asur_mergers(old: dict[int, set[int]], new: dict[int, set[int]]) -> set[tuple[int, ...]]:
    """C_a and C_b merged into C_c, Asur et al. (2007), section 4.1, κ = 50 %."""
    return {
        (a, b, c)
        for a, b, c in mergers(old, new, lambda part, whole: len(part & whole) > len(part) / 2)
        if len((old[a] | old[b]) & new[c]) > 0.5 * max(len(old[a] | old[b]), len(new[c]))
    }


def greene_mergers(old: dict[int, set[int]], new: dict[int, set[int]]) -> set[tuple[int, ...]]:
    """C_c matches the fronts C_a and C_b, Greene et al. (2010), section 3, θ = 0.3."""
    return mergers(old, new, lambda part, whole: len(part & whole) >= 0.3 * len(part | whole))


def pairs_told(tracked: CommunityEvents, kind: str) -> set[tuple[int, ...]]:
    return {
        (*pair, event.community)
        for event in tracked.events
        if event.kind == kind
        for pair in combinations(event.parents or event.children, 2)
    }


def test_mergers_and_splits_are_those_of_asur_et_al_and_of_greene_et_al() -> None:
    n_mergers = n_splits = 0
    for drift, before, after, _, _ in steps():
        old, new = members(before), members(after)
        mergers = asur_mergers(old, new)
        splits = asur_mergers(new, old)  # a split is a merger in reversed time
        n_mergers, n_splits = n_mergers + len(mergers), n_splits + len(splits)
        assert mergers <= pairs_told(after, "merged")
        assert splits <= pairs_told(after, "split")
        mergers |= greene_mergers(old, new)
        splits |= greene_mergers(new, old)
        assert greene_mergers(old, new) <= pairs_told(after, "merged")
        assert greene_mergers(new, old) <= pairs_told(after, "split")
        if not overlaid(drift):
            assert mergers == pairs_told(after, "merged")
            assert splits == pairs_told(after, "split")
    assert min(n_mergers, n_splits) >= 4


def detected() -> tuple[Step, ...]:
    """A stream of graphs, detected with memory and tracked by its ids."""
    n_nodes, mixing = 2000, 0.3
    parameters = BpParameters(n_nodes / 440, mixing, iterations=1)
    settings = LfrSettings(n_nodes=n_nodes, mixing=mixing)
    memory, nodes = None, pa.array(np.arange(n_nodes))
    recent: tuple[CommunityEvents, ...] = ()
    seen = []
    for hour, (graph, drift) in enumerate(generate_drifting_lfr(4, 14, settings, 0.02, 0.3)):
        at = window(hour, graph.communities).window
        found = detect_window(graph.adjacency(), nodes, at, parameters, memory)
        memory = found.memory
        tracked = track(recent, window(hour, found.communities, ids=found.community_ids))
        assert (tracked.communities == found.community_ids[found.communities]).all()
        recent = remember(recent, tracked)
        seen.append(Step(drift, drift.identities[graph.communities], tracked))
    return tuple(seen)


def test_planted_events_are_found_in_graphs() -> None:
    """`benchmarks.tracking_memory` measures it on more streams."""
    score = score_late(detected(), first=4, latest=3)
    found, missed, invented = (
        sum(events.values()) for events in (score.found, score.missed, score.invented)
    )
    assert found >= 5
    assert 2 * found / (2 * found + missed + invented) >= 0.9
    assert score.on_time() >= 0.95
