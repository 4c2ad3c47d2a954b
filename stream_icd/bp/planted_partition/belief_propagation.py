"""Belief propagation: each node's most probable community, not the single best partition.

The model has communities of volume vol_c (the sum of their strengths; 2E in total) and a mixing μ.
A pair of nodes i, j has on average μ d_i d_j / 2E edges. If both are in community c, it has
1 + a_c times as many, with a_c = (1 − μ)/μ · 2E / v̂_c. The expected volume under the model is
v̂_c = vol_c^s · (2E/K)^(1 − s). With s = 1 communities have any size: the independent LFR model of
Prokhorenkova and Tikhonov (WWW 2019). With s = 0 all have the same size: the planted partition
whose likelihood is modularity (Newman 2016).

A node's message to its neighbour j is its belief without j's own influence (Decelle, Krzakala,
Moore and Zdeborová 2011). Beliefs are sparse: each node keeps only its most probable communities.

    ψ_{i→j}(c) ∝ n_c^s · exp(−(1 − μ) d_i vol_c / v̂_c) · Π_{k ∈ N(i) \\ j} (1 + a_c ψ_{k→i}(c))

The mixing is learned from the graph by expectation maximisation, as in Decelle et al. After each
sweep, 1 − μ is the fraction of the edge weight that exists because both ends share a community:
the mean of x / (1 + x) with x = Σ_c a_c ψ_{i→j}(c) ψ_{j→i}(c).

In a stream, the beliefs of the last window are each node's prior (the dynamic model of Ghasemian,
Zhang, Clauset, Moore and Peel, Physical Review X 6, 031005, forward in time). The prior of node i
is (1 − η) times n_c^s, normalised to sum to 1, plus η times its remembered belief b_i(c). The stay
probability η is learned like the mixing: the fraction of remembered belief that still holds. The
remembered beliefs are overconfident, so the prior uses a lower probability (`trusted`).

An edge of weight w counts as w edges: a_c becomes (1 + a_c)^w − 1. `find_communities` first scales
the weights to mean 1; in another unit they would count as more or fewer edges.
"""

from __future__ import annotations

from math import exp, expm1, log, log1p
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_icd.bp.multilevel.level_graph import Labels, LevelGraph, members_of, reordered
from stream_icd.bp.planted_partition.likelihood import MIXING_RANGE
from stream_icd.graphs.compiled import compiled

N_KEPT = 4
"""Communities kept per node. Eight took twice as long and gave no better result."""

LEAST_MESSAGE = 1e-4
"""A community is not kept if no message of the node could give it this probability: it would take
time and change nothing."""

START_BELIEF = 0.9
"""Initial belief of each node in its start community."""

MOST_EVIDENCE = 50.0
"""Cap on the log odds of one edge, so that heavy weights do not overflow."""

MOST_PULL = 600.0
"""Cap on the absolute log of the prior's factor, so that hubs do not overflow."""

SETTLED = 5e-3
"""Sweeps end when less than this fraction of the nodes changes its most probable community."""

MOST_TRUST = 0.9
"""Upper limit of the weight of remembered beliefs: with a higher one, moves of nodes are detected
windows later."""

OVERCONFIDENCE = 3.0
"""Exponent of η in `trusted`; chosen on streams in which 2 to 40 % of the nodes move."""

LARGE, TINY = 1e200, 1e-300


class Model(NamedTuple):
    """The planted model: mixing μ in (0, 1), size spread s in [0, 1], number of communities K.

    The mixing is the initial value; the sweeps learn the final one from the graph.
    """

    mixing: float
    size_spread: float
    n_communities: int


class Beliefs(NamedTuple):
    """Beliefs about each node: `communities` (n, N_KEPT), most probable first, -1 for none.

    `shares` (n, N_KEPT) are their probabilities. For each entry (i, k) of the adjacency,
    `messages` (2E, N_KEPT) holds the probabilities of k's communities that k sends to i.
    """

    communities: NDArray[np.int32]
    shares: NDArray[np.float32]
    messages: NDArray[np.float32]


class Prior(NamedTuple):
    """Remembered beliefs of each node: `communities` (n, N_KEPT), unused places last and -1.

    `shares` (n, N_KEPT) are their probabilities; their sum is at most 1.
    """

    communities: NDArray[np.int32]
    shares: NDArray[np.float32]


