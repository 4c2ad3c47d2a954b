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
from stream_icd.methods.bp.posterior import Posterior, tidy
from stream_icd.methods.bp.prior import MOST_TRUST, Prior, trusted
from stream_icd.methods.memory.follow import Followed, WindowStep
from stream_icd.methods.memory.memory import Memory
from stream_icd.methods.memory.nodes import Aligned


class Informed(NamedTuple):
    """The communities of a window with what is known of some nodes."""

    posterior: Posterior
    labels: Labels  # the label of each node, (n,), of those in `present`; `NOBODY` if not known
    present: Ids  # labels that remembered nodes have, (l,)
    of_label: Labels  # the community of each of these, (l,); `NOBODY` if no node is in it
    fixed: bool
    ids: Ids  # the stable ids of these communities, (l,)

    def id_of_label(self) -> dict[int, int]:
        """Return the stable id of the community of each label."""
        return dict(zip(self.present.tolist(), self.ids.tolist(), strict=True))


def informed_by(
    known: KnownHere, step: WindowStep, aligned: Aligned, followed: Followed
) -> Informed:
    """Return the communities that are published if those of some nodes are known."""
    posterior, labels, present = followed.posterior, known.labels, known.present
    if not len(present):
        return Informed(posterior, labels, present, np.empty(0, np.int32), known.fixed, present)
    likeliest, k = posterior.likeliest, posterior.n_communities
    of_label = match_labels(labels, likeliest, len(present), k)
    certain = np.append(of_label, np.int32(NOBODY))[labels]
    communities, shares = posterior.communities.copy(), posterior.shares.copy()
    is_certain = (certain >= 0) & (known.fixed or step.find is None)
    total = shares[is_certain].sum(axis=1)
    communities[is_certain], shares[is_certain] = NOBODY, 0.0
    communities[is_certain, 0], shares[is_certain, 0] = certain[is_certain], total
    nodes, graph, parameters = _evidence(step, aligned, followed)
    if step.find is None and len(nodes):
        by_filter = followed.hypotheses[followed.leader].kind.by == "filter"
        recalled = _recalled(step, aligned, followed, nodes) if by_filter else None
        own, beliefs = believed_with(
            graph,
            likeliest[nodes],
            certain[nodes],
            parameters,
            fixed=known.fixed,
            recalled=recalled,
        )
        if by_filter:
            communities[nodes], shares[nodes] = beliefs
        communities[nodes, 0] = own
    numbers = np.full(max(int(communities.max()), int(of_label.max())) + 2, NOBODY, np.int32)
    after = posterior._replace(communities=communities, shares=shares).tidied()
    numbers[communities[:, 0]] = after.likeliest  # the last for -1
    no_ids = np.empty(0, np.int64)
    return Informed(after, labels, present, numbers[of_label], known.fixed, no_ids)


def _evidence(
    step: WindowStep, aligned: Aligned, followed: Followed
) -> tuple[Ids, LevelGraph, BpParameters]:
    """Return the graph in which the leader found its communities, and which nodes have edges."""
    leading, parameters = followed.hypotheses[followed.leader], step.parameters
    edges, exponent = aligned.window, parameters.weight_exponent
    if leading.kind.by != "filter":
        summed = leading if leading.kind.by == "sum" else followed.hypotheses[0]
        edges, exponent = summed.evidence, summed.kind.between
    nodes = np.flatnonzero(np.diff(edges.indptr) > 0)
    inner = entries_at(edges, nodes)
    if leading.kind.by == "weighted" and step.weigh is not None:
        return nodes, step.weigh.level(inner), step.weigh.parameters
    return nodes, level_of(inner.comparable(exponent)), parameters


def _recalled(step: WindowStep, aligned: Aligned, followed: Followed, nodes: Ids) -> Prior | None:
    """Return what was believed of these nodes before the window, as communities found in it."""
    if followed.is_new:
        return None
    last, k = aligned.memory.posterior, followed.posterior.n_communities
    names = match_labels(followed.posterior.likeliest, last.likeliest, k, last.n_communities)
    goes_on = np.flatnonzero(names < last.n_communities)
    into = np.full(last.n_communities + 1, NOBODY, np.int32)  # the last for -1
    into[names[goes_on]] = goes_on
    trust = np.float32(trusted(last.stay or step.parameters.stay))
    return Prior(*tidy(into[last.communities[nodes]], last.shares[nodes] * trust))


def ids_with_known(
    ids: Ids, next_id: int, informed: Informed, before: Memory
) -> tuple[Ids, int, Informed]:
    """Return the ids of the communities, `(K,)`, the first id not used yet, and ids of labels.

    A label keeps the id of the community that its nodes were in. Another community that went on
    with this id is a new one.
    """
    last, n_labels = before.posterior, len(informed.present)
    names = match_labels(informed.labels, last.likeliest, n_labels, last.n_communities)
    ids = ids.copy()
    for own, name in zip(informed.of_label, names, strict=True):
        if own < 0 or name >= last.n_communities or ids[own] == before.community_ids[name]:
            continue
        others = np.flatnonzero(ids == before.community_ids[name])
        ids[others] = next_id
        ids[own], next_id = before.community_ids[name], next_id + len(others)
    return ids, next_id, informed._replace(ids=np.append(ids, NOBODY)[informed.of_label])


def memberships_with(found: Memberships, informed: Informed, rows: Ids) -> Memberships:
    """Return the memberships of the nodes `rows`, of which those of one label are known before.

    found: what edges say of them, `(len(rows),)`. By Bayes' rule, the odds of a known node for its
        community are multiplied by those of the prior.
    """
    labels, own = informed.labels[rows], informed.posterior.likeliest[rows]
    as_known = (labels >= 0) & (np.append(informed.of_label, np.int32(NOBODY))[labels] == own)
    sizes = np.bincount(own, minlength=informed.posterior.n_communities)[own] / len(rows)
    odds = 1 + MOST_TRUST / (1 - MOST_TRUST) / sizes
    factor = np.where(as_known, odds, 1.0)
    total = 1 + found.probabilities * (factor - 1)
    probabilities, second = found.probabilities * factor / total, found.second_probabilities / total
    if informed.fixed:
        probabilities, second = np.where(as_known, 1.0, probabilities), second * ~as_known
    seconds = np.where(second > 0, found.seconds, np.int32(NOBODY))
    own_shares = np.minimum(probabilities, 1.0).astype(np.float32)
    return Memberships(own_shares, seconds, second.astype(np.float32))
