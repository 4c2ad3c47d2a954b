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
)
from stream_icd.methods.bp.likelihood import STRONG_BITS, broken, mixing_beyond_chance, nats_saved
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.bp.partition import common_nodes, match_labels, measured
from stream_icd.methods.bp.posterior import (
    Posterior,
    initial_posterior,
    kept_a_window,
    next_posterior,
)
from stream_icd.methods.memory.horizon import PRESENCE, HypothesisKind
from stream_icd.methods.memory.judge import (
    MARGIN,
    best_sum,
    judged,
    leader_of,
)
from stream_icd.methods.memory.memory import MOST_COUNTED, Hypothesis
from stream_icd.methods.memory.nodes import Aligned
from stream_icd.methods.memory.sums import grown, searched
from stream_icd.methods.weighing import Weighing

Find = Callable[[csr_array, int | None, Labels, Labels | None], Labels]
"""Finds the communities of a graph, K of them if K is given. Then come the communities that its
nodes had, `(n,)`, `NOBODY` for new ones, and labels that some nodes are known to have
(`bp.known.Known`), or None: a method may start from them."""

_SMALL = 24_000
"""Entries of a window and of the sum of a follower that takes in each window; a larger one only
takes in those in which it is searched, since this costs as much as the window itself."""

_FEW = 8000
"""Sums wait a window for each eighth of a window (of at least so many entries) in the one that was
searched last."""

_LONGEST_PAUSE = 64
"""Windows that a hypothesis waits at most until it is followed again."""

_N_SEARCHES, _N_FIRST, _SEARCHED = 6, 8, 32_000
"""How often a sum that leads is searched in its turn in the first windows of a small graph, whose
searches read so many entries of the window at most. There a search ends in one of many states, and
later windows start from it."""

_TRIES = 4
"""The filter is followed as often before its first pause: it goes on from the leader, and takes
some windows to learn how many nodes stay."""


@dataclass(frozen=True, slots=True)
class WindowStep:
    """A window, and how it is detected; see `detect.detect_remembering`."""

    edges: Rows
    nodes: pa.Array
    window: Window
    parameters: BpParameters
    n_communities: int | None
    kinds: tuple[HypothesisKind, ...]
    find: Find | None
    weigh: Weighing | None
    seed: int
    n_before: int  # nodes remembered before it
    known: KnownHere | None = None  # of the nodes remembered before it, and of its own; see `known`
    lacking: bool = False  # whether it lacks most nodes of the graph (`nodes`)


@dataclass(frozen=True, slots=True)
class Followed:
    """What the hypotheses have found after a window.

    corrected: whether a search changed the communities, though the graph need not have changed.
    is_new: whether the communities have nothing to do with those before.
    """

    hypotheses: tuple[Hypothesis, ...]
    leader: int
    posterior: Posterior  # of the leader
    corrected: bool = False
    is_new: bool = False


def begin(step: WindowStep, aligned: Aligned) -> Followed:
    """Find the communities of a window by itself: all hypotheses begin with them."""
    window, posterior = aligned.window, aligned.memory.posterior
    n_nodes = len(window.indptr) - 1
    if step.find is not None and n_nodes:
        seeds = None if step.known is None else step.known.labels
        labels = step.find(window.adjacency(), step.n_communities, posterior.likeliest, seeds)
        labels, k = compact(labels)
        posterior = Posterior.certain(labels, mixing_beyond_chance(aligned.level, labels, k))
    elif n_nodes:
        posterior = _alone(step, aligned)
    hypotheses = list[Hypothesis]()
    for kind in step.kinds:
        if kind == PRESENCE and not _is_weighted(window):
            continue
        hypothesis = Hypothesis(kind, Rows.without_edges(n_nodes), posterior.likeliest)
        if kind.by == "sum":
            evidence = grown(hypothesis.evidence, kind.decay, window.comparable(kind.within))
            hypothesis = replace(hypothesis, evidence=evidence, wait=_rest(evidence, window))
        hypotheses.append(hypothesis)
    # The longest sum is searched in the second window, since unclear windows need that most.
    hypotheses[0] = replace(hypotheses[0], wait=0)
    return Followed(tuple(hypotheses), leader_of(hypotheses), posterior)


