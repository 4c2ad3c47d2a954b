"""One sweep of belief propagation over all nodes: the compiled loop, and the arrays it works on.

A sweep visits the nodes of a large graph in blocks, which are the same on any number of threads.
Nodes of a block read each other's new beliefs, and those of other blocks as they were before the
sweep.

Two things keep a sweep short. A node is *certain* if its message to every neighbour would name one
community alone: then no messages are computed, and neighbours read its community. And a node is
visited only if it is due: a neighbour's belief has changed by more than `TOLERANCE` since (residual
belief propagation, [14] in docs/method.md).
"""

from __future__ import annotations

from math import exp, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_icd.core.arrays import Floats
from stream_icd.core.compiled import FAR, compiled, prefetch, unsigned
from stream_icd.methods.bp.level_graph import LevelGraph

TOLERANCE = 5e-3
"""A belief that changed by less does not wake its neighbours; sweeps end when a smaller share of
the nodes changed community."""

N_KEPT = 4
"""Communities kept per node. Eight took twice as long and gave no better result."""

LEAST_SHARE = 1e-3
"""A community is not kept if no message of the node could give it this probability, and a node is
certain if none could give it to all other communities: they would take time and change nothing. No
community counts as smaller than this share of a node, or of the mean volume."""

MOST_TRUST = 0.9
"""Upper limit of the weight of remembered beliefs, with news and without: with a higher one, moves
of nodes are detected windows later."""

LARGE, TINY = 1e100, 1e-300
"""Products are kept below the first, the factors of one edge and of the prior too: so neither they
nor the product of two of them overflow."""
_MOST_LOG_ODDS = log(LARGE)


class Prior(NamedTuple):
    """Remembered beliefs of each node: `communities` (n, N_KEPT), unused places last and -1.

    `shares` (n, N_KEPT) are their probabilities; their sum is at most 1.
    """

    communities: NDArray[np.int32]
    shares: NDArray[np.float32]


class Beliefs(NamedTuple):
    """Beliefs about each node: `communities` (n, N_KEPT), most probable first, -1 for none.

    `shares` (n, N_KEPT) are their probabilities. For each entry (i, k) of the adjacency,
    `messages` (2E, N_KEPT) holds the probabilities of k's communities that k sends to i; they are
    not used if k is `certain` (n,): then it sends 1 for its only community.

    If there are several blocks, each array but `shares` is twice as long: the second half is what
    nodes of other blocks read, as it was before the sweep, and the messages to them.
    """

    communities: NDArray[np.int32]
    shares: NDArray[np.float32]
    messages: NDArray[np.float32]
    certain: NDArray[np.bool_]


class CommunityField(NamedTuple):
    """State of each community during a sweep, all (K,)."""

    prior: Floats
    excess: Floats  # a_c
    log_odds: Floats  # log(1 + a_c), for weights other than 1
    pull: Floats  # log of the prior's factor for each unit of strength


class Visits(NamedTuple):
    """What the last visit of each node found, all (n,); their sums teach μ and η.

    is_due is twice as long if there are several blocks, the second half for nodes of other blocks.
    evidence is empty if nobody asks for it: its logarithms take a twentieth of the time.
    """

    within: Floats  # weight of its edges that exist because both ends share a community
    evidence: Floats  # its part of minus the Bethe free energy but for μ of each edge, in nats
    stayed: Floats  # remembered belief that still holds
    is_due: NDArray[np.bool_]  # whether a neighbour's belief has changed since


