"""Communities as a result of CDlib, for its measures and plots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from stream_icd.core.communities import Communities
from stream_icd.core.errors import BadInput, MissingExtra
from stream_icd.methods.graphs.adjacency import as_named, is_graph_of
from stream_icd.methods.graphs.labelled_graph import numbered

if TYPE_CHECKING:
    from stream_icd.methods.memory.detect import Remembered


def to_cdlib(
    graph: Any, communities: ArrayLike, parameters: Mapping[str, Any] | None = None
) -> Any:
    """Return communities as CDlib's `NodeClustering`.

    Args:
        graph: the graph that the communities were found in, of any kind that `ICD` takes. The
            result holds a NetworkX graph, or an igraph graph with names, as it is, and any other as
            a NetworkX graph.
        communities: of each node, `(n,)`, in the order of `ICD.predict`.
        parameters: how they were found, for CDlib's tables and JSON files: plain values, such as
            `{"method": icd.method, "seed": icd.seed}`.

    Raises:
        BadInput: the graph cannot be used, has no nodes, or another number of them, or a node has
            no community (NaN).
        MissingExtra: CDlib is not installed.

    >>> found = to_cdlib([("a", "b"), ("b", "c"), ("d", "e")], [0, 0, 0, 1, 1])
    >>> found.communities
    [['a', 'b', 'c'], ['d', 'e']]
    """
    try:
        from cdlib import NodeClustering
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "cdlib":
            raise
        raise MissingExtra("this needs CDlib, which is not installed: pip install cdlib") from error
    import networkx  # which CDlib needs, too

    named, labels = as_named(graph), numbered(communities)
    if labels.shape != named.nodes.shape:
        raise BadInput(
            f"{len(named.nodes)} nodes need one community each; got shape {labels.shape}"
        )
    if unknown := np.count_nonzero(labels < 0):
        raise BadInput(f"{unknown} nodes have no community: give one label for each node")
    if not len(labels):
        raise BadInput("CDlib has no results for a graph without nodes")
    by_label, ends = np.argsort(labels, kind="stable"), np.cumsum(np.bincount(labels))
    members = [part.tolist() for part in np.split(named.nodes[by_label], ends[:-1])]
    named_igraph = is_graph_of("igraph", graph) and graph.is_named()  # CDlib asks for names
    if not (named_igraph or isinstance(graph, networkx.Graph)):
        unnamed = networkx.from_scipy_sparse_array(named.adjacency)
        graph = networkx.relabel_nodes(unnamed, dict(enumerate(named.nodes.tolist())))
    return NodeClustering(members, graph, "stream_icd", dict(parameters or {}), overlap=False)


def to_cdlib_stream(windows: Iterable[tuple[Any, Communities | Remembered]]) -> Any:
    """Return the communities of a stream as CDlib's `TemporalClustering`.

    Windows count from 0. Communities with one id in two windows are matched explicitly, from each
    window to the next one in which the id is there, with the Jaccard index of their members.

    Args:
        windows: of each window, in order, the graph and its result: what `ICD.predict_next` or
            `subscribe` returns. If results have no ids, nothing is matched.

    Raises:
        BadInput, MissingExtra: as `to_cdlib`; `BadInput` also if there are no windows.

    >>> from stream_icd import ICD
    >>> path, memory, windows = [("a", "b"), ("b", "c"), ("a", "c")], None, []
    >>> icd = ICD.load("default")
    >>> for _ in range(2):
    ...     windows.append((path, icd.predict_next(path, memory)))
    ...     memory = windows[-1][1].memory
    >>> to_cdlib_stream(windows).get_explicit_community_match()
    [('0_0', '1_0', 1.0)]
    """
    clusterings, matching = [], []
    last: dict[int, tuple[str, frozenset[Any]]] = {}
    for tid, (graph, result) in enumerate(windows):
        of_nodes = result.labels if isinstance(result, Communities) else result.communities
        clustering = to_cdlib(graph, of_nodes)
        clusterings.append(clustering)
        ids = result.community_ids
        if ids is None:
            continue
        community = dict(zip(as_named(graph).nodes.tolist(), ids[of_nodes].tolist(), strict=True))
        for at, members in enumerate(map(frozenset, clustering.communities)):
            id, name = community[next(iter(members))], f"{tid}_{at}"
            if id in last:
                before, nodes = last[id]
                matching.append((before, name, len(nodes & members) / len(nodes | members)))
            last[id] = name, members
    if not clusterings:
        raise BadInput("there are no windows: give at least one")
    from cdlib import TemporalClustering

    temporal = TemporalClustering()
    for tid, clustering in enumerate(clusterings):
        temporal.add_clustering(clustering, tid)
    if matching:
        temporal.add_matching(matching)
    return temporal