def follow(step: WindowStep, aligned: Aligned) -> Followed:
    """Judge the hypotheses by a window, and follow the one that leads, and others in their turn."""
    wanted, led = _wanted(step, aligned)
    if step.lacking:
        return _through_damage(step, aligned, wanted, led)
    # First of all, since labels that were found in this window have seen the edges that judge.
    hypotheses = judged(wanted, led, aligned.level)
    alone = None if step.find else _alone_if_broken(step, aligned, hypotheses)
    if alone is not None:
        hypotheses = alone.hypotheses
    by_labels = step.weigh is not None and step.weigh.leads
    leader = leader_of(hypotheses, by_labels=by_labels)
    if leader != led:
        for at in (leader, led):  # what either found last is old, or has failed
            hypotheses[at] = replace(hypotheses[at], n_vain=0, wait=0)
    hypotheses, filtered = _follow_others(step, aligned, hypotheses, leader)
    if alone is not None:
        hypotheses[leader] = replace(hypotheses[leader], labels=alone.posterior.likeliest)
        return Followed(tuple(hypotheses), leader, alone.posterior, corrected=True, is_new=True)
    # After the others, since a weighted sum is that of the first hypothesis, which has grown now.
    posterior, corrected = _follow_leader(step, aligned, hypotheses, leader)
    if filtered is not None:
        if aligned.memory.n_windows == 1 and not by_labels:
            ahead = _filter_takes_over(hypotheses, leader, filtered, aligned.level)
            if ahead is not None:
                return ahead
        posterior = posterior._replace(stay=filtered.stay)
    return Followed(tuple(hypotheses), leader, posterior, corrected or leader != led)


def _wanted(step: WindowStep, aligned: Aligned) -> tuple[list[Hypothesis], int]:
    """Return the hypotheses that are asked for, and which of them leads; new ones begin with it."""
    memory = aligned.memory
    of_kind = {hypothesis.kind: hypothesis for hypothesis in memory.hypotheses}
    leading, longest = memory.hypotheses[memory.leader], memory.hypotheses[0]
    weighted_edges = _is_weighted(aligned.window)
    kinds = [k for k in step.kinds if k != PRESENCE or k in of_kind or weighted_edges]
    best, hypotheses = memory.hypotheses[best_sum(memory.hypotheses)].saved, []
    for kind in kinds:
        evidence = longest.evidence if kind.by == "sum" else Rows.without_edges(memory.n_nodes)
        saved = 0.0 if kind.by == "filter" else best
        begins = Hypothesis(kind, evidence, memory.posterior.likeliest, saved)
        hypotheses.append(of_kind.get(kind, begins))
    return hypotheses, kinds.index(leading.kind) if leading.kind in kinds else 0


def _through_damage(
    step: WindowStep, aligned: Aligned, hypotheses: list[Hypothesis], leader: int
) -> Followed:
    """Return the communities of a window that lacks most nodes: no hypothesis learns from it."""
    if step.find is None:
        posterior, corrected = _filtered(step, aligned), False
    else:
        posterior, corrected = _follow_leader(step, aligned, hypotheses, leader)
    return Followed(aligned.memory.hypotheses, aligned.memory.leader, posterior, corrected)


class _Alone(NamedTuple):
    """The communities of a window by itself, and the hypotheses, led by them."""

    posterior: Posterior
    hypotheses: list[Hypothesis]


def _alone_if_broken(
    step: WindowStep, aligned: Aligned, hypotheses: list[Hypothesis]
) -> _Alone | None:
    """Return what a window shows by itself if that explains it better than all that is known.

    It is a filter that knows nothing: what it saves, less what its communities cost to describe,
    must be as far ahead as that of a filter. Only a window is searched that is no better than
    chance for what is known.
    """
    last, level = aligned.memory.posterior, aligned.level
    if not broken(level, last.likeliest, last.n_communities, last.mixing):
        return None
    alone = _alone(step, aligned)
    saved = -measured(level, alone.likeliest).bits * level.n_edges * log(2)
    ahead = saved - nats_saved(level, last.likeliest)[0]
    if ahead <= STRONG_BITS * log(2):
        return None
    boosted = [
        replace(hypothesis, saved=hypothesis.saved + ahead)
        if hypothesis.kind.by == "filter"
        else hypothesis
        for hypothesis in hypotheses
    ]
    leads = boosted[leader_of(boosted)].kind.by == "filter"
    return _Alone(alone, boosted) if leads else None


def _follow_others(
    step: WindowStep, aligned: Aligned, hypotheses: list[Hypothesis], leader: int
) -> tuple[list[Hypothesis], Posterior | None]:
    """Follow all but the leader; return them, and what the filter believes if it was its turn."""
    due, filtered, rest = _due(hypotheses, leader), None, 0
    leads = hypotheses[leader].kind.by
    for at, hypothesis in enumerate(hypotheses):
        if at == leader:
            continue
        first = hypotheses[0].evidence  # it has grown already: the first comes first
        if hypothesis.kind.by == "filter":
            hypotheses[at], filtered = _follow_filter(step, aligned, hypothesis, at in due)
        elif at in due:
            n_vain = min(hypothesis.n_vain + 1, MOST_COUNTED)
            sought = _search(step, aligned, hypothesis, first, 1).hypothesis
            hypotheses[at] = replace(sought, n_vain=n_vain, wait=_pause(n_vain))
            rest = _rest(sought.evidence, aligned.window)
        elif _is_small(hypothesis, aligned) or (at == 0 and leads == "weighted"):
            hypotheses[at] = _search(step, aligned, hypothesis, first, 0).hypothesis
    return _rested(hypotheses, leader, rest), filtered


