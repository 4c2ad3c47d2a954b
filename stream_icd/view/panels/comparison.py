"""Two series side by side: how well they agree in each window, and where they disagree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from stream_icd.tracking.partition import NOBODY, match, overlaps, shared_nodes
from stream_icd.view.data.all_series import agreement
from stream_icd.view.data.window import SeenWindow, for_pairs, partition
from stream_icd.view.panels.life import finite

LEAST_ALIKE = 0.1
"""Jaccard index from which two communities count as each other's match."""


def comparison(
    ours: Sequence[SeenWindow], theirs: Sequence[SeenWindow], pairs: int, nodes: int
) -> dict[str, Any]:
    """Compare the windows that both series have, by their ends.

    Returns:
        `windows`: for each common window, its numbers in both series, the agreement (NMI), K and
        modularity of both; `newest`: details of the newest one (`disagreement`), or None.
    """
    common = list(_common(ours, theirs))
    rows = [
        {
            "number": a.number,
            "other": b.number,
            "end": a.result.window.end.isoformat(),
            "nmi": finite(_agreement(a, b)),
            "k": [a.n_communities, b.n_communities],
            "modularity": [finite(a.result.modularity), finite(b.result.modularity)],
        }
        for a, b in common
    ]
    return {"windows": rows, "newest": disagreement(*common[-1], pairs, nodes) if common else None}


def disagreement(a: SeenWindow, b: SeenWindow, pairs: int, nodes: int) -> dict[str, Any]:
    """Return the pairs of communities that share nodes, and the nodes that are not in a match.

    Communities of the two windows match one to one, with the largest sum of Jaccard indices.
    """
    ours, theirs = partition(a.members), partition(b.members)
    between = overlaps(ours, theirs)
    partner = match(between, LEAST_ALIKE)  # (K of b,): community of a, or NOBODY
    matched = partner[between.new] == between.old
    order = np.lexsort((between.new, between.old, -between.shared, matched))
    rows, columns = shared_nodes(ours, theirs)
    apart = partner[theirs.labels[columns]] != ours.labels[rows]
    chosen = rows[apart][:nodes], columns[apart][:nodes]
    names = [str(name) for name in ours.nodes.take(chosen[0]).to_pylist()]
    mine = ours.names[ours.labels[chosen[0]]].tolist()
    other = theirs.names[theirs.labels[chosen[1]]].tolist()
    return {
        "snapshot": a.result.snapshot_id,
        "common_nodes": len(rows),
        "apart": int(apart.sum()),
        "pairs": [
            {
                "ids": [int(ours.names[between.old[p]]), int(theirs.names[between.new[p]])],
                "shared": int(between.shared[p]),
                "sizes": [
                    int(ours.sizes[between.old[p]]),
                    int(theirs.sizes[between.new[p]]),
                ],
                "match": bool(matched[p]),
            }
            for p in order[:pairs].tolist()
        ],
        "matches": [
            [int(ours.names[old]), int(theirs.names[new])]
            for new, old in enumerate(partner.tolist())
            if old != NOBODY
        ],
        "nodes": [list(row) for row in zip(names, mine, other, strict=True)],
    }


def _common(
    ours: Sequence[SeenWindow], theirs: Sequence[SeenWindow]
) -> Iterator[tuple[SeenWindow, SeenWindow]]:
    by_end = {one.result.window.end: one for one in theirs}
    return ((one, by_end[end]) for one in ours if (end := one.result.window.end) in by_end)


@for_pairs
def _agreement(a: SeenWindow, b: SeenWindow) -> float | None:
    return agreement(partition(a.members), partition(b.members))
