"""A graph with or without known communities, for training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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

    Raises `BadInput` if the labels are not one for each node, or all are unknown.
    """

    adjacency: csr_array  # (n, n), canonical; see `graphs.adjacency.as_adjacency`
    labels: NDArray[np.int32] | None = None  # (n,), 0..K-1, -1 where unknown; None if all are
    moment: Moment | None = None  # None if the graph is of no stream

    def __post_init__(self) -> None:
        if self.labels is None:
            return
        if self.labels.shape != (self.adjacency.shape[0],):
            raise BadInput(
                f"labels have shape {self.labels.shape}; "
                f"{self.adjacency.shape[0]} nodes need one each"
            )
        if len(self.labels) and self.labels.max() < 0:
            raise BadInput(f"none of the {len(self.labels)} nodes has a label: give no labels")

    @property
    def n_communities(self) -> int | None:
        """K, or None if that of any node is unknown."""
        if self.labels is None or self.labels.min() < 0:
            return None
        return int(self.labels.max()) + 1

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


def numbered(labels: ArrayLike | Sequence[Any]) -> NDArray[np.int32]:
    """Any labels `(n,)` as 0..K-1, in their order; -1 where one is missing.

    None, NaN and a masked one are missing, and so is the integer -1, as in scikit-learn.

    Raises `BadInput` if they are of several types.

    >>> numbered(["b", None, "a", "b"]).tolist()
    [1, -1, 0, 1]
    """
    try:
        array = pa.array(labels, from_pandas=True)
        if pa.types.is_integer(array.type):
            array = pc.if_else(pc.equal(array, -1), None, array)
        encoded = array.dictionary_encode()
        order = pc.sort_indices(encoded.dictionary).to_numpy()
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise BadInput(
            f"labels are a {type(labels).__name__} that cannot be sorted ({error}); give one label "
            f"for each node, all integers or all strings, and None where it is unknown"
        ) from error
    # In the order of the labels, not of the nodes: a permuted graph has the same numbers.
    ranks = np.empty(len(order) + 1, np.int32)
    ranks[order], ranks[-1] = np.arange(len(order)), -1
    places: NDArray[np.int32] = encoded.indices.fill_null(len(order)).to_numpy()
    return ranks[places]