class Marginals(NamedTuple):
    """The result of belief propagation: `communities` and `shares` as in `Beliefs`.

    `mixing` and `stay` are the learned μ and η. `saved` is the log evidence in nats: how much more
    probable the edges are under the model, summed over all partitions, than without communities.
    `unsettled` is the fraction of the nodes that the last sweep moved: `saved` means little while
    many still move.
    """

    communities: NDArray[np.int32]
    shares: NDArray[np.float32]
    mixing: float
    stay: float
    saved: float = 0.0
    unsettled: float = 0.0


class Field(NamedTuple):
    """State of each community during a sweep, all (K,)."""

    volumes: NDArray[np.float64]
    sizes: NDArray[np.float64]
    prior: NDArray[np.float64]
    excess: NDArray[np.float64]  # a_c
    log_odds: NDArray[np.float64]  # log(1 + a_c), for weights other than 1
    pull: NDArray[np.float64]  # log of the prior's factor for each unit of strength


class Swept(NamedTuple):
    """A sweep: how many nodes changed their most probable community, and what teaches μ and η.

    within: weight of the edges that exist because both ends share a community, of `weight` in all.
    stayed: remembered belief that still holds.
    evidence: minus the Bethe free energy but for the factor μ of each edge, in nats.
    """

    n_changed: int
    within: float
    weight: float
    stayed: float
    evidence: float


class Scratch(NamedTuple):
    """Work arrays for one node's products over its neighbours: (K,) each but the last.

    `of_entries` (most neighbours of a node, N_KEPT) holds 1 / factor of each entry's communities.
    """

    products: NDArray[np.float64]
    inverses: NDArray[np.float64]
    touched: NDArray[np.int32]
    of_entries: NDArray[np.float64]


def uninformed_prior(n_nodes: int) -> Prior:
    """The empty recollection, for the first window."""
    return Prior(np.full((n_nodes, N_KEPT), -1, np.int32), np.zeros((n_nodes, N_KEPT), np.float32))


def certainly(labels: Labels) -> Marginals:
    """Beliefs that put each node in one community with certainty."""
    communities, shares = uninformed_prior(len(labels))
    communities[:, 0], shares[:, 0] = labels, 1.0
    return Marginals(communities, shares, mixing=0.0, stay=0.0)


def likeliest_communities(
    graph: LevelGraph, start: Labels, n_communities: int, model: Model, max_sweeps: int
) -> Labels:
    """The most probable community of each node, (n,): labels of `start`; some may become empty."""
    return believe(graph, start, n_communities, model, max_sweeps).communities[:, 0].copy()


def believe(
    graph: LevelGraph,
    start: Labels,
    n_communities: int,
    model: Model,
    max_sweeps: int,
    recalled: Prior | None = None,
    stay: float = 0.0,
    learn_stay: bool = True,
) -> Marginals:
    """The beliefs about each node, over the communities of `start` and `recalled`.

    A node stays in its start community if it has no edges, or if its evidence exceeds the range of
    floating point.

    Sweeps visit the nodes community by community, and nodes are sorted this way in memory too. On a
    large graph this more than halves the time.

    stay: initial η, in 0..1; with 0, `recalled` is not used.
    learn_stay: whether the sweeps correct η, and weigh the shares of `recalled` by `trusted`; else
        the shares are used as they are, times η.
    """
    recalled = uninformed_prior(len(start)) if recalled is None else recalled
    for labels, least in ((start, 0), (recalled.communities, -1)):
        if not least <= labels.min() <= labels.max() < n_communities:
            raise ValueError(
                f"labels {labels.min()}..{labels.max()} are not all in {least}..{n_communities}-1"
            )
    order, _ = members_of(start, n_communities)
    in_order = Prior(recalled.communities[order], recalled.shares[order])
    beliefs, mixing, stay, saved, unsettled = _propagate(
        reordered(graph, order),
        start[order],
        n_communities,
        model,
        max_sweeps,
        in_order,
        stay,
        learn_stay,
    )
    communities, shares = np.empty_like(beliefs.communities), np.empty_like(beliefs.shares)
    communities[order], shares[order] = beliefs.communities, beliefs.shares
    return Marginals(communities, shares, mixing, stay, saved, unsettled)


