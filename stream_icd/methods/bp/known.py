"""Communities of a graph of which some nodes' communities are known: priors in belief propagation.

Local moves find communities first, without what is known. Each known label is then one of them, or
a new one, and belief propagation decides about all nodes, with priors for those that are known.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from stream_icd.core.arrays import NOBODY, Labels
from stream_icd.core.compiled import keep_threads, threads_for, uninterrupted
from stream_icd.methods.bp.belief_propagation import Model, believe, uninformed_prior
from stream_icd.methods.bp.find import found_exactly
from stream_icd.methods.bp.level_graph import compact, finest_level
from stream_icd.methods.bp.likelihood import bounded_mixing, mixing_beyond_chance
from stream_icd.methods.bp.memberships import Memberships, believed_memberships
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.bp.partition import match_labels
from stream_icd.methods.bp.sweep import MOST_TRUST
from stream_icd.methods.graphs.weights import comparable


@uninterrupted()
def find_with_known(
    adjacency: csr_array,
    parameters: BpParameters,
    known: Labels,
    *,
    fixed: bool = False,
    seed: int = 0,
    threads: int = 1,
) -> tuple[Labels, Memberships, Labels]:
    """The communities, how probable they are, and the community of each known label.

    adjacency: at least one node; as in `find_communities`.
    known: label of each node, (n,), 0..L-1, each of at least one node; `NOBODY` if it is not known.
    fixed: a known node is certainly in the community of its label. Otherwise that is its prior,
        with the weight of what memory knows, and its edges may say something else.

    Labels are (n,) int32, 0..K-1, none empty. The third result is (L,): `NOBODY` for a label that
    no node has in the end. Unlike those of `find_communities`, a community may be in several
    pieces, since known nodes need not be linked.
    """
    graph = finest_level(comparable(adjacency, parameters.weight_exponent))
    with keep_threads(threads_for(graph.n_nodes, threads)):
        found = found_exactly(graph, parameters, None, np.random.default_rng(seed)).labels
        n_labels, n_found = int(known.max()) + 1, int(found.max()) + 1
        of_label = match_labels(known, found, n_labels, n_found)  # new ones are from n_found on
        is_known = known >= 0
        certain = np.where(is_known, of_label[known], np.int32(NOBODY))
        start = np.where(is_known, certain, found)
        prior = uninformed_prior(len(known))
        prior.communities[:, 0], prior.shares[:, 0] = certain, is_known
        mixing = bounded_mixing(mixing_beyond_chance(graph, *compact(start)))
        k = max(n_found, int(of_label.max()) + 1)
        model = Model(mixing, parameters.size_spread, k)
        trust = 1.0 if fixed else MOST_TRUST
        marginals = believe(
            graph, start, k, model, parameters.sweeps, prior, trust, learn_stay=False, exact=False
        )
    likeliest = np.where(is_known, certain, marginals.likeliest) if fixed else marginals.likeliest
    labels = compact(likeliest)[0]
    numbers = np.full(k, NOBODY, np.int32)
    numbers[likeliest] = labels
    return labels, believed_memberships(marginals.beliefs, labels), numbers[of_label]
