"""Streams of generated graphs, each with its K and its true communities."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Literal

import pyarrow as pa

from stream_icd.communities import Labels
from stream_icd.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.synthetic.planted_graph import PlantedGraph

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
STEP = timedelta(minutes=1)

Shift = Literal["none", "sudden", "gradual"]
"""How a parameter of the generator changes over a stream."""


def shifted(shift: Shift, step: int, n_steps: int, before: float, after: float) -> float:
    """Return a parameter's value at a step: constant, changed at the middle, or linear.

    >>> [shifted("gradual", step, 3, 0.2, 0.6) for step in range(3)]
    [0.2, 0.4, 0.6]
    """
    if shift == "gradual":
        return before + (after - before) * (step / max(n_steps - 1, 1))
    return after if shift == "sudden" and 2 * step >= n_steps else before


def planted_snapshots(
    graphs: Iterator[PlantedGraph], graph: str, source: str
) -> Iterator[tuple[Snapshot, Labels]]:
    """Yield one snapshot per simulated minute, with every node declared."""
    for step, planted in enumerate(graphs):
        window = Window(EPOCH + step * STEP, EPOCH + (step + 1) * STEP)
        name = f"{graph}/{step:06d}"
        every_node = pa.array(range(planted.n_nodes))
        snapshot = snapshot_from_pairs(
            pa.concat_arrays([pa.array(planted.edges[0]), every_node]),
            pa.concat_arrays([pa.array(planted.edges[1]), pa.nulls(planted.n_nodes, pa.int64())]),
            graph=graph,
            id=name,
            window=window,
            n_communities=planted.n_communities,
            source=source,
        )
        yield snapshot, Labels(graph, name, window, snapshot.nodes, planted.communities, source)