@compiled(error_model="numpy")
def _propagate(
    graph: LevelGraph,
    start: Labels,
    n_communities: int,
    model: Model,
    max_sweeps: int,
    recalled: Prior,
    stay: float,
    learn_stay: bool,
) -> tuple[Beliefs, float, float, float, float]:
    n_nodes, saved, unsettled = len(start), 0.0, 0.0
    beliefs, field = _start(graph, start, n_communities)
    opposite = _opposite_entries(graph)
    degrees = graph.indptr[1:] - graph.indptr[:-1]
    scratch = Scratch(
        np.zeros(n_communities),
        np.ones(n_communities),
        np.empty(n_communities, np.int32),
        np.empty((degrees.max(), N_KEPT)),
    )
    mixing = model.mixing
    remembered = _remembered(graph, recalled) if stay > 0 else 0.0
    stay = stay if remembered else 0.0
    for number in range(max_sweeps):
        _expect(field, graph.total, mixing, model)
        trust = trusted(stay) if learn_stay else stay
        swept = _sweep(graph, opposite, beliefs, field, scratch, recalled, trust, stay)
        saved = swept.evidence + swept.weight / 2 * log(mixing)
        unsettled = swept.n_changed / n_nodes
        if swept.weight > 0:
            mixing = min(max(1.0 - swept.within / swept.weight, MIXING_RANGE[0]), MIXING_RANGE[1])
        if stay > 0 and learn_stay:
            stay = min(swept.stayed / remembered, 1.0)
        if number and swept.n_changed <= SETTLED * n_nodes:
            break
    return beliefs, mixing, stay, saved, unsettled


@compiled()
def _remembered(graph: LevelGraph, recalled: Prior) -> float:
    """Sum of the remembered shares over all nodes that have edges."""
    remembered = 0.0
    for node in range(len(recalled.shares)):
        if graph.indptr[node] < graph.indptr[node + 1]:
            remembered += recalled.shares[node].sum()
    return remembered


@compiled()
def _start(graph: LevelGraph, start: Labels, n_communities: int) -> tuple[Beliefs, Field]:
    beliefs = Beliefs(
        np.full((len(start), N_KEPT), -1, np.int32),
        np.zeros((len(start), N_KEPT), np.float32),
        np.zeros((len(graph.indices), N_KEPT), np.float32),
    )
    beliefs.communities[:, 0] = start
    beliefs.shares[:, 0] = START_BELIEF
    beliefs.messages[:, 0] = START_BELIEF
    volumes, sizes = np.zeros(n_communities), np.zeros(n_communities)
    for node, community in enumerate(start):
        volumes[community] += START_BELIEF * graph.strengths[node]
        sizes[community] += START_BELIEF
    unknown = np.empty((4, n_communities))
    return beliefs, Field(volumes, sizes, unknown[0], unknown[1], unknown[2], unknown[3])


@compiled()
def _opposite_entries(graph: LevelGraph) -> NDArray[np.int32]:
    """The position of (j, i) for each entry (i, j) of a symmetric matrix with sorted rows: (2E,).

    Raises `ValueError` for any other matrix: messages would be written outside their array.
    """
    free = graph.indptr[:-1].copy()
    opposite = np.empty(len(graph.indices), np.int32)
    for node in range(len(free)):
        for entry in range(graph.indptr[node], graph.indptr[node + 1]):
            column = graph.indices[entry]
            place = free[column]
            if place >= graph.indptr[column + 1] or graph.indices[place] != node:
                raise ValueError("the adjacency is not symmetric with sorted rows")
            opposite[entry] = place
            free[column] += 1
    return opposite


@compiled(error_model="numpy")
def _expect(field: Field, total: float, mixing: float, model: Model) -> None:
    """Update prior and excess of each community from the current volumes and sizes."""
    n_communities = len(field.volumes)
    mean = (total / model.n_communities) ** (1 - model.size_spread)
    odds = (1 - mixing) / mixing
    for c in range(n_communities):
        volume = max(field.volumes[c], 1e-3 * total / n_communities)
        expected = volume**model.size_spread * mean
        field.excess[c] = odds * total / expected
        field.log_odds[c] = log1p(field.excess[c])
        field.prior[c] = max(field.sizes[c], 1e-3) ** model.size_spread
        field.pull[c] = (1 - mixing) * (1 - volume / expected)
    field.prior[:] /= field.prior.sum()


