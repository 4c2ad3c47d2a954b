"""The hypotheses about a graph, followed through a window.

Each sum of the windows has communities of its own, and the filter believes something of the window
alone. All are judged by what they save on the window (`judge`); the one that leads is followed in
each window, the others in turn and in pauses. Nothing is forgotten but by the decay of the sums.
docs/method.md ("Streams") has the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

from stream_icd.core.arrays import NOBODY, Ids, Labels
from stream_icd.core.snapshot import Window
from stream_icd.methods.bp.known import KnownHere
from stream_icd.methods.bp.level_graph import (
    LevelGraph,
    Rows,
    compact,
    entries_at,
    level_of,
    rows_of,
)
from stream_icd.methods.bp.likelihood import STRONG_BITS, broken, mixing_beyond_chance
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.bp.partition import common_nodes, match_labels, measured
from stream_icd.methods.bp.posterior import (
    Posterior,
    certain_posterior,
    initial_posterior,
    kept_a_window,
    next_posterior,
)
from stream_icd.methods.memory.horizon import PRESENCE, Kind
from stream_icd.methods.memory.judge import (
    LONGEST_PAUSE,
    MARGIN,
    best_sum,
    judged,
    leader_of,
    nats_of,
    pause,
    rested,
    served,
)
from stream_icd.methods.memory.memory import MOST_COUNTED, Hypothesis, no_edges
from stream_icd.methods.memory.nodes import Aligned
from stream_icd.methods.memory.sums import grown, searched
from stream_icd.methods.weighing import Weighing

Find = Callable[[csr_array, int | None, Labels, Labels | None], Labels]
"""Finds the communities of a graph, K of them if K is given. Then come the communities that its
nodes had, `(n,)`, `NOBODY` for new ones, and labels that some nodes are known to have
(`bp.known.Known`), or None: a method may start from them."""

SMALL = 24_000
"""Entries of the sum of a follower that takes in each window; a larger one only takes in those in
which it is searched, since this costs as much as the window itself."""


@dataclass(frozen=True, slots=True)
class WindowStep:
    """A window, and how it is detected; see `detect.detect_remembering`."""

    edges: Rows
    nodes: pa.Array
    window: Window
    parameters: BpParameters
    n_communities: int | None
    kinds: tuple[Kind, ...]
    find: Find | None
    weigh: Weighing | None
    seed: int
    n_before: int  # nodes remembered before it
    known: KnownHere | None = None  # of the nodes remembered before it, and of its own; see `known`
    lacking: bool = False  # whether it lacks most nodes of the graph (`nodes`)


@dataclass(frozen=True, slots=True)
class FoundByHypotheses:
    """What the hypotheses have found after a window.

    corrected: whether a search changed the communities, though the graph need not have changed.
    anew: whether they have nothing to do with those before.
    """

    hypotheses: tuple[Hypothesis, ...]
    leader: int
    known: Posterior  # of the leader
    corrected: bool = False
    anew: bool = False


def begun(step: WindowStep, before: Aligned) -> FoundByHypotheses:
    """Find the communities of a window by itself: all hypotheses begin with them."""
    window, known = before.window, before.memory.known
    n_nodes = len(window.indptr) - 1
    if step.find is not None and n_nodes:
        seeds = None if step.known is None else step.known.labels
        found = compact(step.find(_matrix(window), step.n_communities, known.likeliest, seeds))
        known = certain_posterior(found[0], mixing_beyond_chance(before.level, *found))
    elif n_nodes:
        known = _alone(step, before)
    hypotheses = list[Hypothesis]()
    for kind in step.kinds:
        if kind == PRESENCE and not _is_weighted(window):
            continue
        one = Hypothesis(kind, no_edges(n_nodes), known.likeliest)
        if kind.by == "sum":
            evidence = grown(one.evidence, kind.decay, window.comparable(kind.within))
            one = replace(one, evidence=evidence, wait=_rest(evidence, window))
        hypotheses.append(one)
    # The longest sum is searched in the second window, since unclear windows need that most.
    hypotheses[0] = replace(hypotheses[0], wait=0)
    return FoundByHypotheses(tuple(hypotheses), leader_of(hypotheses), known)


def gone_on(step: WindowStep, before: Aligned) -> FoundByHypotheses:
    """Judge the hypotheses by a window, and follow the one that leads, and others in their turn."""
    asked, led = _as_asked(step, before)
    if step.lacking:
        if step.find is None:
            known, corrected = _believed(step, before), False
        else:
            known, corrected = _led(step, before, list(asked), led)
        return FoundByHypotheses(before.memory.hypotheses, before.memory.leader, known, corrected)
    hypotheses = list(judged(asked, led, before.level))
    fresh = None if step.find else _fresh(step, before, hypotheses)
    if fresh is not None:
        hypotheses = fresh.hypotheses
    by_labels = step.weigh is not None and step.weigh.leads
    leader = leader_of(hypotheses, by_labels=by_labels)
    if leader != led:
        for at in (leader, led):
            hypotheses[at] = replace(hypotheses[at], n_vain=0, wait=0)
    leads = hypotheses[leader].kind.by  # a weighted sum is that of the first hypothesis
    followers, believed, rest = served(hypotheses, leader), None, 0
    for at, one in enumerate(hypotheses):
        if at == leader:
            continue
        if one.kind.by == "filter":
            hypotheses[at], believed = _filtered(step, before, one, at in followers)
        elif at in followers:
            hypotheses[at] = _tried(step, before, one, hypotheses[0].evidence)
            rest = _rest(hypotheses[at].evidence, before.window)
        elif _is_small(one, before) or (at == 0 and leads == "weighted"):
            hypotheses[at], *_ = _searched(step, before, one, hypotheses[0].evidence, False)
    hypotheses = rested(hypotheses, leader, rest)
    if fresh is not None:
        hypotheses[leader] = replace(hypotheses[leader], labels=fresh.known.likeliest)
        return FoundByHypotheses(tuple(hypotheses), leader, fresh.known, corrected=True, anew=True)
    known, corrected = _led(step, before, hypotheses, leader)
    if believed is not None:
        if before.memory.n_windows == 1 and not by_labels:
            ahead = _taken_over(hypotheses, leader, believed, before.level)
            if ahead is not None:
                return ahead
        known = known._replace(stay=believed.stay)
    return FoundByHypotheses(tuple(hypotheses), leader, known, corrected or leader != led)


def _taken_over(
    hypotheses: Sequence[Hypothesis], leader: int, believed: Posterior, window: LevelGraph
) -> FoundByHypotheses | None:
    """Return what the filter has found in the second window, if it explains that much better.

    No window has judged yet, and the sum of two blurs a clear one if many nodes have moved.
    """
    ahead = nats_of(believed.likeliest, window) - nats_of(hypotheses[leader].labels, window)
    if ahead <= MARGIN:
        return None
    (at,) = (at for at, one in enumerate(hypotheses) if one.kind.by == "filter")
    # It was found in this window, so the next ones must soon confirm it.
    leads = replace(hypotheses[at], saved=min(ahead, 2 * MARGIN), n_vain=0, wait=0)
    others = (*hypotheses[:at], leads, *hypotheses[at + 1 :])
    return FoundByHypotheses(others, at, believed, corrected=True)


def _led(
    step: WindowStep, before: Aligned, hypotheses: list[Hypothesis], leader: int
) -> tuple[Posterior, bool]:
    """Follow the leader, in place; return its communities, and whether a search corrected them."""
    one = hypotheses[leader]
    if one.kind.by == "filter":
        known = _believed(step, before)
        hypotheses[leader] = replace(one, labels=known.likeliest)
        return known, False
    is_due = not (one.wait or step.lacking)
    first = hypotheses[0].evidence
    found, mixing, better = _searched(step, before, one, first, is_due)
    if is_due:
        n_vain = 0 if better else min(one.n_vain + 1, MOST_COUNTED)
        found = replace(found, n_vain=n_vain, wait=pause(n_vain))
    hypotheses[leader] = found
    return _published(step, before, found.labels, mixing), better


def _believed(step: WindowStep, before: Aligned) -> Posterior:
    """Return the communities of the window alone, by what was believed before it."""
    return next_posterior(before.level, step.parameters, before.memory.known, step.seed)


def _filtered(
    step: WindowStep, before: Aligned, one: Hypothesis, is_due: bool
) -> tuple[Hypothesis, Posterior | None]:
    """Return the filter, which does not lead, after a window, and what it believes if it is due."""
    if not is_due:
        return replace(one, labels=np.full_like(one.labels, NOBODY)), None
    found = _believed(step, before)
    n_vain = min(one.n_vain + 1, MOST_COUNTED)
    tried = replace(one, labels=found.likeliest, n_vain=n_vain, wait=pause(n_vain - _TRIES))
    return tried, found


def _tried(step: WindowStep, before: Aligned, one: Hypothesis, first: Rows) -> Hypothesis:
    """Return a sum that does not lead after it was searched."""
    n_vain = min(one.n_vain + 1, MOST_COUNTED)
    found, *_ = _searched(step, before, one, first, True)
    return replace(found, n_vain=n_vain, wait=pause(n_vain))


def _rest(evidence: Rows, window: Rows) -> int:
    """Return how many windows sums wait after one was searched, so that this costs a fraction."""
    return min(8 * len(evidence.indices) // max(len(window.indices), FEW), LONGEST_PAUSE)


_TRIES = 4
"""The filter is followed as often before its first pause: it goes on from the leader, and takes
some windows to learn how many nodes stay."""

FEW = 8000
"""Sums wait a window for each eighth of a window (of at least so many entries) in the one that was
searched last."""


def _as_asked(step: WindowStep, before: Aligned) -> tuple[tuple[Hypothesis, ...], int]:
    """Return the hypotheses that are asked for, and which of them leads; new ones begin with it."""
    memory = before.memory
    have = {one.kind: one for one in memory.hypotheses}
    lead, longest = memory.hypotheses[memory.leader], memory.hypotheses[0]
    wanted = [k for k in step.kinds if k != PRESENCE or k in have or _is_weighted(before.window)]
    best, hypotheses = memory.hypotheses[best_sum(memory.hypotheses)].saved, []
    for kind in wanted:
        evidence = longest.evidence if kind.by == "sum" else no_edges(memory.n_nodes)
        saved = 0.0 if kind.by == "filter" else best
        begins = Hypothesis(kind, evidence, memory.known.likeliest, saved)
        hypotheses.append(have.get(kind, begins))
    return tuple(hypotheses), wanted.index(lead.kind) if lead.kind in wanted else 0


def _alone(step: WindowStep, before: Aligned) -> Posterior:
    """Return the communities of the window by itself, as the encoder weights it if there is one."""
    k, parameters = step.n_communities, step.parameters
    if step.weigh is not None and len(before.window.indices):
        graph = weighted(step.weigh, before.window)
        found = initial_posterior(graph, step.weigh.parameters, k, step.seed)
        mixing = mixing_beyond_chance(before.level, found.likeliest, found.n_communities)
        return certain_posterior(found.likeliest, mixing)._replace(believed=True)
    found = initial_posterior(before.level, parameters, k, step.seed)
    if parameters.search and not found.believed:  # beliefs follow, whatever has found them
        found = certain_posterior(found.likeliest, found.mixing)._replace(believed=True)
    return found


def weighted(weigh: Weighing, graph: Rows) -> LevelGraph:
    """Return a graph as an encoder weights it."""
    return level_of(rows_of(weigh(_matrix(graph))).comparable(weigh.parameters.weight_exponent))


class _Fresh(NamedTuple):
    """The communities of a window by itself, and the hypotheses, led by them."""

    known: Posterior
    hypotheses: list[Hypothesis]


def _fresh(step: WindowStep, before: Aligned, hypotheses: list[Hypothesis]) -> _Fresh | None:
    """Return what a window shows by itself if that explains it better than all that is known.

    It is a filter that knows nothing: what it saves, less what its communities cost to describe,
    must be as far ahead as that of a filter. Only a window is searched that is no better than
    chance for what is known.
    """
    known, level = before.memory.known, before.level
    if not broken(level, known.likeliest, known.n_communities, known.mixing)[0]:
        return None
    found = _alone(step, before)
    saved = -measured(level, found.likeliest).bits * level.n_edges * log(2)
    ahead = saved - nats_of(known.likeliest, level)
    if ahead <= STRONG_BITS * log(2):
        return None
    boosted = [
        replace(one, saved=one.saved + ahead) if one.kind.by == "filter" else one
        for one in hypotheses
    ]
    leads = boosted[leader_of(boosted)].kind.by == "filter"
    return _Fresh(found, boosted) if leads else None


def _is_small(one: Hypothesis, before: Aligned) -> bool:
    return len(one.evidence.indices) + len(before.window.indices) <= SMALL


def _is_weighted(window: Rows) -> bool:
    return len(window.weights) > 0 and bool(window.weights.min() < window.weights.max())


def _matrix(graph: Rows) -> csr_array:
    n_nodes = len(graph.indptr) - 1
    return csr_array((graph.weights, graph.indices, graph.indptr), (n_nodes, n_nodes))


def _searched(
    step: WindowStep, before: Aligned, one: Hypothesis, first: Rows, anew: bool
) -> tuple[Hypothesis, float, bool]:
    """Return a sum with one more window and its communities, its mixing, and whether a search has
    corrected them.

    first: the sum of the first hypothesis.
    anew: whether it is searched as if nothing was known of it.
    """
    kind, evidence = one.kind, first
    if kind.by == "sum":
        decay = 1.0 if step.lacking else kind.decay
        evidence = grown(one.evidence, decay, before.window.comparable(kind.within))
        one = replace(one, evidence=evidence)
    nodes, labels = np.flatnonzero(np.diff(evidence.indptr) > 0), np.full_like(one.labels, NOBODY)
    if not len(nodes):
        return replace(one, labels=labels), before.memory.known.mixing, False
    inner, last, better = entries_at(evidence, nodes), one.labels[nodes], False
    if step.find is not None:
        given = inner if kind.decay else entries_at(before.window, nodes)
        k = None if step.n_communities is None else min(step.n_communities, len(nodes))
        seeds = None if step.known is None else step.known.labels[nodes]
        graph, found = level_of(inner), step.find(_matrix(given), k, last, seeds)
    elif kind.by == "weighted" and step.weigh is not None:
        graph = weighted(step.weigh, inner)
        found, better = searched(graph, step.weigh.parameters, last, anew, step.seed)
    else:
        graph = level_of(inner.comparable(kind.between))
        found, better = searched(graph, step.parameters, last, anew, step.seed)
    labels[nodes], k = compact(found)
    return replace(one, labels=labels), mixing_beyond_chance(graph, labels[nodes], k), better


def _published(step: WindowStep, before: Aligned, labels: Labels, mixing: float) -> Posterior:
    """Return the communities of a sum as what is known, which the filter goes on from."""
    known, parameters = before.memory.known, step.parameters
    labels, idle = _with_idle(known, labels, before.rows)
    found = certain_posterior(labels, mixing)
    remains = np.float32(kept_a_window(known.stay or parameters.stay))
    found.shares[idle, 0] = known.shares[idle].sum(axis=1) * remains
    believed = step.find is None and (parameters.search or parameters.mixing is not None)
    resolution = 1.0 if parameters.search else parameters.resolution
    return found._replace(believed=believed, stay=known.stay, resolution=resolution)


def _with_idle(known: Posterior, labels: Labels, rows: Ids) -> tuple[Labels, Ids]:
    """Return labels for all nodes of which something is known, and which of them are idle.

    labels: `(n,)` the communities that were found; `NOBODY` for nodes without edges. These stay in
        their community before; those of the window, `rows`, are alone if they had none.
    """
    n_found = int(labels.max(initial=NOBODY)) + 1
    idle = np.flatnonzero((labels < 0) & (known.likeliest >= 0))
    labels = labels.copy()
    labels[idle] = _continued(known.likeliest, labels, n_found)[known.likeliest[idle]]
    new = rows[labels[rows] < 0]
    labels[new] = int(labels.max(initial=NOBODY)) + 1 + np.arange(len(new))
    return labels, idle


def _continued(before: Labels, labels: Labels, n_labels: int) -> Labels:
    """Return the label that nodes without one get from their community before, `(K before,)`.

    It is the one that continues the community, or that has at least half of all its nodes. If there
    is none, they get a label of their own, from `n_labels` on.
    """
    n_before = int(before.max(initial=NOBODY)) + 1
    old, new, counts = common_nodes(before, labels)
    into = n_labels + np.arange(n_before, dtype=np.int32)
    most = 2 * counts >= np.bincount(before[before >= 0], minlength=n_before)[old]
    into[old[most]] = new[most]
    continued = match_labels(labels, before, n_labels, n_before)
    into[continued[continued < n_before]] = np.flatnonzero(continued < n_before)
    return into
