"""The numbers of each window of a series; and two series side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from stream_icd.core.communities import STAGES
from stream_icd.interfaces.view.data.series import SeenWindow, for_pairs
from stream_icd.methods.tracking.identities import NodePartition
from stream_icd.wire.communities import SUMMARY

_MOST_PAIRS = 40
_MOST_APART = 200
_LEAST_ALIKE = 0.1  # Jaccard index from which two communities count as each other's match


def life(windows: Sequence[SeenWindow]) -> dict[str, Any]:
    """Return the rows of all windows by column, and the names of the stages in `ms`."""
    rows = [life_row(window) for window in windows]
    names = rows[0] if rows else {}
    return {"stages": STAGES, "columns": {name: [row[name] for row in rows] for name in names}}


def life_row(window: SeenWindow) -> dict[str, Any]:
    """Return the numbers of a window; None where a number is not known.

    `delay_s` is the time from the end of the window to the result; for windows of the past, it
    says when they were detected, not how long that took.
    """
    result = window.result
    return {
        "number": window.number,
        "snapshot": result.snapshot_id,
        "start": result.window.start.isoformat(),
        "end": result.window.end.isoformat(),
        "model": result.model,
        "model_before": window.tracking.model_before,
        "k": window.n_communities,
        "k_given": result.k_given,
        "nodes": window.n_nodes,
        "edges": result.n_edges,
        "modularity": _finite(result.modularity),
        **{name: _shown(getattr(result, name)) for name in SUMMARY},
        "nmi": _finite(window.nmi),
        "ami": {name: _finite(value) for name, value in window.names.agreement.items()},
        "missed": window.tracking.missed,
        "ms": [_finite(result.milliseconds.get(stage)) for stage in STAGES],
        "delay_s": (result.detected_at - result.window.end).total_seconds(),
    }


def _shown(value: str | float | None) -> str | float | None:
    return value if isinstance(value, str | int) else _finite(value)


def _finite(value: float | None) -> float | None:
    """Return a number that JSON can hold, rounded; None for NaN and infinities."""
    return None if value is None or not math.isfinite(value) else round(float(value), 6)


def comparison(
    windows: Sequence[SeenWindow], other_windows: Sequence[SeenWindow], last: int
) -> dict[str, Any]:
    """Compare the last windows that both series have, by their ends.

    Returns:
        `windows`: for each common window its number, the agreement (NMI), and K of both; `newest`:
        details of the newest one (`_disagreement`), or None.
    """
    by_end = {window.result.window.end: window for window in other_windows}
    ends = ((window, window.result.window.end) for window in windows)
    common = [(window, by_end[end]) for window, end in ends if end in by_end][-last:]
    rows = [
        {
            "number": a.number,
            "start": a.result.window.start.isoformat(),
            "nmi": _finite(_agreement(a, b)),
            "k": [a.n_communities, b.n_communities],
        }
        for a, b in common
    ]
    return {"windows": rows, "newest": _disagreement(*common[-1]) if common else None}


def _disagreement(a: SeenWindow, b: SeenWindow) -> dict[str, Any]:
    """Return the pairs of communities that share nodes, and the nodes that are not in a match.

    Communities of the two windows match one to one, with the largest sum of Jaccard indices.
    """
    of_a, of_b = NodePartition.unpacked(a.members), NodePartition.unpacked(b.members)
    between = of_a.overlaps(of_b)
    partner = between.matched(_LEAST_ALIKE)  # (K of b,): community of a, or `NOBODY`
    matched = partner[between.new] == between.old
    # What the two disagree on comes first: the page shows at most `_MOST_PAIRS`.
    order = np.lexsort((between.new, between.old, -between.shared, matched))
    rows, columns = of_a.shared_nodes(of_b)
    apart = partner[of_b.labels[columns]] != of_a.labels[rows]
    rows_apart, columns_apart = rows[apart][:_MOST_APART], columns[apart][:_MOST_APART]
    nodes = [str(node) for node in of_a.nodes.take(rows_apart).to_pylist()]
    ids_of_a = of_a.names[of_a.labels[rows_apart]].tolist()
    ids_of_b = of_b.names[of_b.labels[columns_apart]].tolist()
    return {
        "snapshot": a.result.snapshot_id,
        "common_nodes": len(rows),
        "apart": int(apart.sum()),
        "pairs": [
            {
                "ids": [int(of_a.names[between.old[p]]), int(of_b.names[between.new[p]])],
                "shared": int(between.shared[p]),
                "sizes": [int(of_a.sizes[between.old[p]]), int(of_b.sizes[between.new[p]])],
                "match": bool(matched[p]),
            }
            for p in order[:_MOST_PAIRS].tolist()
        ],
        "nodes": [list(row) for row in zip(nodes, ids_of_a, ids_of_b, strict=True)],
    }


@for_pairs
def _agreement(a: SeenWindow, b: SeenWindow) -> float | None:
    return NodePartition.unpacked(a.members).agreement(NodePartition.unpacked(b.members))
