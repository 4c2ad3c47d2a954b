"""Seconds by stage of the paper's method, ours beside the published ones."""

from __future__ import annotations

import json

import numpy as np

from benchmarks.lab.markdown import head, line
from benchmarks.lab.measured import Measured
from benchmarks.lab.paper.published import means

STAGES = {"features": "Feat", "encode": "Prop", "cluster": "Clus"}
"""The paper's name of each stage."""

VARIANTS = {"icd": "ICD-M", "icd-c": "ICD-C", "icd-hops": "", "icd-gat": "", "icd-gin": ""}
"""The paper's name of each variant, which has a GCN."""


def seconds_by_stage(found: Measured) -> list[str]:
    """A table of data sets by stages, for each variant, and `bp` beside them as a whole."""
    variants = [one for one in VARIANTS if one in found.methods]
    if not variants:
        return []
    published = means()
    lines = []
    for name in found.data_sets:
        cells = []
        for method in variants:
            for stage, theirs in STAGES.items():
                ours = _stage(found, name, method, stage)
                paper = published.get(("seconds", f"{VARIANTS[method]} {theirs}", name))
                said = "" if ours is None else f"{ours:.3f}"
                cells.append(said if paper is None else f"{said} ({paper:g})")
        bp = found.mean(name, "bp", "seconds")
        lines.append(line([name, *cells, "" if bp is None else f"{bp:.3f}"]))
    names = [f"{method}: {stage}" for method in variants for stage in STAGES]
    return [
        "## Seconds by stage",
        "",
        "The stages of the paper's method, the published value in parentheses (48 cores and a GPU "
        "there, one thread here), and the whole of `bp`, which has no stages.",
        "",
        *head(["data set", *names, "bp"]),
        *lines,
        "",
    ]


def _stage(found: Measured, name: str, method: str, stage: str) -> float | None:
    rows = found.of.get((name, method), {}).values()
    values = [json.loads(row.stages).get(stage) for row in rows]
    values = [value for value in values if value is not None]
    return float(np.mean(values)) if values else None
