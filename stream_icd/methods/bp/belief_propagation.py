"""Belief propagation: each node's most probable community, not the single best partition.

docs/method.md has the model and equations (5), (6) and (8): μ is the mixing, vol_c the volume of
community c, 1 + a_c the factor by which an edge inside it is more probable. It lacks two things:

- The expected volume is v̂_c = vol_c^s · (2E/K)^(1 − s) in place of vol_c. With s = 1 communities
  have any size (Prokhorenkova and Tikhonov, WWW 2019), with s = 0 the same: the planted partition
  whose likelihood is modularity (Newman 2016). The prior is n_c^s exp(−(1 − μ) d_i vol_c / v̂_c).
- An edge of weight w counts as w edges: a_c becomes (1 + a_c)^w − 1. `find_communities` first
  scales the weights to mean 1; in another unit they would count as more or fewer edges.

A sweep visits the nodes of a large graph in blocks, which are the same on any number of threads.
Nodes of a block read each other's new beliefs, and those of other blocks as they were before it.
A node is *certain* if its message to every neighbour would name one community alone: then no
messages are computed, and neighbours read its community. A node is visited only if it is due: a
neighbour's belief has changed since (residual belief propagation, [14] in docs/method.md).
"""

from __future__ import annotations

from functools import partial
from math import exp, inf, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_icd.core.arrays import Floats, Labels
from stream_icd.core.compiled import FAR, LARGE, compiled, in_threads, prefetch, unsigned
from stream_icd.methods.bp.level_graph import LevelGraph
from stream_icd.methods.bp.likelihood import bounded_mixing
from stream_icd.methods.bp.prior import MOST_TRUST, N_KEPT, Prior, trusted, uninformed_prior
from stream_icd.methods.quality.partition import partition_code

_N_BLOCKS = 4
"""Blocks of a large graph, with about as many entries each: the most threads of a sweep."""

_TOLERANCE = 5e-3
"""A belief that changed by less does not wake its neighbours; sweeps end when a smaller share of
the nodes changed community."""

_LEAST_SHARE = 1e-3
"""A community is not kept if no message of the node could give it this probability, and a node is
certain if none could give it to all other communities: they would take time and change nothing. No
community counts as smaller than this share of a node, or of the mean volume."""

_HUGE, _TINY = 1e100, 1e-300
"""Products are kept below the first, the factors of one edge and of the prior too: so neither they
nor the product of two of them overflow."""
_MOST_LOG_ODDS = log(_HUGE)


class PlantedModel(NamedTuple):
    mixing: float  # μ in (0, 1) at first; the sweeps learn the final one from the graph
    size_spread: float  # s in [0, 1]
    n_communities: int  # K


class _Marginals(NamedTuple):
    """The result of belief propagation: `communities` and `shares` as in `_Beliefs`."""

    communities: NDArray[np.int32]
    shares: NDArray[np.float32]
    mixing: float  # the learned μ
    stay: float  # the learned η
    saved: float  # log Z in nats, over that without communities; means little while nodes move
    unsettled: float  # the fraction of the nodes that the last sweep moved

    @property
    def likeliest(self) -> Labels:
        """The most probable community of each node, (n,): of `start`; some may become empty."""
        return self.communities[:, 0].copy()

    @property
    def beliefs(self) -> Prior:
        """What is believed of each node."""
        return Prior(self.communities, self.shares)

    def bits(self, graph: LevelGraph, n_communities: int) -> float:
        """The description length of beliefs, bits per edge, less that without communities.

        docs/method.md, (4): −log Z, which sums over all partitions, plus the cost of the sizes. The
        prior of a node in Z is n_c / N. In `description_length`, the sizes are known beforehand, so
        that the last nodes cost nothing: log N! − Σ log n_c! instead of −Σ n_c log n_c / N.
        """
        sizes, n_linked = _expected_sizes(
            self.communities, self.shares, graph.n_linked, n_communities
        )
        is_linked = n_linked > 0.5
        if not is_linked.any():  # beliefs so faint that they describe nothing
            return inf
        log_prior = (n_linked[is_linked] * np.log(sizes[is_linked] / sizes.sum())).sum()
        nats = partition_code(n_linked[is_linked]) + log_prior - self.saved
        return float(nats / graph.n_edges / np.log(2))


