"""The files for readers of a model that was retrained: `about.toml` and `card.md`."""

from __future__ import annotations

from dataclasses import asdict

import tomli_w

from stream_icd.lineage import Figure, Gate, Lineage
from stream_icd.registry.about import ABOUT_FILE, CARD_FILE, About
from stream_icd.retraining.jobs import Made
from stream_icd.retraining.learn import Taught


def described(made: Made, lineage: Lineage) -> dict[str, bytes]:
    """Return the files by name; the lineage must have its data and its gate."""
    assert lineage.data is not None
    assert lineage.gate is not None
    graphs = ", ".join(lineage.data.graphs)
    taught = f"{len(made.taught)} windows of {graphs} that ended by {lineage.data.end:%F %T} UTC"
    about = About(f"graphs like {graphs}", taught, lineage.gate.reason)
    card = f"""# {made.model.version}

**For**: {about.purpose}.

**Learned from**: {taught}; its parent is {lineage.parent}.

**How good**: {lineage.gate.reason}.

## Compared with the champion before

{_gate(lineage.gate)}

## What each window taught

`labels`: by its known communities; `edges`: without labels.

| window | taught by | nodes with known communities |
|---|---|---|
{_taught(made.taught)}
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


def _taught(taught: tuple[Taught, ...]) -> str:
    rows = (f"| {_cell(one.window)} | {one.by} | {one.known} |" for one in taught)
    return "\n".join(rows)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
