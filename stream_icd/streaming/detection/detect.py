"""Apply a frozen model to one new graph: features, embedding, communities (paper, algorithm 3)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.core.arrays import NOBODY, Labels, n_distinct
from stream_icd.core.communities import ENCODER_STAGES, checked_n_communities
from stream_icd.core.errors import BadSettings
from stream_icd.methods.bp.find import find_communities, find_memberships
from stream_icd.methods.bp.known import KNOWN_AND_K, find_with_known
from stream_icd.methods.bp.level_graph import compact, finest_level
from stream_icd.methods.bp.memberships import Memberships, memberships_given_others
from stream_icd.methods.bp.modularity import estimate_n_communities
from stream_icd.methods.bp.partition import match_labels
from stream_icd.methods.graphs.adjacency import among, linked_nodes
from stream_icd.methods.graphs.weights import comparable
from stream_icd.methods.icd.clustering import cluster, seeded
from stream_icd.methods.icd.encoder.contract import encoder
from stream_icd.methods.icd.encoder.edges import Edges
from stream_icd.methods.icd.features import model_features
from stream_icd.methods.icd.row_blocks import Floats32
from stream_icd.methods.memory.follow import Find
from stream_icd.methods.model import MethodChoice, Model
from stream_icd.methods.weighing import Weighing


@dataclass(frozen=True, slots=True, eq=False)
class _TimedCommunities:
    """Communities of one graph, and the time of each stage.

    Method bp only clusters, unless an encoder weights its graph, which counts as "encode".
    """

    communities: NDArray[np.int32]  # of each node, `(n,)`, in 0..K-1
    milliseconds: dict[str, float]
    memberships: Memberships | None = None  # how probable they are; K-means does not say it
    of_known: tuple[int, ...] = ()  # the community of each known label, -1 for none


def detect(
    adjacency: csr_array,
    model: Model,
    n_communities: int | None = None,
    *,
    method: MethodChoice = "auto",
    seed: int = 0,
    threads: int = 2,
    known: Labels | None = None,
    fixed: bool = False,
    clock: Callable[[], float] = time.perf_counter,
) -> _TimedCommunities:
    """Find the communities of a graph with a frozen model.

    Args:
        adjacency: `(n, n)`, canonical: from `Snapshot.adjacency`, or for any other graph from
            `as_adjacency`.
        n_communities: K; None to determine it: then each isolated node is its own community.
            With K given, method "icd" puts all isolated nodes into one community and makes
            K − 1 communities of the others. Unknown, K is for "icd" the number of communities that
            bp finds in the graph as the encoder `edges` weights it; with any other encoder, that of
            the communities that maximise modularity.
        method: "bp" for local moves and belief propagation with the learned parameters
            (`find_communities`), or if the model's encoder `edges` is trained and helps bp, with
            those for the graph that it weights; "icd" for the paper's method, K-means on the
            embedding; "auto" for the model's own.
        seed: seed of every random choice; the same seed gives the same result on any number of
            threads.
        threads: cores to use; bp uses one below 50,000 nodes.
        known, fixed: labels of some nodes, see `find_with_known`; bp takes them without K. For
            "icd", they are seeds of K-means (`_clustered`), and K is at least their number.
        clock: monotonic clock in seconds, for the stage timings.

    Raises:
        BadSettings: K is not from 1 to n, the method is unknown, or labels are known beside K with
            bp, or are more than K.
    """
    check_method(method)
    n_communities = checked_n_communities(n_communities, adjacency.shape[0])
    if model.method_for(method) == "icd":
        return _detect_by_icd(
            adjacency, model, n_communities, seed, threads, clock, known=known, fixed=fixed
        )
    if known is not None and n_communities is not None:
        raise BadSettings(KNOWN_AND_K)
    started, graph, parameters = clock(), adjacency, model.bp
    if (weigh := Weighing.of(model, threads)) is not None:
        graph, parameters = weigh(adjacency), weigh.parameters
    encode_ms = 0.0 if weigh is None else 1000 * (clock() - started)
    how = {"seed": seed, "threads": threads}
    of_known: tuple[int, ...] = ()
    if known is not None:
        communities, memberships, of_labels = find_with_known(
            graph, parameters, known, fixed=fixed, **how
        )
        of_known = tuple(of_labels.tolist())
    elif weigh is None:
        communities, memberships = find_memberships(graph, parameters, n_communities, **how)
    else:  # the weights are too sure of themselves to say how probable communities are
        communities = find_communities(graph, parameters, n_communities, **how)
        memberships = memberships_given_others(finest_level(comparable(adjacency)), communities)
    spent = stage_ms(1000 * (clock() - started), {"encode": encode_ms})
    return _TimedCommunities(communities, spent, memberships, of_known)


def finding(
    method: MethodChoice,
    model: Model,
    *,
    seed: int = 0,
    threads: int = 2,
    spent: dict[str, float] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Find | None:
    """Return how a method finds communities on a stream (`follow.Find`).

    None: by bp, with which memory works unless it is told otherwise. Method "icd" also starts
    K-means from what was found before, and takes what fits the embedding better. The milliseconds
    of each stage are added to `spent`.
    """
    check_method(method)
    if model.method_for(method) == "bp":
        return None

    def find(
        adjacency: csr_array, n_communities: int | None, before: Labels, known: Labels | None
    ) -> Labels:
        k = checked_n_communities(n_communities, adjacency.shape[0])
        detection = _detect_by_icd(
            adjacency, model, k, seed, threads, clock, before=before, known=known
        )
        if spent is not None:
            for stage, milliseconds in detection.milliseconds.items():
                spent[stage] = spent.get(stage, 0.0) + milliseconds
        return detection.communities

    return find


def stage_ms(milliseconds: float, spent: Mapping[str, float] | None = None) -> dict[str, float]:
    """Return the time of each stage: clustering took what was not spent in the others."""
    before = {stage: (spent or {}).get(stage, 0.0) for stage in ENCODER_STAGES}
    return {**before, "cluster": milliseconds - sum(before.values())}


def check_method(method: str) -> None:
    """Raise BadSettings if the method is unknown."""
    if method not in get_args(MethodChoice):
        raise BadSettings(f"no method {method!r}: choose from {', '.join(get_args(MethodChoice))}")


def embed(adjacency: csr_array, model: Model, threads: int = 2) -> NDArray[np.float32]:
    """Return U, `(n, d)` float32: the embedding of a graph under a frozen model.

    The unit of the weights does not matter; see `comparable`. The row of an isolated node is zero.
    """
    linked = linked_nodes(adjacency)
    graph = among(comparable(adjacency), linked)
    features = model_features(graph, model.recipe)
    of_linked = encoder(model.recipe.encoder).embed(model.weights, features, graph, threads)
    embedding = np.zeros((adjacency.shape[0], of_linked.shape[1]), np.float32)
    embedding[linked] = of_linked
    return embedding


def _detect_by_icd(
    adjacency: csr_array,
    model: Model,
    n_communities: int | None,
    seed: int,
    threads: int,
    clock: Callable[[], float],
    *,
    before: Labels | None = None,
    known: Labels | None = None,
    fixed: bool = False,
) -> _TimedCommunities:
    """Find communities by K-means, from those that the nodes had `before`, `(n,)`, `NOBODY` for new
    nodes; for `known` and `fixed`, see `detect`."""
    started = clock()
    n_nodes = adjacency.shape[0]
    linked = linked_nodes(adjacency)
    graph = among(comparable(adjacency), linked)
    features = model_features(graph, model.recipe)
    described = clock()
    frozen, weighed = encoder(model.recipe.encoder), None
    if isinstance(frozen, Edges):
        weighed = frozen.weigh(model.weights, features, graph, threads)
        embedding = frozen.embed_weighed(weighed, features, graph, threads)
    else:
        embedding = frozen.embed(model.weights, features, graph, threads)
    embedded = clock()
    communities, of_known = np.zeros(n_nodes, np.int32), np.empty(0, np.int32)
    if n_communities is not None:
        k = _n_linked_communities(n_communities, len(linked), n_nodes)
    elif weighed is not None:
        parameters = Weighing(model.recipe, model.weights).parameters
        k = n_distinct(find_communities(weighed.adjacency, parameters, seed=seed, threads=threads))
    else:
        k = estimate_n_communities(among(adjacency, linked), seed) if len(linked) else 0
    if known is not None:
        k = _enough_seeds(k, known[linked], n_communities)
    if k:
        method = model.recipe.clustering
        start = None if before is None else before[linked]
        communities[linked] = cluster(
            embedding, k, method=method, seed=seed, threads=threads, before=start
        )
        if known is not None:
            communities[linked], of_known = _clustered(
                embedding, communities[linked], known[linked], fixed, threads
            )
    _label_isolated(communities, linked, k, n_communities)
    if known is not None:  # after all nodes have a community: a label may have isolated nodes only
        communities, of_known = _with_isolated(communities, known, of_known, fixed)
    spent = {"features": 1000 * (described - started), "encode": 1000 * (embedded - described)}
    milliseconds = stage_ms(1000 * (clock() - started), spent)
    return _TimedCommunities(communities, milliseconds, of_known=tuple(of_known.tolist()))


def _label_isolated(
    communities: Labels, linked: NDArray[np.intp], k: int, n_communities: int | None
) -> None:
    """Label the nodes without edges, in place; `k` communities are of the others.

    If K is unknown, each gets its own label. Otherwise they share the labels left of K: usually
    one, more if the other nodes are too few for K − 1 communities, and none if all nodes are one
    community.
    """
    n_alone = len(communities) - len(linked)
    n_left = n_alone if n_communities is None else n_communities - k
    if n_alone and n_left:
        isolated = np.setdiff1d(np.arange(len(communities)), linked, assume_unique=True)
        communities[isolated] = k + np.arange(n_alone) % n_left


def _n_linked_communities(n_communities: int, n_linked: int, n_nodes: int) -> int:
    # The isolated nodes together are one of the K communities, if possible.
    if n_linked == n_nodes or n_communities == 1:
        return min(n_communities, n_linked)
    return min(n_communities - 1, n_linked)


def _enough_seeds(k: int, known_labels: Labels, n_communities: int | None) -> int:
    """Return K for nodes with edges: one for each of their labels at least.

    Raises `BadSettings` if K is given, and there are more labels.
    """
    n_labels = len(np.unique(known_labels[known_labels >= 0]))
    if n_communities is not None and n_labels > k:
        raise BadSettings(
            f"{n_communities} communities are too few for {n_labels} known labels: give a higher "
            "n_communities, or none"
        )
    return max(k, n_labels)


def _clustered(
    embedding: Floats32, clusters: Labels, known_labels: Labels, fixed: bool, threads: int
) -> tuple[Labels, Labels]:
    """Return clusters by K-means that starts from known labels, and each label's cluster.

    A label is the cluster that most of its rows are in. One that gets none takes the place of the
    smallest cluster, and its centre is that of its rows.

    Args:
        clusters: those without what is known, `(n,)`, 0..K-1, none empty.
        known_labels: `(n,)`, at most K of them; `NOBODY` where unknown.
        fixed: known rows stay in the cluster of their label; others may change it.

    The second result is `(L,)`, `NOBODY` for labels without rows.
    """
    k, n_labels = int(clusters.max()) + 1, int(known_labels.max(initial=NOBODY)) + 1
    of_label = match_labels(known_labels, clusters, n_labels, k)
    used = np.bincount(known_labels[known_labels >= 0], minlength=n_labels) > 0
    new = np.flatnonzero(used & (of_label >= k))
    sizes = np.bincount(clusters, minlength=k)
    sizes[of_label[used & (of_label < k)]] = len(clusters) + 1  # larger than any: these go on
    given_up = np.argsort(sizes, kind="stable")[: len(new)]
    of_label[new], of_label[~used] = given_up, NOBODY
    certain = np.append(of_label, np.int32(NOBODY))[known_labels]  # NOBODY, -1, takes the last
    start = np.where(np.isin(clusters, given_up), np.int32(NOBODY), clusters)
    start = np.where(certain >= 0, certain, start)
    return seeded(embedding, start, k, certain if fixed else None, threads), of_label


def _with_isolated(
    communities: Labels, known_labels: Labels, of_label: Labels, fixed: bool
) -> tuple[Labels, Labels]:
    """Return the communities, and that of each label, also of labels of nodes without edges.

    known_labels: of each node, `(n,)`, 0..L-1, each of at least one node; `NOBODY` where unknown.
    fixed: these nodes, too, are in the community of their label.
    """
    nodes = np.flatnonzero(known_labels >= 0)
    labels, first = np.unique(known_labels[nodes], return_index=True)
    of_label = np.append(of_label, np.full(len(labels) - len(of_label), NOBODY, np.int32))
    alone = of_label[labels] == NOBODY
    of_label[labels[alone]] = communities[nodes[first[alone]]]
    if not fixed:
        return communities, of_label
    communities[nodes] = of_label[known_labels[nodes]]
    # An isolated node that joined its label may have left its own community empty.
    after = compact(communities)[0]
    numbers = np.full(int(communities.max()) + 1, NOBODY, np.int32)
    numbers[communities] = after
    return after, numbers[of_label]
