"""The edges of a window that the window before lacks: they judge the communities found before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from stream_icd.bp.level_graph import LevelGraph, finest_level
from stream_icd.bp.likelihood import nats_saved
from stream_icd.bp.posterior import NOBODY
from stream_icd.graphs.labelled_graph import LabelledGraph, Moment
from stream_icd.graphs.weights import comparable
from stream_icd.memory.memory import Memory
from stream_icd.node_ids import places


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A window, prepared once for all parameters that are tried on it.

    Attributes:
        comparable: the adjacency with comparable weights, as in `graph`.
        unseen: the graph with the edges that the window before lacks; with all, if it lacks none.
    """

    adjacency: csr_array
    comparable: csr_array
    graph: LevelGraph
    unseen: LevelGraph
    moment: Moment


def prepare(window: LabelledGraph, before: Prepared | None) -> Prepared:
    """Prepare a window that has a moment; `before` is the same graph's window before it, if any."""
    assert window.moment is not None
    rescaled = comparable(window.adjacency)
    graph = finest_level(rescaled)
    unseen = graph
    if before is not None:
        unseen = finest_level(_without(rescaled, window.moment, before))
        unseen = unseen if unseen.total else graph
    return Prepared(window.adjacency, rescaled, graph, unseen, window.moment)


def nats_saved_by(memory: Memory, window: Prepared) -> tuple[float, float]:
    """Nats that the communities remembered save on a window's unseen edges, and their weight."""
    place = places(window.moment.nodes, memory.nodes)
    before = np.append(memory.present.known.likeliest, NOBODY)[place]  # [-1] for new nodes
    return nats_saved(window.graph, before.astype(np.int32), window.unseen)


def _without(adjacency: csr_array, moment: Moment, before: Prepared) -> csr_array:
    """The adjacency without the edges of the window before."""
    place = places(moment.nodes, before.moment.nodes)
    both = np.flatnonzero(place >= 0)
    old = before.comparable[place[both]][:, place[both]].tocoo()
    n_nodes = adjacency.shape[0]
    known = both[old.row] * n_nodes + both[old.col]
    entries = adjacency.tocoo()
    new = ~np.isin(entries.row.astype(np.int64) * n_nodes + entries.col, known)
    unseen = csr_array(
        (entries.data[new], (entries.row[new], entries.col[new])), shape=adjacency.shape
    )
    unseen.sort_indices()
    return unseen
