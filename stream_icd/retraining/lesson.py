"""An archived window with what is known of its communities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stream_icd.bp.find import find_communities
from stream_icd.bp.parameters import BpParameters
from stream_icd.communities import Labels
from stream_icd.graphs.labelled_graph import LabelledGraph, Moment
from stream_icd.history.archive import read_message, read_snapshot
from stream_icd.history.parquet import ArchivedWindow
from stream_icd.node_ids import places
from stream_icd.quality.description_length import description_length
from stream_icd.snapshot import Snapshot
from stream_icd.store.store import Store
from stream_icd.wire.communities import decode_labels
from stream_icd.wire.limits import Limits

Known = Literal["none", "some nodes", "all nodes", "contradicted"]
"""`contradicted` labels save no bits in describing a graph that has communities, such as one
community for all nodes."""

UNKNOWN = -1


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """A window to learn from, or to compare models on.

    Attributes:
        labels: community of each node, `(n_nodes,)`, or `UNKNOWN`; None without usable labels.
    """

    snapshot: Snapshot
    labels: NDArray[np.int32] | None = None
    known: Known = "none"

    def graph(self, *, by_labels: bool) -> LabelledGraph:
        """The graph for training, with labels if they are wanted and complete."""
        one, complete = self.snapshot, by_labels and self.known == "all nodes"
        moment = Moment(one.graph, one.nodes, one.window)
        return LabelledGraph(one.adjacency(), self.labels if complete else None, moment)


def read_lesson(store: Store, window: ArchivedWindow, labels: ArchivedWindow | None) -> Lesson:
    """Read a window, and its labels if there are any.

    Raises:
        HistoryDamaged, BadInput: it cannot be read.
    """
    limits = Limits()
    snapshot = read_snapshot(store, window, limits)
    if labels is None:
        return Lesson(snapshot)
    message = read_message(store, labels)
    return lesson(snapshot, decode_labels(message.key, message.value, message.headers, limits))


def lesson(snapshot: Snapshot, labels: Labels) -> Lesson:
    """Join a snapshot with its labels; labels of nodes that it does not have are not used."""
    at = places(snapshot.nodes, labels.nodes)
    found = at >= 0
    if not found.any():
        return Lesson(snapshot)
    known = np.full(snapshot.n_nodes, UNKNOWN, np.int32)
    of_found = labels.labels[at[found]]
    known[found] = np.unique(of_found, return_inverse=True)[1]
    if not found.all():
        return Lesson(snapshot, known, "some nodes")
    if _contradicted(snapshot, known):
        return Lesson(snapshot, None, "contradicted")
    return Lesson(snapshot, known, "all nodes")


def _contradicted(snapshot: Snapshot, labels: NDArray[np.int32]) -> bool:
    adjacency = snapshot.adjacency()
    if description_length(adjacency, labels) < 0:
        return False
    return description_length(adjacency, find_communities(adjacency, BpParameters())) < 0
