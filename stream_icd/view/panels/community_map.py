"""The map of one window: communities and the links between them, and the inside of some."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from stream_icd.demo.layout import largest, place_discs, place_members, radii_of
from stream_icd.snapshot import Snapshot
from stream_icd.tracking.partition import Partition, shared_nodes
from stream_icd.view.data.window import SeenWindow, partition

MOST_LINKS = 1500
MOST_NODES, MOST_EDGES = 5000, 25_000
"""What the page draws fluently at a time."""

Centres = Mapping[int, tuple[float, float]]


def quotient(one: SeenWindow, snapshot: Snapshot | None, before: Centres) -> dict[str, Any]:
    """Return the communities as discs, and the heaviest links between them.

    Args:
        snapshot: the window's graph; None: without links.
        before: centres of an earlier window, by id.
    """
    ids, sizes = one.ids, one.sizes
    links = csr_array((len(ids), len(ids)))
    inside = np.zeros(len(ids))
    if snapshot is not None:
        links, inside = _links(partition(one.members), snapshot)
    first = largest(sizes)
    centres = place_discs(ids, sizes, links[first][:, first].toarray(), before)
    radii = radii_of(sizes)
    upper = coo_array(links)
    chosen = np.flatnonzero(upper.row < upper.col)
    order = chosen[np.argsort(-upper.data[chosen], kind="stable")][:MOST_LINKS]
    return {
        "number": one.number,
        "snapshot": one.result.snapshot_id,
        "nodes": one.n_nodes,
        "edges": one.result.n_edges,
        "whole": one.n_nodes <= MOST_NODES and one.result.n_edges <= MOST_EDGES,
        "communities": [
            {
                "id": int(ids[at]),
                "size": int(sizes[at]),
                "x": round(float(centres[at, 0]), 2),
                "y": round(float(centres[at, 1]), 2),
                "r": round(float(radii[at]), 2),
                "inside": round(float(inside[at]), 3),
            }
            for at in range(len(ids))
        ],
        "links": [
            [int(ids[upper.row[at]]), int(ids[upper.col[at]]), round(float(upper.data[at]), 3)]
            for at in order.tolist()
        ],
        "links_left_out": len(chosen) - len(order),
    }


def opened(
    one: SeenWindow,
    snapshot: Snapshot,
    communities: Collection[int] | None,
    centres: Centres,
) -> dict[str, Any]:
    """Return members and edges of some communities, placed around the centres of their discs.

    At most `MOST_NODES` nodes, those with the most links first, and `MOST_EDGES` edges.

    Args:
        communities: stable ids; None for all.
    """
    of_node = ids_of_nodes(partition(one.members), snapshot)
    wanted = np.isin(of_node, one.ids if communities is None else list(communities))
    degrees = np.bincount(snapshot.edges.ravel(), minlength=snapshot.n_nodes)
    nodes = np.flatnonzero(wanted)
    nodes = np.sort(nodes[np.argsort(-degrees[nodes], kind="stable")][:MOST_NODES])
    place_of = np.full(snapshot.n_nodes, -1)
    place_of[nodes] = np.arange(len(nodes))
    ends = place_of[snapshot.edges]
    shown = ends[:, (ends >= 0).all(axis=0)]
    places = np.zeros((len(nodes), 2))
    for community in np.unique(of_node[nodes]).tolist():
        here = np.flatnonzero(of_node[nodes] == community)
        places[here] = place_members(degrees[nodes[here]]) + centres.get(community, (0.0, 0.0))
    return {
        "number": one.number,
        "nodes": [str(name) for name in snapshot.nodes.take(nodes).to_pylist()],
        "ids": of_node[nodes].tolist(),
        "x": places[:, 0].round(2).tolist(),
        "y": places[:, 1].round(2).tolist(),
        "edges": shown[:, :MOST_EDGES].T.ravel().tolist(),
        "nodes_left_out": int(wanted.sum()) - len(nodes),
        "edges_left_out": max(0, shown.shape[1] - MOST_EDGES),
    }


def ids_of_nodes(found: Partition, snapshot: Snapshot) -> NDArray[np.int64]:
    """Return the stable id of each node of the snapshot; -1 for nodes without a community."""
    none = np.zeros(0, np.int64)
    asked = Partition(snapshot.nodes, none, none, none)
    rows, columns = shared_nodes(found, asked)
    ids = np.full(snapshot.n_nodes, -1, np.int64)
    ids[columns] = found.names[found.labels[rows]]
    return ids


def _links(found: Partition, snapshot: Snapshot) -> tuple[csr_array, NDArray[np.float64]]:
    """Return the weight of the edges between communities `(K, K)`, and inside each `(K,)`."""
    ids, k = ids_of_nodes(found, snapshot), found.n_communities
    ends = ids[snapshot.edges]
    known = (ends >= 0).all(axis=0)
    a, b = np.searchsorted(found.names, ends[:, known])
    weights = np.ones(snapshot.n_edges) if snapshot.weights is None else snapshot.weights
    weights = weights[known]
    same = a == b
    inside = np.bincount(a[same], weights[same], minlength=k).astype(np.float64)
    a, b, weights = a[~same], b[~same], weights[~same]
    both = np.concatenate([a, b]), np.concatenate([b, a])
    links = coo_array((np.concatenate([weights, weights]), both), (k, k)).tocsr()
    return links, inside
