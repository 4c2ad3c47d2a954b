"""What CDlib (BSD) says happened between two windows, in the words of `stream_icd.core.events`.

Every definition becomes `Reported`: what happened to which community. A community is named by its
label in its own window: the later one, or the earlier one where it was split or has died.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from stream_icd.core.communities import Communities
from stream_icd.core.events import CommunityEvents

Event = tuple[str, int]
Reported = dict[Event, frozenset[int]]
"""Each event, and the labels of those that went in or came out, where the definition names them."""
Groups = Mapping[int, set[Any]]
"""The nodes of each community, by label."""

LIVES_ON = "lives on"
OURS = {"continued": LIVES_ON, "grown": LIVES_ON, "shrunk": LIVES_ON}
ASUR = {"Merge": "merged", "Split": "split", "Birth": "born", "Death": "died",
        "Continuation": LIVES_ON}  # fmt: skip
# Offspring (a part of one) and Ancestor (gone into a larger one) are reported as the split and the
# merger of the other.
FACETS_BACKWARD = {"Birth": "born", "Accumulation": "born", "Reorganization": "born",
                   "Merge": "merged", "Expansion": "merged",
                   "Continuation": LIVES_ON, "Growth": LIVES_ON}  # fmt: skip
FACETS_FORWARD = {"Death": "died", "Dispersion": "died", "Disassemble": "died",
                  "Split": "split", "Reduction": "split"}  # fmt: skip


class Lives:
    """CDlib's view of two windows: its `LifeCycle`, and what each of its names stands for.

    CDlib calls a community `1_3` when it is the fourth largest of the second window.
    """

    def __init__(self, before: Groups, after: Groups) -> None:
        from cdlib import NodeClustering, TemporalClustering
        from cdlib.lifecycles import LifeCycle

        clusterings = TemporalClustering()
        self.labels: dict[str, int] = {}
        for time, groups in enumerate((before, after)):
            by_size = sorted(groups, key=lambda label: -len(groups[label]))
            self.labels |= {f"{time}_{place}": label for place, label in enumerate(by_size)}
            members = [sorted(groups[label]) for label in by_size]
            clusterings.add_clustering(NodeClustering(members, graph=None), time)
        self.cycle = LifeCycle(clusterings)

    @property
    def members(self) -> Mapping[str, set[Any]]:
        """The nodes of each community, by CDlib's name."""
        members: Mapping[str, set[Any]] = self.cycle.cm.named_sets
        return members


def greene(lives: Lives, threshold: float = 0.3) -> Reported:
    """Greene et al. (2010): matched where the Jaccard index is at least `threshold`."""
    from cdlib.lifecycles import event_graph_greene

    # CDlib asks for more than its threshold.
    matches, _ = event_graph_greene(lives.cycle.cm, th=np.nextafter(threshold, 0))
    pairs = [(match["src"], match["ref_set"]) for match in matches["Merge"]]
    return reported_by_matches(pairs, lives.labels)


def asur(lives: Lives, threshold: float = 0.5) -> Reported:
    """Asur et al. (2007), as CDlib has them.

    Not by `LifeCycle.compute_events("asur")`, which ends in a KeyError at the first birth or
    death, but by the function that it calls.
    """
    return reported_by_asur(_asur_events(lives, threshold), lives.labels)


def published_asur(lives: Lives, threshold: float = 0.5) -> Reported:
    """Those of CDlib's events that also have the paper's second condition, which CDlib lacks."""
    events = _asur_events(lives, threshold)
    kept = {kind: [event for event in those if more_than_half_each(event, lives.members)]
            for kind, those in events.items()}  # fmt: skip
    return reported_by_asur(kept, lives.labels)


def _asur_events(lives: Lives, threshold: float) -> Mapping[str, list[dict[str, Any]]]:
    from cdlib.lifecycles import events_asur

    events: Mapping[str, list[dict[str, Any]]]
    events, _ = events_asur(lives.cycle.cm, th=threshold)
    return events


def facets(lives: Lives) -> Reported:
    """CDlib's own: of eight kinds in each direction, the one with the largest weight."""
    lives.cycle.compute_events("facets", {"min_branch_size": 1})
    events = lives.cycle.get_events()
    return reported_by_facets(
        {name: event.get_from_event() for name, event in events.items()},
        {name: event.get_to_event() for name, event in events.items()},
        lives.labels,
    )


