"""What is known of some nodes' communities decides last, about what is published and remembered.

The hypotheses are followed without it, so that they are judged by the edges alone. From what the
leader has found, belief propagation goes on with priors for the known nodes, as in `bp.known`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_icd.core.arrays import NOBODY, Ids, Labels
from stream_icd.methods.bp.known import KnownHere, believed_with
from stream_icd.methods.bp.level_graph import LevelGraph, entries_at, level_of
from stream_icd.methods.bp.memberships import Memberships
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.bp.partition import match_labels
from stream_icd.methods.bp.posterior import Posterior, tidied, tidy
from stream_icd.methods.bp.prior import MOST_TRUST, Prior, trusted
from stream_icd.methods.memory.follow import FoundByHypotheses, WindowStep, weighted
from stream_icd.methods.memory.memory import Memory
from stream_icd.methods.memory.nodes import Aligned


class Informed(NamedTuple):
    """The communities of a window with what is known of some nodes."""

    known: Posterior
    given: Labels  # the label of each node, (n,), of those in `present`; `NOBODY` if not known
    present: Ids  # labels that remembered nodes have, (l,)
    of_label: Labels  # the community of each of these, (l,); `NOBODY` if no node is in it
    fixed: bool
    ids: Ids  # the stable ids of these communities, (l,)


def informed(
    step: WindowStep, before: Aligned, found: FoundByHypotheses, given: KnownHere
) -> Informed:
    """Return the communities that are published if those of some nodes are known."""
    known, labels, present = found.known, given.labels, given.present
    if not len(present):
        return Informed(known, labels, present, np.empty(0, np.int32), given.fixed, present)
    of_label = match_labels(labels, known.likeliest, len(present), known.n_communities)
    certain = np.append(of_label, np.int32(NOBODY))[labels]
    communities, shares = known.communities.copy(), known.shares.copy()
    is_known = (certain >= 0) & (given.fixed or step.find is None)
    total = shares[is_known].sum(axis=1)
    communities[is_known], shares[is_known] = NOBODY, 0.0
    communities[is_known, 0], shares[is_known, 0] = certain[is_known], total
    nodes, graph, parameters = _evidence(step, before, found)
    if step.find is None and len(nodes):
        by_filter = found.hypotheses[found.leader].kind.by == "filter"
        recalled = _recalled(step, before, found, nodes) if by_filter else None
        own, beliefs = believed_with(
            graph,
            known.likeliest[nodes],
            certain[nodes],
            parameters,
            fixed=given.fixed,
            recalled=recalled,
        )
        if by_filter:
            communities[nodes], shares[nodes] = beliefs
        communities[nodes, 0] = own
    numbers = np.full(max(int(communities.max()), int(of_label.max())) + 2, NOBODY, np.int32)
    after = tidied(known._replace(communities=communities, shares=shares))
    numbers[communities[:, 0]] = after.likeliest  # the last for -1
    none = np.empty(0, np.int64)
    return Informed(after, labels, present, numbers[of_label], given.fixed, none)


def _evidence(
    step: WindowStep, before: Aligned, found: FoundByHypotheses
) -> tuple[Ids, LevelGraph, BpParameters]:
    """Return the graph in which the leader found its communities, and which nodes have edges."""
    lead, parameters = found.hypotheses[found.leader].kind, step.parameters
    edges, exponent = before.window, parameters.weight_exponent
    if lead.by != "filter":
        summed = found.hypotheses[found.leader if lead.by == "sum" else 0]
        edges, exponent = summed.evidence, summed.kind.between
    nodes = np.flatnonzero(np.diff(edges.indptr) > 0)
    inner = entries_at(edges, nodes)
    if lead.by == "weighted" and step.weigh is not None:
        return nodes, weighted(step.weigh, inner), step.weigh.parameters
    return nodes, level_of(inner.comparable(exponent)), parameters


def _recalled(
    step: WindowStep, before: Aligned, found: FoundByHypotheses, nodes: Ids
) -> Prior | None:
    """Return what was believed of these nodes before the window, as communities found in it."""
    last, labels = before.memory.known, found.known.likeliest
    if found.anew:
        return None
    n_last = last.n_communities
    names = match_labels(labels, last.likeliest, found.known.n_communities, n_last)
    goes_on = np.flatnonzero(names < n_last)
    into = np.full(n_last + 1, NOBODY, np.int32)  # the last for -1
    into[names[goes_on]] = goes_on
    trust = np.float32(trusted(last.stay or step.parameters.stay))
    return Prior(*tidy(into[last.communities[nodes]], last.shares[nodes] * trust))


def ids_with_known(
    ids: Ids, next_id: int, now: Informed, before: Memory
) -> tuple[Ids, int, Informed]:
    """Return the ids of the communities, `(K,)`, the first id not used yet, and ids of labels.

    A label keeps the id of the community that its nodes were in. Another community that went on
    with this id is a new one.
    """
    last = before.known
    names = match_labels(now.given, last.likeliest, len(now.present), last.n_communities)
    ids = ids.copy()
    for own, name in zip(now.of_label, names, strict=True):
        if own < 0 or name >= last.n_communities or ids[own] == before.community_ids[name]:
            continue
        others = np.flatnonzero(ids == before.community_ids[name])
        ids[others] = next_id
        ids[own], next_id = before.community_ids[name], next_id + len(others)
    return ids, next_id, now._replace(ids=np.append(ids, NOBODY)[now.of_label])


def memberships_with(found: Memberships, now: Informed, rows: Ids) -> Memberships:
    """Return the memberships of the nodes `rows`, of which those of one label are known before.

    found: what edges say of them, `(len(rows),)`. By Bayes' rule, the odds of a known node for its
        community are multiplied by those of the prior.
    """
    labels, given = now.known.likeliest, now.given[rows]
    own = labels[rows]
    as_known = (given >= 0) & (np.append(now.of_label, np.int32(NOBODY))[given] == own)
    sizes = np.bincount(own, minlength=now.known.n_communities)[own] / len(rows)
    odds = 1 + MOST_TRUST / (1 - MOST_TRUST) / sizes
    factor = np.where(as_known, odds, 1.0)
    total = 1 + found.probabilities * (factor - 1)
    probabilities, second = found.probabilities * factor / total, found.second_probabilities / total
    if now.fixed:
        probabilities, second = np.where(as_known, 1.0, probabilities), second * ~as_known
    seconds = np.where(second > 0, found.seconds, np.int32(NOBODY))
    own_shares = np.minimum(probabilities, 1.0).astype(np.float32)
    return Memberships(own_shares, seconds, second.astype(np.float32))
