"""Every planted event is found, none is invented, and what Asur et al. and Greene et al. define as
one is among them (the papers' definitions in brute force; CDlib's are in test_cdlib.py)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_icd.core.events import CommunityEvents
from stream_icd.methods.synthetic.lfr import Drift, LfrSettings, generate_drifting_lfr
from stream_icd.methods.tracking.track import remember, track
from tests.testbed.planted_events import Key, Score, found_events, overlaid, planted_events
from tests.testbed.windows import window

Truth = NDArray[np.int64]
Step = tuple[Drift, CommunityEvents, CommunityEvents, Truth, Truth]
SEED = 11


@cache
def steps(*, permuted: bool = False) -> tuple[Step, ...]:
    """A stream with planted events, tracked: (what was planted, before, after, truths)."""
    return tuple(_steps(permuted))


def _steps(permuted: bool) -> Iterator[Step]:
    rng = np.random.default_rng(SEED)
    recent: tuple[CommunityEvents, ...] = ()
    truth_before = np.empty(0, np.int64)
    stream = generate_drifting_lfr(SEED, 30, LfrSettings(n_nodes=2000), event_rate=0.3)
    for hour, (graph, drift) in enumerate(stream):
        labels, truth = graph.communities, drift.identities[graph.communities]
        if permuted:
            labels = rng.permutation(graph.n_communities)[labels]
        after = track(recent, window(hour, labels))
        if recent:
            yield drift, recent[-1], after, truth_before, truth
        recent, truth_before = remember(recent, after), truth


def without(keys: set[Key], identities: set[int]) -> set[Key]:
    return {key for key in keys if not key[1] & identities}


@pytest.mark.parametrize("permuted", [False, True], ids=["true labels", "permuted labels"])
def test_every_planted_event_is_found_and_none_is_invented(permuted: bool) -> None:
    score = Score()
    for drift, before, after, truth_before, truth in steps(permuted=permuted):
        tangled = overlaid(drift)
        planted = without(planted_events(drift), tangled)
        found = without(found_events(before, after, truth_before, truth), tangled)
        assert found == planted
        score.add(planted, found)
    assert all(n >= 5 for n in score.found.values()), "the stream holds plenty of each kind"
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


def asur_mergers(old: dict[int, set[int]], new: dict[int, set[int]]) -> set[tuple[int, ...]]:
    """(a, b, c): C_a and C_b merged into C_c, Asur et al. (2007), section 4.1, κ = 50 %."""
    return {
        (a, b, c)
        for c, whole in new.items()
        for a, b in combinations(
            [a for a in sorted(old) if len(old[a] & whole) > len(old[a]) / 2], 2
        )
        if len((old[a] | old[b]) & whole) > 0.5 * max(len(old[a] | old[b]), len(whole))
    }


def greene_mergers(old: dict[int, set[int]], new: dict[int, set[int]]) -> set[tuple[int, ...]]:
    """(a, b, c): C_c matches the fronts C_a and C_b, Greene et al. (2010), section 3, θ = 0.3."""
    return {
        (a, b, c)
        for c, whole in new.items()
        for a, b in combinations(
            [a for a in sorted(old) if len(old[a] & whole) >= 0.3 * len(old[a] | whole)], 2
        )
    }


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


def test_births_and_deaths_are_those_that_greene_et_al_cannot_match() -> None:
    """Greene et al. (2010): a new community is born when it matches no front with J > θ."""
    for drift, before, after, _, _ in steps():
        if overlaid(drift):
            continue
        old, new = members(before), members(after)

        def unmatched(some: dict[int, set[int]], others: dict[int, set[int]]) -> set[int]:
            return {
                community
                for community, own in some.items()
                if not any(len(own & other) >= 0.3 * len(own | other) for other in others.values())
            }

        born = {e.community for e in after.events if e.kind == "born" and not e.parents}
        died = {e.community for e in after.events if e.kind == "died"}
        assert born <= unmatched(new, old)
        assert died <= unmatched(old, new)
        # What they call unmatched besides is small, and part of a merger or a split.
        torn = {c for e in after.events if e.kind in ("merged", "split")
                for c in (*e.parents, *e.children)}  # fmt: skip
        assert unmatched(new, old) <= born | torn
        assert unmatched(old, new) <= died | torn