def reported_by_matches(pairs: Iterable[tuple[str, str]], labels: Mapping[str, int]) -> Reported:
    """Greene et al.'s events from the matches, which are all that CDlib gives (section 3).

    Args:
        pairs: (earlier, later) communities that match.
        labels: of all communities, by CDlib's name.
    """
    heirs: dict[str, set[str]] = {name: set() for name in labels if name.startswith("0_")}
    fronts: dict[str, set[str]] = {name: set() for name in labels if name.startswith("1_")}
    for old, new in pairs:
        heirs[old].add(new)
        fronts[new].add(old)
    reported = _several("merged", fronts, labels) | _several("split", heirs, labels)
    reported |= {("born", labels[new]): frozenset() for new, whose in fronts.items() if not whose}
    reported |= {("died", labels[old]): frozenset() for old, whose in heirs.items() if not whose}
    alone = (new for new, whose in fronts.items() if len(whose) == 1)
    reported |= {(LIVES_ON, labels[new]): frozenset() for new in alone
             if len(heirs[next(iter(fronts[new]))]) == 1}  # fmt: skip
    return reported


def _several(
    kind: str, relatives: Mapping[str, Collection[str]], labels: Mapping[str, int]
) -> Reported:
    return {
        (kind, labels[name]): frozenset(labels[other] for other in others)
        for name, others in relatives.items()
        if len(others) > 1
    }


def reported_by_asur(
    events: Mapping[str, Iterable[Mapping[str, Any]]], labels: Mapping[str, int]
) -> Reported:
    """Asur et al.'s events, the pairs of one merger or split put together."""
    took_part: dict[Event, set[int]] = defaultdict(set)
    for kind, those in events.items():
        for event in those:
            # Of a continuation CDlib names the earlier community first.
            whom = event["ref_set"] if kind == "Continuation" else event["src"]
            others = (labels[name] for name in event.get("ref_sets", ()))
            took_part[ASUR[kind], labels[whom]].update(others)
    return {event: frozenset(others) for event, others in took_part.items()}


def more_than_half_each(event: Mapping[str, Any], members: Mapping[str, set[Any]]) -> bool:
    """Whether each of two that merged has more than half of its nodes in what came of them.

    Asur et al. (2007), section 4.1: |V_k ∩ V_j| > |C_k| / 2, and likewise of a split. True of
    events that are not of two.
    """
    whole = members[event["src"]]
    return all(
        len(members[name] & whole) > len(members[name]) / 2 for name in event.get("ref_sets", ())
    )


def reported_by_facets(
    backward: Mapping[str, Mapping[str, float]],
    forward: Mapping[str, Mapping[str, float]],
    labels: Mapping[str, int],
) -> Reported:
    """The likeliest event of each later community looking back, and of each earlier one ahead."""
    reported: Reported = {}
    for window, weights_of, words in (
        ("1_", backward, FACETS_BACKWARD),
        ("0_", forward, FACETS_FORWARD),
    ):
        for name, weights in weights_of.items():
            if name.startswith(window) and weights:
                likeliest = max(weights, key=lambda kind: weights[kind])
                if likeliest in words:
                    reported[words[likeliest], labels[name]] = frozenset()
    return reported


def reported_by_tracker(before: CommunityEvents, after: CommunityEvents) -> Reported:
    """The tracker's events. A birth out of others is reported as their split or merger."""
    was, now = _labels(before), _labels(after)
    reported: Reported = {}
    for event in after.events:
        kind = OURS.get(event.kind, event.kind)
        if kind == "split":
            reported[kind, was[event.community]] = frozenset(now[child] for child in event.children)
        elif kind == "died":
            reported[kind, was[event.community]] = frozenset()
        elif kind != "born" or not event.parents:
            parents = event.parents if kind == "merged" else ()
            reported[kind, now[event.community]] = frozenset(was[parent] for parent in parents)
    return reported


def _labels(tracked: CommunityEvents) -> dict[int, int]:
    """By stable id, how the window's communities are labelled."""
    return {event.community: event.label for event in tracked.events if event.label is not None}


def groups_of(communities: Communities, among: set[Any] | None = None) -> Groups:
    """The communities of a window, or what is left of them `among` some nodes."""
    groups: dict[int, set[Any]] = defaultdict(set)
    for node, label in zip(communities.nodes.to_pylist(), communities.labels.tolist(), strict=True):
        if among is None or node in among:
            groups[label].add(node)
    return groups
