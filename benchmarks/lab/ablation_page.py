"""What docs/measured/encoder.md quotes of `lab.ablation`: ours beside the published values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.lab.markdown import head, line
from benchmarks.shared.kept import Figures
from benchmarks.shared.pages.encoder_page import least_to_most
from benchmarks.shared.spread import with_spread

Cell = tuple[str, str, str]
"""Variant, data set, and the parts that are left."""

Found = dict[Cell, list[Figures]]
"""What was measured, a seed or a graph each."""

Published = Mapping[tuple[str, str, str, str], float]
"""The paper's means by measure, variant, parts and data set."""

FULL = "full"

PERCENTAGES = {"NMI": "nmi", "AC": "ac", "Q": "modularity"}


def trained_table(found: Found, published: Published) -> str:
    """Small graphs: what leaving a part out changes after training, ours and the paper's."""
    names = ["variant", "graphs", "parts", "steps", "rank", "NMI untrained", "NMI", "AMI"]
    lines = head([*names, "change from full", "published change", "difference"])
    for cell, seeds in found.items():
        variant, name, parts = cell
        before = [seed["untrained"] for seed in seeds]
        cells = [
            *cell,
            least_to_most([seed["steps"] for seed in seeds]),
            f"{_mean(before, 'rank'):.0f} → {_mean(seeds, 'rank'):.0f}",
            with_spread([one["nmi"] for one in before]),
            with_spread([seed["nmi"] for seed in seeds]),
            with_spread([seed["ami"] for seed in seeds]),
        ]
        if parts == FULL:
            lines.append(line([*cells, "", "", ""]))
            continue
        ours = _mean(seeds, "nmi") - _mean(found[variant, name, FULL], "nmi")
        theirs = published["nmi", variant, parts, name] - published["nmi", variant, FULL, name]
        lines.append(line([*cells, _change(ours), _change(theirs), _change(ours - theirs)]))
    return "\n".join(lines) + "\n"


def full_size_table(found: Found, published: Published) -> str:
    """Graphs of full size: each measure of the untrained encoder, the published one, and by how
    much ours is higher; NCut as in the paper's tables."""
    lines = head(["variant", "graphs", "parts", "AMI", *PERCENTAGES, "NCut"])
    for cell, graphs in found.items():
        variant, name, parts = cell
        cells = [*cell, f"{_mean(graphs, 'ami'):.1f}"]
        for key in PERCENTAGES.values():
            ours, theirs = _mean(graphs, key), published[key, variant, parts, name]
            cells.append(f"{ours:.1f} ({theirs:.1f}, {_change(ours - theirs)})")
        ours, theirs = _mean(graphs, "ncut"), published["ncut", variant, parts, name]
        cells.append(f"{ours:,.0f} ({theirs:,.0f})")
        lines.append(line(cells))
    return "\n".join(lines) + "\n"


def _change(value: float) -> str:
    return f"{round(value, 1) + 0.0:+.1f}"  # never -0.0


def _mean(figures: Sequence[Figures], key: str) -> float:
    return float(np.mean([figure[key] for figure in figures]))