def _due(hypotheses: Sequence[Hypothesis], leader: int) -> set[int]:
    """Return which of the others are followed in a window: the filter, and one sum, if due."""
    due = [at for at, hypothesis in enumerate(hypotheses) if at != leader and not hypothesis.wait]
    filters = [at for at in due if hypotheses[at].kind.by == "filter"]
    sums = [at for at in due if hypotheses[at].kind.by != "filter"]
    return {*filters, *sorted(sums, key=lambda at: hypotheses[at].n_vain)[:1]}


def _rested(hypotheses: Sequence[Hypothesis], leader: int, rest: int) -> list[Hypothesis]:
    """Return the hypotheses, of which all sums that follow wait so many windows at least.

    So large sums are searched one after another, in windows far apart.
    """
    return [
        hypothesis
        if at == leader or hypothesis.kind.by == "filter"
        else replace(hypothesis, wait=max(hypothesis.wait, rest))
        for at, hypothesis in enumerate(hypotheses)
    ]


def _follow_filter(
    step: WindowStep, aligned: Aligned, hypothesis: Hypothesis, is_due: bool
) -> tuple[Hypothesis, Posterior | None]:
    """Return the filter, which does not lead, after a window, and what it believes if it is due."""
    if not is_due:
        return replace(hypothesis, labels=np.full_like(hypothesis.labels, NOBODY)), None
    posterior = _filtered(step, aligned)
    n_vain = min(hypothesis.n_vain + 1, MOST_COUNTED)
    wait = _pause(n_vain - _TRIES)
    return replace(hypothesis, labels=posterior.likeliest, n_vain=n_vain, wait=wait), posterior


def _follow_leader(
    step: WindowStep, aligned: Aligned, hypotheses: list[Hypothesis], leader: int
) -> tuple[Posterior, bool]:
    """Follow the leader, in place; return its communities, and whether a search corrected them."""
    hypothesis = hypotheses[leader]
    if hypothesis.kind.by == "filter":
        posterior = _filtered(step, aligned)
        hypotheses[leader] = replace(hypothesis, labels=posterior.likeliest)
        return posterior, False
    is_due = not (hypothesis.wait or step.lacking)
    n_searches = 0
    if is_due:
        n_affordable = _SEARCHED // max(len(aligned.window.indices), 1)
        is_first = aligned.memory.n_windows < _N_FIRST
        n_searches = min(max(n_affordable, 1), _N_SEARCHES) if is_first else 1
    sought = _search(step, aligned, hypothesis, hypotheses[0].evidence, n_searches)
    hypotheses[leader] = sought.hypothesis
    if is_due:
        n_vain = 0 if sought.corrected else min(hypothesis.n_vain + 1, MOST_COUNTED)
        hypotheses[leader] = replace(sought.hypothesis, n_vain=n_vain, wait=_pause(n_vain))
    return _posterior_of_sum(step, aligned, sought), sought.corrected


def _filter_takes_over(
    hypotheses: Sequence[Hypothesis], leader: int, filtered: Posterior, level: LevelGraph
) -> Followed | None:
    """Return what the filter has found in the second window, if it explains that much better.

    No window has judged yet, and the sum of two blurs a clear one if many nodes have moved.
    """
    saved_by_leader, _ = nats_saved(level, hypotheses[leader].labels)
    ahead = nats_saved(level, filtered.likeliest)[0] - saved_by_leader
    if ahead <= MARGIN:
        return None
    (at,) = (at for at, hypothesis in enumerate(hypotheses) if hypothesis.kind.by == "filter")
    # It was found in this window, so the next ones must soon confirm it.
    leading = replace(hypotheses[at], saved=min(ahead, 2 * MARGIN), n_vain=0, wait=0)
    led = (*hypotheses[:at], leading, *hypotheses[at + 1 :])
    return Followed(led, at, filtered, corrected=True)


def _filtered(step: WindowStep, aligned: Aligned) -> Posterior:
    """Return the communities of the window alone, by what was believed before it."""
    return next_posterior(aligned.level, step.parameters, aligned.memory.posterior, step.seed)