def believe(
    graph: LevelGraph,
    start: Labels,
    n_communities: int,
    model: PlantedModel,
    max_sweeps: int,
    recalled: Prior | None = None,
    stay: float = 0.0,
    learn_stay: bool = True,
    exact: bool = True,
) -> _Marginals:
    """The beliefs about each node, over the communities of `start` and `recalled`.

    A node without edges, or with evidence past the range of floating point, stays where it starts.

    stay: initial η, in 0..1; with 0, `recalled` is not used.
    learn_stay: whether the sweeps correct η, and weigh the shares of `recalled` by `trusted`; else
        the shares are used as they are, times η.
    exact: whether the last sweep visits all nodes, so that `saved` is exact; else it is 0. The
        sweeps before visit those of which a neighbour's belief has changed.
    """
    recalled = uninformed_prior(len(start)) if recalled is None else recalled
    for labels, least in ((start, 0), (recalled.communities, -1)):
        if not least <= labels.min() <= labels.max() < n_communities:
            raise ValueError(
                f"labels {labels.min()}..{labels.max()} are not all in {least}..{n_communities}-1"
            )
    n_nodes, mixing, saved, unsettled = len(start), model.mixing, 0.0, 0.0
    n_blocks = _N_BLOCKS if n_nodes >= LARGE else 1
    # Of about as many entries, not nodes: a block of hubs would keep the others waiting.
    inner = np.searchsorted(graph.indptr, graph.indptr[-1] * np.arange(1, n_blocks) / n_blocks)
    bounds, copies = [0, *inner.tolist(), n_nodes], min(n_blocks, 2)
    certain = uninformed_prior(n_nodes)  # each node of its start community
    certain.communities[:, 0], certain.shares[:, 0] = start, 1.0
    beliefs = _Beliefs(
        np.concatenate([certain.communities] * copies),
        certain.shares,
        np.empty((copies * len(graph.indices), N_KEPT), np.float32),
        np.ones(copies * n_nodes, np.bool_),
    )
    opposite, is_linked = _opposite_entries(graph), graph.indptr[1:] > graph.indptr[:-1]
    weight, is_due = float(graph.strengths[is_linked].sum()), np.zeros(copies * n_nodes, np.bool_)
    is_due[:n_nodes] = is_linked
    within, evidence, stayed = (np.zeros(n) for n in (n_nodes, n_nodes * exact, n_nodes))
    visits = _Visits(within, evidence, stayed, is_due)
    linked_shares = recalled.shares.compress(is_linked, axis=0)
    # In float64: a sum of many float32 shares loses digits, and η is a ratio of such sums.
    remembered = float(linked_shares.sum(dtype=np.float64)) if stay > 0 else 0.0
    stay = stay if remembered else 0.0

    def visit(first: int, end: int) -> int:
        return int(
            _sweep(graph, opposite, beliefs, field, visits, recalled, trust, stay, first, end)
        )

    settled = False
    for number in range(max_sweeps):
        field = _expected(beliefs, graph, n_communities, mixing, model)
        trust = float(trusted(stay)) if learn_stay else stay
        # The last sweep visits all: the evidence of a node is that of its last visit.
        if exact and (settled or number == max_sweeps - 1):
            is_due[:n_nodes] = is_linked
        n_changed = sum(in_threads(visit, bounds))
        # Only after all blocks: what a block reads must not depend on which thread was first.
        if copies > 1:
            in_threads(partial(_deliver, graph, beliefs, is_due), bounds)
        if exact:
            saved = float(evidence.sum()) + weight / 2 * log(mixing)
        unsettled = n_changed / n_nodes
        if weight > 0:
            mixing = bounded_mixing(1.0 - float(within.sum()) / weight)
        # Rounding may leave the ratio a little above 1.
        if stay > 0 and learn_stay:
            stay = min(float(stayed.sum()) / remembered, 1.0)
        if settled:
            break
        # The nodes that the first sweep visits early have seen only where others start.
        settled = number > 0 and n_changed <= _TOLERANCE * n_nodes
        if settled and not exact:
            break
    return _Marginals(beliefs.communities[:n_nodes], beliefs.shares, mixing, stay, saved, unsettled)


class _Beliefs(NamedTuple):
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


class _CommunityField(NamedTuple):
    """State of each community during a sweep, all (K,)."""

    prior: Floats
    excess: Floats  # a_c
    log_odds: Floats  # log(1 + a_c), for weights other than 1
    pull: Floats  # log of the prior's factor for each unit of strength


class _Visits(NamedTuple):
    """What the last visit of each node found, all (n,); their sums teach μ and η.

    is_due is twice as long if there are several blocks, the second half for nodes of other blocks.
    evidence is empty if nobody asks for it: its logarithms take a twentieth of the time.
    """

    within: Floats  # weight of its edges that exist because both ends share a community
    evidence: Floats  # its part of minus the Bethe free energy but for μ of each edge, in nats
    stayed: Floats  # remembered belief that still holds
    is_due: NDArray[np.bool_]  # whether a neighbour's belief has changed since


