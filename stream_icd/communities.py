"""What a partition of a snapshot's nodes is: found by a detector, or known as ground truth."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_icd.errors import BadCommunities
from stream_icd.snapshot import Window

STAGES = ("decode", "features", "encode", "cluster")
"""The stages that a detector times, in the order it runs them."""


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """The known communities of a snapshot: ground truth, or a teacher's.

    Attributes:
        graph, snapshot_id, window: the snapshot these belong to.
        nodes: the source's own ids, `(n_nodes,)`.
        labels: community of each node, `(n_nodes,)` int32, in 0..K-1.
        source: who says so, a URI reference.
    """

    graph: str
    snapshot_id: str
    window: Window
    nodes: pa.Array
    labels: NDArray[np.int32]
    source: str = "stream_icd"

    def __post_init__(self) -> None:
        _check_assignment(self.snapshot_id, self.nodes, self.labels)


@dataclass(frozen=True, slots=True, eq=False)
class Communities:
    """The communities that a detector found in one snapshot.

    `(graph, snapshot_id, model)` identifies a result: whoever sees one twice keeps one.

    Attributes:
        graph, snapshot_id, window: the snapshot these belong to.
        nodes: the source's own ids, `(n_nodes,)`, ascending.
        labels: community of each node, `(n_nodes,)` int32, in 0..K-1.
        n_edges: number of edges of the snapshot.
        model: name and version of the model that found them.
        modularity: Newman's Q of the partition, from -0.5 to 1.
        ncut: the paper's NCut (eq. 1), from 0 to K/2; lower is better.
        milliseconds: time in each of `STAGES`.
        detected_at: when the result was ready, UTC.
    """

    graph: str
    snapshot_id: str
    window: Window
    nodes: pa.Array
    labels: NDArray[np.int32]
    n_edges: int
    model: str
    modularity: float
    ncut: float
    milliseconds: dict[str, float]
    detected_at: datetime

    def __post_init__(self) -> None:
        _check_assignment(self.snapshot_id, self.nodes, self.labels)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.nodes)

    @property
    def n_communities(self) -> int:
        """K: number of communities."""
        return int(self.labels.max(initial=-1)) + 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of nodes of each community, `(K,)`."""
        return np.bincount(self.labels, minlength=self.n_communities)

    def identity(self) -> tuple[str, str, str]:
        """What makes two results the same result: `(graph, snapshot_id, model)`."""
        return self.graph, self.snapshot_id, self.model


def _check_assignment(snapshot_id: str, nodes: pa.Array, labels: NDArray[np.int32]) -> None:
    if labels.shape != (len(nodes),):
        raise BadCommunities(
            f"{snapshot_id!r}: labels have shape {labels.shape}; {len(nodes)} nodes need one each"
        )
    if labels.size and not 0 <= labels.min() <= labels.max() < len(nodes):
        raise BadCommunities(
            f"{snapshot_id!r}: community labels run from {labels.min()} to {labels.max()}; "
            f"they must lie in 0..{len(nodes) - 1}"
        )