def _alone(step: WindowStep, aligned: Aligned) -> Posterior:
    """Return the communities of the window by itself, as the encoder weights it if there is one."""
    k, parameters = step.n_communities, step.parameters
    if step.weigh is not None and len(aligned.window.indices):
        graph = step.weigh.level(aligned.window)
        alone = initial_posterior(graph, step.weigh.parameters, k, step.seed)
        mixing = mixing_beyond_chance(aligned.level, alone.likeliest, alone.n_communities)
        return Posterior.certain(alone.likeliest, mixing)._replace(believed=True)
    alone = initial_posterior(aligned.level, parameters, k, step.seed)
    if parameters.search and not alone.believed:  # beliefs follow, whatever has found them
        alone = Posterior.certain(alone.likeliest, alone.mixing)._replace(believed=True)
    return alone


class _Sought(NamedTuple):
    """A sum with one more window, and what it has found.

    corrected: whether a search has changed its communities.
    """

    hypothesis: Hypothesis
    mixing: float
    corrected: bool


def _search(
    step: WindowStep, aligned: Aligned, hypothesis: Hypothesis, first: Rows, n_searches: int
) -> _Sought:
    """Add the window to a sum, and find its communities.

    first: the sum of the first hypothesis.
    n_searches: how often it is searched as if nothing was known of it.
    """
    kind, evidence = hypothesis.kind, first
    if kind.by == "sum":
        decay = 1.0 if step.lacking else kind.decay
        evidence = grown(hypothesis.evidence, decay, aligned.window.comparable(kind.within))
        hypothesis = replace(hypothesis, evidence=evidence)
    nodes = np.flatnonzero(np.diff(evidence.indptr) > 0)
    labels, corrected = np.full_like(hypothesis.labels, NOBODY), False
    if not len(nodes):
        mixing = aligned.memory.posterior.mixing
        return _Sought(replace(hypothesis, labels=labels), mixing, corrected)
    edges, last = entries_at(evidence, nodes), hypothesis.labels[nodes]
    if step.find is not None:
        graph = level_of(edges)
        edges = edges if kind.decay else entries_at(aligned.window, nodes)
        k = None if step.n_communities is None else min(step.n_communities, len(nodes))
        seeds = None if step.known is None else step.known.labels[nodes]
        found = step.find(edges.adjacency(), k, last, seeds)
    else:
        if kind.by == "weighted" and step.weigh is not None:
            graph, parameters = step.weigh.level(edges), step.weigh.parameters
        else:
            graph, parameters = level_of(edges.comparable(kind.between)), step.parameters
        found, corrected = searched(graph, parameters, last, n_searches, step.seed)
    labels[nodes], k = compact(found)
    mixing = mixing_beyond_chance(graph, labels[nodes], k)
    return _Sought(replace(hypothesis, labels=labels), mixing, corrected)


def _posterior_of_sum(step: WindowStep, aligned: Aligned, sought: _Sought) -> Posterior:
    """Return the communities of a sum as what is known, which the filter goes on from."""
    last, parameters = aligned.memory.posterior, step.parameters
    labels, idle = _with_idle(last, sought.hypothesis.labels, aligned.rows)
    posterior = Posterior.certain(labels, sought.mixing)
    remains = np.float32(kept_a_window(last.stay or parameters.stay))
    posterior.shares[idle, 0] = last.shares[idle].sum(axis=1) * remains
    believed = step.find is None and (parameters.search or parameters.mixing is not None)
    resolution = 1.0 if parameters.search else parameters.resolution
    return posterior._replace(believed=believed, stay=last.stay, resolution=resolution)


def _with_idle(last: Posterior, labels: Labels, rows: Ids) -> tuple[Labels, Ids]:
    """Return labels for all nodes of which something is known, and which of them are idle.

    labels: `(n,)` the communities that were found; `NOBODY` for nodes without edges. These stay in
        their community before; those of the window, `rows`, are alone if they had none.
    """
    n_found = int(labels.max(initial=NOBODY)) + 1
    idle = np.flatnonzero((labels < 0) & (last.likeliest >= 0))
    labels = labels.copy()
    labels[idle] = _continued(last.likeliest, labels, n_found)[last.likeliest[idle]]
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


def _rest(evidence: Rows, window: Rows) -> int:
    """Return how many windows sums wait after one was searched, so that this costs a fraction."""
    return min(8 * len(evidence.indices) // max(len(window.indices), _FEW), _LONGEST_PAUSE)


def _pause(n_vain: int) -> int:
    """Return how many windows to wait after so many times in vain.

    >>> [_pause(n_vain) for n_vain in (0, 1, 2, 3, 10)]
    [0, 1, 2, 4, 64]
    """
    return min((1 << min(max(n_vain, 0), _LONGEST_PAUSE)) >> 1, _LONGEST_PAUSE)


def _is_small(hypothesis: Hypothesis, aligned: Aligned) -> bool:
    return len(hypothesis.evidence.indices) + len(aligned.window.indices) <= _SMALL


def _is_weighted(window: Rows) -> bool:
    return len(window.weights) > 0 and bool(window.weights.min() < window.weights.max())