@compiled(error_model="numpy")
def sweep(
    graph: LevelGraph,
    opposite: NDArray[np.int32],
    beliefs: Beliefs,
    field: CommunityField,
    visits: Visits,
    recalled: Prior,
    trust: float,
    stay: float,
    start: int,
    stop: int,
) -> int:
    """Update the beliefs of the nodes start..stop-1 that are due, and their messages, in place.

    opposite: position of entry (k, i) for each entry (i, k), (2E,).
    trust, stay: weight of remembered beliefs in the prior, and η.

    Returns how many nodes changed their most probable community.

    Long on purpose: with helpers for its steps, which count references to each of their arrays at
    each node, a sweep takes two to four times as long.
    """
    weights, strengths = graph.weights, graph.strengths
    indptr, indices, opposite = unsigned(graph.indptr), unsigned(graph.indices), unsigned(opposite)
    communities, shares, messages, certain = beliefs
    priors, excess, log_odds, pulls = field
    within_of, evidence_of, stayed_of, is_due = visits
    remembered, remembered_shares = recalled
    n_nodes, n_entries, k, most = len(strengths), len(indices), len(priors), 0
    for node in range(start, stop):
        most = max(most, graph.indptr[node + 1] - graph.indptr[node])
    # Work arrays: products over the neighbours of a node for each community, and those touched.
    products, inverses, touched = np.zeros(k), np.ones(k), np.empty(k, np.int32)
    of_entries = np.empty((most, N_KEPT))  # 1 / factor of each entry's communities
    top, top_products = np.empty(N_KEPT, np.int32), np.empty(N_KEPT)  # those with the largest
    # With more, beliefs that are too sure would confirm each other until η is 1.
    n_changed, stay = 0, min(stay, MOST_TRUST)
    for node in range(start, stop):
        if not is_due[node]:
            continue
        is_due[node] = False
        if n_nodes >= FAR and node + 4 < stop:
            for entry in range(indptr[node + 4], indptr[node + 5]):
                neighbour = indices[entry]
                if not start <= neighbour < stop:
                    neighbour += n_nodes
                prefetch(communities, neighbour)
                prefetch(certain, neighbour)
        first, end, strength = indptr[node], indptr[node + 1], strengths[node]
        # The products of all factors, for communities of neighbours and remembered ones.
        n_touched, touched_prior, moved, strongest = 0, 0.0, 1.0, 1.0
        scale, log_scale = 1.0, 0.0
        if trust > 0:
            for kept in range(N_KEPT):
                moved -= trust * remembered_shares[node, kept]
            moved = max(moved, 0.0)
            for kept in range(N_KEPT):
                c = remembered[node, kept]
                if c < 0:
                    break
                prior = moved * priors[c] + trust * remembered_shares[node, kept]
                products[c] = max(prior * _pull(strength, pulls[c]), TINY)
                touched[n_touched] = c
                n_touched += 1
                touched_prior += prior
        for entry in range(first, end):
            neighbour, weight, largest = indices[entry], weights[entry], 0.0
            if not start <= neighbour < stop:
                neighbour += n_nodes
            is_certain = certain[neighbour]
            for kept in range(N_KEPT):
                c = communities[neighbour, kept]
                if c < 0:
                    break
                product = products[c]
                if product == 0.0:
                    prior = moved * priors[c]
                    product = prior * scale * _pull(strength, pulls[c])
                    touched[n_touched] = c
                    n_touched += 1
                    touched_prior += prior
                factor = excess[c]
                if weight != 1.0:
                    factor = exp(min(weight * log_odds[c], _MOST_LOG_ODDS)) - 1.0
                factor = 1.0 + factor * (1.0 if is_certain else messages[entry, kept])
                of_entries[entry - first, kept] = 1.0 / factor
                strongest = max(strongest, factor)
                product *= factor
                products[c] = max(product, TINY)
                largest = max(largest, product)
            if largest > LARGE:
                scale /= LARGE
                log_scale += log(LARGE)
                for rank in range(n_touched):
                    products[touched[rank]] = max(products[touched[rank]] / LARGE, TINY)
        # Their sum over all K: an untouched community contributes its prior.
        best, largest, others = touched[0], 0.0, max(1.0 - touched_prior, 0.0) * scale
        for rank in range(n_touched):
            product = products[touched[rank]]
            others += min(product, largest)
            if product > largest:
                best, largest = touched[rank], product
        evidence, within, log_shared, shared_edges = others + largest, 0.0, 0.0, 1.0
        least = LEAST_SHARE * evidence / strongest
        if largest <= least:  # beliefs spread over thousands of communities: the best ones count
            least = 0.0
        if not least < largest <= evidence < np.inf:  # or NaN: the node stays as it is
            for rank in range(n_touched):
                products[touched[rank]] = 0.0
            continue
        top[:] = -1
        top_products[:] = 0.0
        certain[node] = others * strongest < LEAST_SHARE * evidence
        if certain[node]:
            top[0], top_products[0] = best, evidence
            for entry in range(first, end):
                neighbour = indices[entry]
                if not start <= neighbour < stop:
                    neighbour += n_nodes
                for kept in range(N_KEPT):
                    if communities[neighbour, kept] == best:
                        inverse = of_entries[entry - first, kept]
                        within += weights[entry] * (1.0 - inverse)
                        shared_edges *= inverse
                if shared_edges < 1.0 / LARGE:
                    log_shared -= log(shared_edges)
                    shared_edges = 1.0
        else:
            # The communities with the largest products, descending, padded with -1.
            for rank in range(n_touched):
                c = touched[rank]
                product = products[c]
                if not product > max(top_products[N_KEPT - 1], least):
                    continue
                place = N_KEPT - 1
                while place > 0 and top_products[place - 1] < product:
                    top[place], top_products[place] = top[place - 1], top_products[place - 1]
                    place -= 1
                top[place], top_products[place] = c, product
            # Send each neighbour the node's belief divided by that neighbour's own message. The
            # weight of an edge that exists because both ends share a community is estimated from
            # the messages of both ends.
            for entry in range(first, end):
                neighbour, back, rest, shared = indices[entry], opposite[entry], evidence, 0.0
                if not start <= neighbour < stop:
                    neighbour, back = neighbour + n_nodes, back + n_entries
                for kept in range(N_KEPT):
                    c = communities[neighbour, kept]
                    if c < 0:
                        break
                    inverse = of_entries[entry - first, kept]
                    inverses[c] = inverse
                    rest -= products[c] * (1.0 - inverse)
                rest = max(rest, top_products[0] * inverses[top[0]])  # less only by rounding
                per_rest = 1.0 / rest
                for kept in range(N_KEPT):
                    c = top[kept]
                    if c < 0:
                        break
                    share, inverse = top_products[kept] * per_rest, inverses[c]
                    messages[back, kept] = share * inverse
                    shared += share * (1.0 - inverse)  # the factor less 1, times the message
                within += weights[entry] * shared / (1.0 + shared)
                shared_edges *= 1.0 + shared
                if shared_edges > LARGE:
                    log_shared += log(shared_edges)
                    shared_edges = 1.0
                for kept in range(N_KEPT):
                    c = communities[neighbour, kept]
                    if c < 0:
                        break
                    inverses[c] = 1.0
        within_of[node] = within
        if len(evidence_of):
            log_shared += -log(shared_edges) if certain[node] else log(shared_edges)
            evidence_of[node] = log(evidence) + log_scale - 0.5 * log_shared
        # The node's belief, and who has to know.
        n_changed += top[0] != communities[node, 0]
        change, per_evidence = 0.0, 1.0 / evidence
        for kept in range(N_KEPT):
            c, share = communities[node, kept], shares[node, kept]
            now, now_share = top[kept], np.float32(top_products[kept] * per_evidence)
            if now < 0 and c < 0:
                break
            change = max(change, abs(now_share - share) if now == c else max(now_share, share))
            communities[node, kept], shares[node, kept] = now, now_share
        if change > TOLERANCE:
            for entry in range(first, end):
                neighbour = indices[entry]
                is_due[neighbour if start <= neighbour < stop else neighbour + n_nodes] = True
        if trust > 0:
            # The probability that the node is in a remembered community because it stayed there.
            # The beliefs are those with a prior that weighs the remembered ones by `trust`, and
            # the rest by `moved`; each is corrected to a prior that weighs them by η.
            moved_by_stay, stayed, total, elsewhere = 1.0, 0.0, 0.0, 1.0
            for kept in range(N_KEPT):
                moved_by_stay -= stay * remembered_shares[node, kept]
            moved_by_stay = max(moved_by_stay, 0.0)
            for kept in range(N_KEPT):
                c, before = remembered[node, kept], remembered_shares[node, kept]
                if c < 0:
                    break
                for believed in range(N_KEPT):
                    if top[believed] == c and before > 0:
                        share = shares[node, believed]
                        by_prior = share / (trust * before + moved * priors[c])
                        stayed += by_prior * stay * before
                        total += by_prior * (stay * before + moved_by_stay * priors[c])
                        elsewhere -= share
            total += max(elsewhere, 0.0) * moved_by_stay / max(moved, TINY)
            stayed_of[node] = stayed / max(total, TINY)
        for rank in range(n_touched):
            products[touched[rank]] = 0.0
    return n_changed


@compiled(error_model="numpy")
def _pull(strength: float, pull: float) -> float:
    """The prior's factor for a node of this strength."""
    if pull == 0.0:
        return 1.0
    return exp(max(min(strength * pull, _MOST_LOG_ODDS), -_MOST_LOG_ODDS))