@compiled()
def _deliver(
    graph: LevelGraph, beliefs: _Beliefs, is_due: NDArray[np.bool_], first: int, end: int
) -> None:
    """Show the nodes first..end-1 what other blocks have sent, and others what they believe."""
    n_nodes, n_entries = len(graph.strengths), len(graph.indices)
    indptr, indices = unsigned(graph.indptr), unsigned(graph.indices)
    for node in range(first, end):
        for entry in range(indptr[node], indptr[node + 1]):
            sender = indices[entry]
            if not first <= sender < end:
                for slot in range(N_KEPT):
                    beliefs.messages[entry, slot] = beliefs.messages[entry + n_entries, slot]
        for slot in range(N_KEPT):
            beliefs.communities[node + n_nodes, slot] = beliefs.communities[node, slot]
        beliefs.certain[node + n_nodes] = beliefs.certain[node]
        is_due[node] |= is_due[node + n_nodes]
        is_due[node + n_nodes] = False


@compiled()
def _opposite_entries(graph: LevelGraph) -> NDArray[np.int32]:
    """The position of (j, i) for each entry (i, j) of a symmetric matrix with sorted rows: (2E,).

    Raises `ValueError` for any other matrix: messages would be written outside their array.
    """
    indptr, indices = unsigned(graph.indptr), unsigned(graph.indices)
    free = indptr[:-1].copy()  # of each row, the first entry whose opposite is not known
    opposite = np.empty(len(indices), np.int32)
    for node in range(len(free)):
        for entry in range(free[node], indptr[node + 1]):
            column = indices[entry]
            place = free[column]
            if place >= indptr[column + 1] or indices[place] != node:
                raise ValueError("the adjacency is not symmetric with sorted rows")
            opposite[entry], opposite[place] = place, entry
            free[column] += 1
    return opposite


@compiled(error_model="numpy")
def _expected(
    beliefs: _Beliefs, graph: LevelGraph, n_communities: int, mixing: float, model: PlantedModel
) -> _CommunityField:
    sizes, volumes = _expected_sizes(
        beliefs.communities, beliefs.shares, graph.strengths, n_communities
    )
    # A community that lost its nodes keeps a little volume, so that its odds stay finite.
    volumes = np.maximum(volumes, _LEAST_SHARE * graph.total / n_communities)
    mean = (graph.total / model.n_communities) ** (1 - model.size_spread)
    expected = volumes**model.size_spread * mean
    excess = (1 - mixing) / mixing * graph.total / expected
    prior = np.maximum(sizes, _LEAST_SHARE) ** model.size_spread
    pull = (1 - mixing) * (1 - volumes / expected)
    return _CommunityField(prior / prior.sum(), excess, np.log1p(excess), pull)


@compiled()
def _expected_sizes(
    communities: NDArray[np.int32], shares: NDArray[np.float32], values: Floats, n_communities: int
) -> tuple[Floats, Floats]:
    """Of each community, the expected number of its nodes, and the expected sum of their values."""
    sizes, sums = np.zeros(n_communities), np.zeros(n_communities)
    for node, value in enumerate(values):
        for slot in range(N_KEPT):
            c, share = communities[node, slot], shares[node, slot]
            if c < 0:
                break
            sizes[c] += share
            sums[c] += value * share
    return sizes, sums