@compiled(error_model="numpy")
def _sweep(
    graph: LevelGraph,
    opposite: NDArray[np.int32],
    beliefs: Beliefs,
    field: Field,
    scratch: Scratch,
    recalled: Prior,
    trust: float,
    stay: float,
) -> Swept:
    """Update the beliefs of each node in turn, and its messages, in place.

    Long on purpose: with helpers for its steps, which count references to each of their arrays at
    each node, a sweep takes up to twice as long.
    """
    indptr, indices, weights, strengths, _ = graph
    communities, shares, messages = beliefs
    volumes, sizes, priors, excess, log_odds, pulls = field
    products, inverses, touched, of_entries = scratch
    top, top_products = np.empty(N_KEPT, np.int32), np.empty(N_KEPT)
    n_changed, within, weight, stayed, saved = 0, 0.0, 0.0, 0.0, 0.0
    for node in range(len(strengths)):
        first, end, strength = indptr[node], indptr[node + 1], strengths[node]
        if first == end:
            continue
        # The products of all factors, for communities of neighbours and recalled ones.
        n_touched, touched_prior, scale, moved, strongest = 0, 0.0, 1.0, 1.0, 1.0
        log_scale, of_edges = 0.0, 1.0
        if trust > 0:
            moved = _moved(recalled, node, trust)
            n_touched, touched_prior = _recall(
                recalled, field, scratch, node, strength, moved, trust
            )
        for entry in range(first, end):
            neighbour, largest = indices[entry], 0.0
            for kept in range(N_KEPT):
                c = communities[neighbour, kept]
                if c < 0:
                    break
                product = products[c]
                if product == 0.0:
                    prior = moved * priors[c]
                    product = prior * scale
                    if pulls[c] != 0.0:
                        product *= _pull(strength, pulls[c])
                    touched[n_touched] = c
                    n_touched += 1
                    touched_prior += prior
                factor = _factor(excess[c], log_odds[c], weights[entry], messages[entry, kept])
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
        evidence = max(1.0 - touched_prior, 0.0) * scale
        for rank in range(n_touched):
            evidence += products[touched[rank]]
        # The communities with the largest products, descending, padded with -1.
        top[:] = -1
        top_products[:] = 0.0
        least = LEAST_MESSAGE * evidence / strongest
        for rank in range(n_touched):
            c = touched[rank]
            product = products[c]
            if not product > max(top_products[N_KEPT - 1], least):  # or NaN
                continue
            place = N_KEPT - 1
            while place > 0 and top_products[place - 1] < product:
                top[place], top_products[place] = top[place - 1], top_products[place - 1]
                place -= 1
            top[place], top_products[place] = c, product
        if top[0] >= 0 and 0 < evidence < np.inf:
            n_changed += top[0] != communities[node, 0]
            weight += strength
            # Send each neighbour the node's belief divided by that neighbour's own message. The
            # weight of an edge that exists because both ends share a community is estimated from
            # the messages of both ends.
            for entry in range(first, end):
                neighbour, back, others, shared = indices[entry], opposite[entry], evidence, 0.0
                for kept in range(N_KEPT):
                    c = communities[neighbour, kept]
                    if c < 0:
                        break
                    inverse = of_entries[entry - first, kept]
                    inverses[c] = inverse
                    others -= products[c] * (1.0 - inverse)
                others = max(others, top_products[0] * inverses[top[0]])  # less only by rounding
                per_other = 1.0 / others
                for kept in range(N_KEPT):
                    c = top[kept]
                    if c < 0:
                        break
                    share, inverse = top_products[kept] * per_other, inverses[c]
                    messages[back, kept] = share * inverse
                    shared += share * (1.0 - inverse)  # the factor less 1, times the message
                within += weights[entry] * shared / (1.0 + shared)
                of_edges *= 1.0 + shared
                if of_edges > LARGE:
                    saved -= 0.5 * log(of_edges)
                    of_edges = 1.0
                for kept in range(N_KEPT):
                    c = communities[neighbour, kept]
                    if c < 0:
                        break
                    inverses[c] = 1.0
            saved += log(evidence) + log_scale - 0.5 * log(of_edges)
            # The node's belief, and the volumes and sizes of the communities.
            for kept in range(N_KEPT):
                c, share = communities[node, kept], shares[node, kept]
                if c >= 0:
                    volumes[c] -= strength * share
                    sizes[c] -= share
                c, share = top[kept], np.float32(top_products[kept] / evidence)
                communities[node, kept], shares[node, kept] = c, share
                if c >= 0:
                    volumes[c] += strength * share
                    sizes[c] += share
            if trust > 0:
                stayed += _stayed(beliefs, field, recalled, node, trust, stay)
        for rank in range(n_touched):
            products[touched[rank]] = 0.0
    return Swept(n_changed, within, weight, stayed, saved)


