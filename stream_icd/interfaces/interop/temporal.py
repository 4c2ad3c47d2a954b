"""Snapshots of graphs over time that other libraries hold: DyNetX, networkx-temporal, PyG."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_icd.core.arrays import Floats
from stream_icd.core.errors import BadInput, BadSettings, BadSnapshot
from stream_icd.core.node_ids import id_array
from stream_icd.core.snapshot import EPOCH, MICROSECOND, Snapshot, Window, snapshot_from_pairs
from stream_icd.core.times import snapshot_id

_SECOND = timedelta(seconds=1)


_Contacts = tuple[pa.Array, pa.Array, NDArray[np.int64], Floats]
"""Ends, times and weights of edges."""


def temporal_snapshots(
    graph: Any, name: str, *, every: int = 1, unit: timedelta = _SECOND
) -> Iterator[Snapshot]:
    """Yield a snapshot of each window of a graph over time, in order, for `ICD.predict_next` or a
    producer (docs/producers.md). Windows without edges are left out, and self loops do not count.

    Args:
        graph: `DynGraph` or `DynDiGraph` of DyNetX, whose times are whole numbers; a temporal graph
            of networkx-temporal, whose times are the numbers of its slices, from 0; or
            `TemporalData` of PyG. Edges that a window has more than once are one edge, and weigh
            as much as all of them: DyNetX and PyG have no other weights, the slices have `weight`.
        name: that of the graph.
        every: length of a window, in units of the graph's times.
        unit: what a time of 1 is; 0 is the beginning of 1970.

    Raises:
        BadInput: the graph is of another kind, or a time is no whole number.
        BadSettings: `every` or `unit` is not above 0.
        BadSnapshot: ids are neither all integers nor all strings, or a weight is not above 0.

    >>> import dynetx
    >>> contacts = dynetx.DynGraph()
    >>> for src, dst, hour in [("ann", "bob", 9), ("bob", "cem", 9), ("ann", "cem", 31)]:
    ...     _ = contacts.add_interaction(src, dst, t=hour)
    >>> hour = timedelta(hours=1)
    >>> days = temporal_snapshots(contacts, "talk", every=24, unit=hour)
    >>> [(day.id, day.n_edges) for day in days]
    [('talk/1970-01-01T00:00:00Z/P1D', 2), ('talk/1970-01-02T00:00:00Z/P1D', 1)]
    """
    if every < 1 or unit < MICROSECOND:
        raise BadSettings(f"every is {every} and unit {unit}: give a window that is not empty")
    src, dst, times, weights = _contacts(graph)
    starts = times // every * every
    order = np.argsort(starts, kind="stable")
    bounds = np.flatnonzero(np.diff(starts[order], prepend=starts[order][:1] - 1))
    for at in np.split(order, bounds[1:]) if len(order) else ():
        start = int(starts[at[0]])
        window = Window(EPOCH + start * unit, EPOCH + (start + every) * unit)
        yield snapshot_from_pairs(
            src.take(at),
            dst.take(at),
            graph=name,
            id=snapshot_id(name, window),
            window=window,
            weights=weights[at],
        )


def _contacts(graph: Any) -> _Contacts:
    """Return the edges of a graph of any kind that is known, without self loops."""
    dynetx, pyg = sys.modules.get("dynetx"), sys.modules.get("torch_geometric.data")
    rows: Iterable[tuple[Any, Any, float, float]]
    if dynetx and isinstance(graph, dynetx.DynGraph | dynetx.DynDiGraph):
        directed = isinstance(graph, dynetx.DynDiGraph)
        at = graph.out_interactions if directed else graph.interactions
        rows = [(u, v, t, 1.0) for t in graph.temporal_snapshots_ids() for u, v, *_ in at(t=t)]
    elif pyg and isinstance(graph, pyg.TemporalData):
        src, dst, times = graph.src.tolist(), graph.dst.tolist(), graph.t.tolist()
        rows = [(u, v, t, 1.0) for u, v, t in zip(src, dst, times, strict=True)]
    elif type(graph).__module__.startswith("networkx_temporal."):
        rows = [
            (u, v, number, weight)
            for number, part in enumerate(graph)
            for u, v, weight in part.edges(data="weight", default=1.0)
        ]
    else:
        raise BadInput(
            f"a {type(graph).__name__} is no known graph over time: give a DynGraph of DyNetX, a "
            "temporal graph of networkx-temporal or a TemporalData of PyG"
        )
    edges = [row for row in rows if row[0] != row[1]]
    src, dst, when, weights = zip(*edges, strict=True) if edges else ((), (), (), ())
    if wrong := next((time for time in when if time != time // 1), None):
        raise BadInput(f"time {wrong!r} is no whole number: give times in smaller units")
    return _ids(src), _ids(dst), np.array(when, np.int64), np.array(weights, float)


def _ids(names: Sequence[Any]) -> pa.Array:
    try:
        return id_array(names)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        raise BadSnapshot(
            "ids of one graph are integers or strings, not both: give all as strings"
        ) from None