@compiled(error_model="numpy")
def _sweep(
    graph: LevelGraph,
    opposite: NDArray[np.int32],
    beliefs: _Beliefs,
    field: _CommunityField,
    visits: _Visits,
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
        # Neighbours lie anywhere in memory: asked for four nodes ahead, they have come in time.
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
            for slot in range(N_KEPT):
                moved -= trust * remembered_shares[node, slot]
            moved = max(moved, 0.0)
            for slot in range(N_KEPT):
                c = remembered[node, slot]
                if c < 0:
                    break
                prior = moved * priors[c] + trust * remembered_shares[node, slot]
                # Never 0, which marks a community that the node has not met.
                products[c] = max(prior * _pull(strength, pulls[c]), _TINY)
                touched[n_touched] = c
                n_touched += 1
                touched_prior += prior
        for entry in range(first, end):
            neighbour, weight, largest = indices[entry], weights[entry], 0.0
            if not start <= neighbour < stop:
                neighbour += n_nodes
            is_certain = certain[neighbour]
            for slot in range(N_KEPT):
                c = communities[neighbour, slot]
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
                factor = 1.0 + factor * (1.0 if is_certain else messages[entry, slot])
                of_entries[entry - first, slot] = 1.0 / factor
                strongest = max(strongest, factor)
                product *= factor
                products[c] = max(product, _TINY)
                largest = max(largest, product)
            # All by one factor, that of communities not met included: only their ratios count.
            if largest > _HUGE:
                scale /= _HUGE
                log_scale += log(_HUGE)
                for rank in range(n_touched):
                    products[touched[rank]] = max(products[touched[rank]] / _HUGE, _TINY)
        # Their sum over all K: an untouched community contributes its prior.
        best, largest, rest_of_products = touched[0], 0.0, max(1.0 - touched_prior, 0.0) * scale
        for rank in range(n_touched):
            product = products[touched[rank]]
            rest_of_products += min(product, largest)
            if product > largest:
                best, largest = touched[rank], product
        evidence, within, log_shared, shared_edges = rest_of_products + largest, 0.0, 0.0, 1.0
        least = _LEAST_SHARE * evidence / strongest
        if largest <= least:  # beliefs spread over thousands of communities: the best ones count
            least = 0.0
        if not least < largest <= evidence < np.inf:  # or NaN: the node stays as it is
            for rank in range(n_touched):
                products[touched[rank]] = 0.0
            continue
        top[:] = -1
        top_products[:] = 0.0
        certain[node] = rest_of_products * strongest < _LEAST_SHARE * evidence
        if certain[node]:
            top[0], top_products[0] = best, evidence
            for entry in range(first, end):
                neighbour = indices[entry]
                if not start <= neighbour < stop:
                    neighbour += n_nodes
                for slot in range(N_KEPT):
                    if communities[neighbour, slot] == best:
                        inverse = of_entries[entry - first, slot]
                        within += weights[entry] * (1.0 - inverse)
                        shared_edges *= inverse
                if shared_edges < 1.0 / _HUGE:
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
                for slot in range(N_KEPT):
                    c = communities[neighbour, slot]
                    if c < 0:
                        break
                    inverse = of_entries[entry - first, slot]
                    inverses[c] = inverse
                    rest -= products[c] * (1.0 - inverse)
                rest = max(rest, top_products[0] * inverses[top[0]])  # less only by rounding
                per_rest = 1.0 / rest
                for slot in range(N_KEPT):
                    c = top[slot]
                    if c < 0:
                        break
                    share, inverse = top_products[slot] * per_rest, inverses[c]
                    messages[back, slot] = share * inverse
                    shared += share * (1.0 - inverse)  # the factor less 1, times the message
                within += weights[entry] * shared / (1.0 + shared)
                shared_edges *= 1.0 + shared
                if shared_edges > _HUGE:
                    log_shared += log(shared_edges)
                    shared_edges = 1.0
                for slot in range(N_KEPT):
                    c = communities[neighbour, slot]
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
        for slot in range(N_KEPT):
            c, share = communities[node, slot], shares[node, slot]
            now, now_share = top[slot], np.float32(top_products[slot] * per_evidence)
            if now < 0 and c < 0:
                break
            change = max(change, abs(now_share - share) if now == c else max(now_share, share))
            communities[node, slot], shares[node, slot] = now, now_share
        if change > _TOLERANCE:
            for entry in range(first, end):
                neighbour = indices[entry]
                is_due[neighbour if start <= neighbour < stop else neighbour + n_nodes] = True
        if trust > 0:
            # The probability that the node is in a remembered community because it stayed there.
            # The beliefs are those with a prior that weighs the remembered ones by `trust`, and
            # the rest by `moved`; each is corrected to a prior that weighs them by η.
            moved_by_stay, stayed, total, elsewhere = 1.0, 0.0, 0.0, 1.0
            for slot in range(N_KEPT):
                moved_by_stay -= stay * remembered_shares[node, slot]
            moved_by_stay = max(moved_by_stay, 0.0)
            for slot in range(N_KEPT):
                c, before = remembered[node, slot], remembered_shares[node, slot]
                if c < 0:
                    break
                for believed in range(N_KEPT):
                    if top[believed] == c and before > 0:
                        share = shares[node, believed]
                        by_prior = share / (trust * before + moved * priors[c])
                        stayed += by_prior * stay * before
                        total += by_prior * (stay * before + moved_by_stay * priors[c])
                        elsewhere -= share
            total += max(elsewhere, 0.0) * moved_by_stay / max(moved, _TINY)
            stayed_of[node] = stayed / max(total, _TINY)
        # Not all K of them: a sweep would take time in proportion to N K.
        for rank in range(n_touched):
            products[touched[rank]] = 0.0
    return n_changed


@compiled(error_model="numpy")
def _pull(strength: float, pull: float) -> float:
    if pull == 0.0:
        return 1.0
    return exp(max(min(strength * pull, _MOST_LOG_ODDS), -_MOST_LOG_ODDS))
