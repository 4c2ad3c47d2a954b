"""The life of a series in numbers: one row for each window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from stream_icd.communities import STAGES
from stream_icd.view.data.window import SeenWindow


def life_row(one: SeenWindow) -> dict[str, Any]:
    """Return the numbers of a window; None where a number is not known.

    `delay_s` is the time from the end of the window to the result; for windows of the past, it
    says when they were detected, not how long that took.
    """
    result = one.result
    return {
        "number": one.number,
        "snapshot": result.snapshot_id,
        "start": result.window.start.isoformat(),
        "end": result.window.end.isoformat(),
        "model": result.model,
        "model_before": one.tracking.model_before,
        "k": one.n_communities,
        "k_given": result.k_given,
        "nodes": one.n_nodes,
        "edges": result.n_edges,
        "modularity": finite(result.modularity),
        "evidence": result.evidence,
        "bits_saved": finite(result.bits_saved),
        "horizon": finite(result.horizon),
        "predicted_bits": finite(result.predicted_bits),
        "nmi": finite(one.nmi),
        "ami": {name: finite(value) for name, value in one.known.agreement.items()},
        "missed": one.tracking.missed,
        "revision": result.revision,
        "ms": [finite(result.milliseconds.get(stage)) for stage in STAGES],
        "delay_s": (result.detected_at - result.window.end).total_seconds(),
    }


def life(windows: Sequence[SeenWindow]) -> dict[str, Any]:
    """Return the rows of all windows by column, and the names of the stages in `ms`."""
    rows = [life_row(one) for one in windows]
    names = rows[0] if rows else {}
    return {"stages": STAGES, "columns": {name: [row[name] for row in rows] for name in names}}


def finite(value: float | None) -> float | None:
    """Return a number that JSON can hold, rounded; None for NaN and infinities."""
    return None if value is None or not math.isfinite(value) else round(float(value), 6)
