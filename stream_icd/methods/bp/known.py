"""Communities of a graph of which some nodes' communities are known: priors in belief propagation.

Local moves find communities first, without what is known. Each known label is then one of them, or
a new one, and belief propagation decides about all nodes, with priors for those that are known.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

from stream_icd.core.arrays import NOBODY, Ids, Labels
from stream_icd.core.compiled import keep_threads, threads_for, uninterrupted
from stream_icd.core.node_ids import is_text, places, widened
from stream_icd.methods.bp.belief_propagation import PlantedModel, believe
from stream_icd.methods.bp.find import found_exactly
from stream_icd.methods.bp.level_graph import LevelGraph, compact, finest_level
from stream_icd.methods.bp.likelihood import bounded_mixing, mixing_beyond_chance
from stream_icd.methods.bp.memberships import Memberships, believed_memberships
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.bp.partition import match_labels
from stream_icd.methods.bp.prior import MOST_TRUST, Prior, uninformed_prior
from stream_icd.methods.graphs.weights import comparable

KNOWN_AND_K = (
    "the method bp determines K if communities of nodes are known: give no n_communities, or "
    "method='icd'"
)


class KnownHere(NamedTuple):
    """What is known of the nodes of one graph."""

    labels: Labels  # (n,), numbers of the labels in `present`; `NOBODY` for other nodes
    present: Ids  # the labels that are there, ascending
    fixed: bool  # as of `Known`


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """Labels of some nodes: those of one label are in one community, in all windows of a graph."""

    nodes: pa.Array  # ids, each once (`node_ids.widened`); a window need not have all of them
    labels: Labels  # (len(nodes),), 0..L-1
    fixed: bool = False  # certainly in that community; else that is what they are before any edge
    digest: str = ""  # of all of this, for those that tell results apart by it

    @classmethod
    def from_labels(cls, labels: Mapping[str, str], *, fixed: bool) -> Known:
        """The known nodes of a graph by the label of each; in any order, they have one digest."""
        # In one order, so that the digest does not depend on the order of a file's rows.
        nodes = sorted(labels)
        numbers = {label: at for at, label in enumerate(dict.fromkeys(map(labels.get, nodes)))}
        codes = np.array([numbers[labels[node]] for node in nodes], np.int32)
        digest = hashlib.sha256(repr((nodes, codes.tolist(), fixed)).encode()).hexdigest()
        return cls(widened(pa.array(nodes, pa.string())), codes, fixed, digest[:12])

    def of(self, nodes: pa.Array) -> KnownHere:
        """What is known of these nodes.

        An integer and its text are one id, since a file of text cannot tell them apart.
        """
        ours = self.nodes
        if is_text(ours.type) != is_text(nodes.type):
            ours, nodes = ours.cast(pa.large_string()), nodes.cast(pa.large_string())
        # Place -1, of a node that is not known, reads the entry after the last.
        labels = np.append(self.labels, np.int32(NOBODY))[places(nodes, ours)]
        is_known = labels >= 0
        present, labels[is_known] = np.unique(labels[is_known], return_inverse=True)
        return KnownHere(labels, present.astype(np.int64), self.fixed)


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
        certain = np.append(of_label, np.int32(NOBODY))[known]
        likeliest, beliefs = believed_with(graph, found, certain, parameters, fixed=fixed)
    labels = compact(likeliest)[0]
    numbers = np.full(max(int(found.max()), int(of_label.max())) + 1, NOBODY, np.int32)
    numbers[likeliest] = labels
    return labels, believed_memberships(beliefs, labels), numbers[of_label]


def believed_with(
    graph: LevelGraph,
    found: Labels,
    certain: Labels,
    parameters: BpParameters,
    *,
    fixed: bool,
    recalled: Prior | None = None,
) -> tuple[Labels, Prior]:
    """The most probable communities, (n,), and the beliefs, if those of some nodes are known.

    found: (n,) the communities without that.
    certain: (n,) those that are known, which may be new ones; `NOBODY` for other nodes.
    recalled: what is believed of these before any edge.
    """
    is_known = certain >= 0
    start = np.where(is_known, certain, found)
    prior = uninformed_prior(len(found)) if recalled is None else recalled
    # What was recalled of a known node gives way altogether: shares must not add up above 1.
    prior.communities[is_known], prior.shares[is_known] = NOBODY, 0.0
    prior.communities[is_known, 0] = certain[is_known]
    prior.shares[is_known, 0] = 1.0 if fixed else MOST_TRUST
    k = max(int(found.max()), int(certain.max()), int(prior.communities.max())) + 1
    labels, n_labels = compact(start)
    mixing = bounded_mixing(mixing_beyond_chance(graph, labels, n_labels))
    model = PlantedModel(mixing, parameters.size_spread, k)
    # Only beliefs are asked for, no description length, so the last sweep need not visit all nodes.
    marginals = believe(
        graph, start, k, model, parameters.sweeps, prior, 1.0, learn_stay=False, exact=False
    )
    likeliest = np.where(is_known, certain, marginals.likeliest) if fixed else marginals.likeliest
    return likeliest, marginals.beliefs
