"""Connected communities: what hangs in the air is moved to its neighbours, or becomes its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_icd.core.arrays import NOBODY, Labels
from stream_icd.core.compiled import compiled, unsigned
from stream_icd.methods.bp.agglomeration import unite_loose
from stream_icd.methods.bp.level_graph import LevelGraph


def connected(
    graph: LevelGraph,
    labels: Labels,
    *,
    keep_number: bool = False,
    may_be_alone: bool = False,
    held: NDArray[np.bool_] | None = None,
) -> Labels:
    """The communities with what is not linked to the rest of its community elsewhere: labels (n,).

    The parts of a community that no edges inside it link are its pieces. The one of largest volume
    stays. Each other piece with edges becomes a community, and joins a linked one if that shortens
    the description (`quality.partition`), so that all communities are connected. Nodes without
    edges stay where they are. New communities are numbered from the highest label on; some labels
    may be unused.

    keep_number: K stays. A piece joins a linked community in any case. Pieces that no edges link to
        what stays, as a whole component of the graph, go together to the community of the first.
    may_be_alone: a node with edges may be a community. Otherwise, it joins a linked one, too, if
        that shortens the description and K may change.
    held: (n,) nodes that stay, with all that is linked to them; None: none. A community that has
        such nodes keeps only these.
    """
    k = int(labels.max(initial=NOBODY)) + 1
    held = np.zeros(graph.n_nodes, np.bool_) if held is None else held
    start, n_groups, loose = _apart(graph, labels, k, may_be_alone or keep_number, held)
    if not loose.any():
        return labels
    found: Labels = unite_loose(graph, start, n_groups, loose, keep_number)[start]
    if not keep_number:
        return found
    homes = np.empty(n_groups, np.int32)
    homes[start] = labels
    return np.where(found < k, found, homes[found])


@compiled()
def _apart(
    graph: LevelGraph, labels: Labels, k: int, may_be_alone: bool, held: NDArray[np.bool_]
) -> tuple[Labels, int, NDArray[np.bool_]]:
    """The labels with each loose piece as a community from k on, how many, and which are loose."""
    pieces, n_pieces = _pieces(graph, labels, k)
    volumes, n_linked, stays = np.zeros(n_pieces), np.zeros(n_pieces), np.zeros(n_pieces, np.bool_)
    homes = np.empty(n_pieces, np.int32)
    for node, piece in enumerate(pieces):
        volumes[piece] += graph.strengths[node]
        n_linked[piece] += graph.n_linked[node]
        stays[piece] |= held[node]
        homes[piece] = labels[node]
    main = np.full(k, NOBODY, np.int32)  # the held one, or else the largest
    for piece, home in enumerate(homes):
        best = main[home]
        if best < 0 or (stays[piece], volumes[piece]) > (stays[best], volumes[best]):
            main[home] = piece
    is_loose, n_groups = np.zeros(n_pieces, np.bool_), k
    for piece, home in enumerate(homes):
        if n_linked[piece] and not stays[piece]:
            is_alone = main[home] == piece and n_linked[piece] == 1.0
            is_loose[piece] = main[home] != piece or (is_alone and not may_be_alone)
            if is_loose[piece]:
                homes[piece], n_groups = n_groups, n_groups + 1
    loose = np.zeros(n_groups, np.bool_)
    loose[k:] = True
    return homes[pieces], n_groups, loose


@compiled()
def _pieces(graph: LevelGraph, labels: Labels, k: int) -> tuple[Labels, int]:
    """The connected piece of its community that each node is in, (n,), and how many there are.

    A community of which all nodes are found is done: in most graphs, few edges are visited.
    """
    indptr, indices = unsigned(graph.indptr), unsigned(graph.indices)
    pieces, waiting = -1 - labels, np.empty(len(labels), np.int32)  # negative: not found yet
    n_left, n_pieces = np.bincount(labels, minlength=k), 0
    for first, label in enumerate(labels):
        if pieces[first] >= 0:
            continue
        pieces[first], waiting[0], n_waiting = n_pieces, first, 1
        n_left[label] -= 1
        while n_waiting and n_left[label]:
            n_waiting -= 1
            node = waiting[n_waiting]
            for entry in range(indptr[node], indptr[node + 1]):
                neighbour = indices[entry]
                if pieces[neighbour] == -1 - label:
                    pieces[neighbour], waiting[n_waiting] = n_pieces, neighbour
                    n_waiting += 1
                    n_left[label] -= 1
        n_pieces += 1
    return pieces, n_pieces
