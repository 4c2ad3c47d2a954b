"""A graph with or without known communities, for training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, triu

from stream_icd.core.errors import BadInput
from stream_icd.core.snapshot import Snapshot, Window


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """Which window of which stream a graph is."""

    graph: str  # name of the stream
    nodes: pa.Array  # the source's ids, (n,), in the order of the adjacency's rows
    window: Window
    n_communities: int | None = None  # K, if the source knows it

    @classmethod
    def of(cls, snapshot: Snapshot) -> Moment:
        """Return that of a snapshot, whose edges it does not keep."""
        return cls(snapshot.graph, snapshot.nodes, snapshot.window, snapshot.n_communities)


@dataclass(frozen=True, slots=True, eq=False)
class LabelledGraph:
    """A graph and, if known, its communities.

    Raises `BadInput` if a node has no label, or one is negative.
    """

    adjacency: csr_array  # (n, n), canonical; see `graphs.adjacency.as_adjacency`
    labels: NDArray[np.int32] | None = None  # (n,), in 0..K-1; None if unknown
    moment: Moment | None = None  # None if the graph is of no stream

    def __post_init__(self) -> None:
        if self.labels is None:
            return
        if self.labels.shape != (self.adjacency.shape[0],):
            raise BadInput(
                f"labels have shape {self.labels.shape}; "
                f"{self.adjacency.shape[0]} nodes need one each"
            )
        if self.labels.min(initial=0) < 0:
            raise BadInput(f"community {self.labels.min()} is negative; labels are 0..K-1")

    @property
    def n_communities(self) -> int | None:
        """K, or None if the communities are unknown."""
        return None if self.labels is None else int(self.labels.max()) + 1

    def snapshot(self) -> Snapshot:
        """The window that the graph is; it has a moment."""
        assert self.moment is not None
        moment, upper = self.moment, triu(self.adjacency, format="csr").tocoo()
        return Snapshot(
            moment.graph,
            f"{moment.graph}/{moment.window.start.isoformat()}",
            moment.window,
            moment.nodes,
            np.stack([upper.row, upper.col]).astype(np.int64),
            upper.data,
            moment.n_communities,
        )


def numbered(labels: ArrayLike) -> NDArray[np.int32]:
    """Any labels `(n,)` as 0..K-1, in their order.

    Raises `BadInput` if one is missing (NaN, None, masked), or they cannot be sorted.

    >>> numbered(["b", "a", "b"]).tolist()
    [1, 0, 1]
    """
    try:
        given = np.asarray(labels)
        has_gap = np.ma.is_masked(labels) or (given != given).any()  # NaN and NaT alone differ
        if given.ndim != 1 or has_gap:
            raise TypeError(f"{given.dtype} of shape {given.shape}, or a missing one")
        return np.unique(given, return_inverse=True)[1].astype(np.int32)
    except (TypeError, ValueError) as error:  # such as None among strings, or lists of lists
        raise BadInput(
            f"labels are a {type(labels).__name__} that cannot be sorted ({error}); give one label "
            f"for each node, all integers or all strings"
        ) from error
