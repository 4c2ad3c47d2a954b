"""Reads a folder of graph files, and shows what came of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from stream_icd.core.errors import BadRow
from stream_icd.core.snapshot import Snapshot
from stream_icd.sources.edge_files import watch_edge_files


def read(folder: Path, **options: object) -> tuple[list[Snapshot], list[str]]:
    """The snapshots, and the reasons why rows or files are bad."""
    bad: list[BadRow] = []
    source = watch_edge_files(folder, on_bad_row=bad.append, **options)  # type: ignore[arg-type]
    return [snapshot for snapshot, _ in source.snapshots], [str(error) for error in bad]


def weighted(snapshot: Snapshot) -> dict[tuple[object, ...], float]:
    """The weight of each edge, by the ids of its ends; 1 if edges have none."""
    nodes = snapshot.nodes.to_pylist()
    weights = np.ones(snapshot.n_edges) if snapshot.weights is None else snapshot.weights
    pairs = snapshot.edges.T.tolist()
    ends = [(nodes[low], nodes[high]) for low, high in pairs]
    return dict(zip(ends, weights.tolist(), strict=True))
