"""The files for readers of a model that was retrained: `about.toml` and `card.md`."""

from __future__ import annotations

from dataclasses import asdict

import tomli_w

from stream_icd.lineage import Figure, Gate, Lineage
from stream_icd.registry.about import ABOUT_FILE, CARD_FILE, About
from stream_icd.retraining.jobs import Made
from stream_icd.retraining.learn import LearnedFrom


def described(made: Made, lineage: Lineage) -> dict[str, bytes]:
    """Return the files by name; the lineage must have its data and its gate."""
    assert lineage.data is not None
    assert lineage.gate is not None
    graphs = ", ".join(lineage.data.graphs)
    learned_from = (
        f"{len(made.windows)} windows of {graphs} that ended by {lineage.data.end:%F %T} UTC"
    )
    about = About(f"graphs like {graphs}", learned_from, lineage.gate.reason)
    card = f"""# {made.model.version}

**For**: {about.purpose}.

**Learned from**: {learned_from}; its parent is {lineage.parent}.

**How good**: {lineage.gate.reason}.

## Compared with the champion before

{_gate(lineage.gate)}

## What was used of each window

`labels`: its known communities; `edges`: its edges, without labels.

| window | used | nodes with known communities |
|---|---|---|
{_learned_from(made.windows)}
"""
    return {
        ABOUT_FILE: tomli_w.dumps(asdict(about)).encode(),
        CARD_FILE: card.encode(),
    }


def _gate(gate: Gate) -> str:
    rows = "\n".join(map(_figure, gate.figures))
    return f"""On {gate.windows} newer windows that neither learned from, {gate.start:%F %T} to
{gate.end:%F %T} UTC.

| measure | {gate.champion} | {gate.challenger} | difference |
|---|---|---|---|
{rows}"""


def _figure(figure: Figure) -> str:
    between = "" if figure.low is None else f"{figure.low:+.3f} to {figure.high:+.3f}"
    return f"| {figure.measure} | {figure.champion:.3f} | {figure.challenger:.3f} | {between} |"


def _learned_from(windows: tuple[LearnedFrom, ...]) -> str:
    rows = (f"| {_cell(one.window)} | {one.by} | {one.known} |" for one in windows)
    return "\n".join(rows)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