@compiled(error_model="numpy")
def _factor(excess: float, log_odds: float, weight: float, message: float) -> float:
    """The factor by which an edge raises the probability of the other end's community."""
    if weight == 1.0:
        return 1.0 + excess * message
    return 1.0 + expm1(min(weight * log_odds, MOST_EVIDENCE)) * message


@compiled(error_model="numpy")
def _recall(
    recalled: Prior,
    field: Field,
    scratch: Scratch,
    node: int,
    strength: float,
    moved: float,
    trust: float,
) -> tuple[int, float]:
    """Put the prior of each recalled community into the products; their number and sum of priors.

    moved: the probability that the node's community is independent of its remembered one.
    """
    n_touched, touched_prior = 0, 0.0
    for kept in range(N_KEPT):
        c = recalled.communities[node, kept]
        if c < 0:
            break
        prior = moved * field.prior[c] + trust * recalled.shares[node, kept]
        scratch.products[c] = max(prior * _pull(strength, field.pull[c]), TINY)
        scratch.touched[n_touched] = c
        n_touched += 1
        touched_prior += prior
    return n_touched, touched_prior


@compiled()
def trusted(stay: float) -> float:
    """The weight of remembered beliefs in the prior, below η: `OVERCONFIDENCE`, `MOST_TRUST`."""
    trust: float = stay**OVERCONFIDENCE
    return min(trust, MOST_TRUST)


@compiled(error_model="numpy")
def _moved(recalled: Prior, node: int, stay: float) -> float:
    """The probability that the node's community is independent of its remembered one."""
    moved = 1.0
    for kept in range(N_KEPT):
        moved -= stay * recalled.shares[node, kept]
    return max(moved, 0.0)


@compiled(error_model="numpy")
def _pull(strength: float, pull: float) -> float:
    """The prior's factor for a node of this strength."""
    return exp(max(min(strength * pull, MOST_PULL), -MOST_PULL))


@compiled(error_model="numpy")
def _stayed(
    beliefs: Beliefs, field: Field, recalled: Prior, node: int, trust: float, stay: float
) -> float:
    """The probability that the node is in a remembered community because it stayed there.

    The beliefs are those with a prior that weighs the remembered ones by `trust`; each is corrected
    to a prior that weighs them by `stay`, of which `MOST_TRUST` at most: with more, overconfident
    beliefs would confirm each other until η is 1.
    """
    stay = min(stay, MOST_TRUST)
    moved, moved_by_stay = _moved(recalled, node, trust), _moved(recalled, node, stay)
    stayed, total, elsewhere = 0.0, 0.0, 1.0
    for kept in range(N_KEPT):
        c, share = recalled.communities[node, kept], recalled.shares[node, kept]
        if c < 0:
            break
        for believed in range(N_KEPT):
            if beliefs.communities[node, believed] == c and share > 0:
                belief = beliefs.shares[node, believed]
                evidence = belief / (trust * share + moved * field.prior[c])
                stayed += evidence * stay * share
                total += evidence * (stay * share + moved_by_stay * field.prior[c])
                elsewhere -= belief
    total += max(elsewhere, 0.0) * moved_by_stay / max(moved, TINY)
    return stayed / max(total, TINY)
