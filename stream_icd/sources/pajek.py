"""Graphs in Pajek files (`.net`), which Gephi, igraph and VOSviewer write, too.

A. Mrvar and V. Batagelj, "Pajek: reference manual", section 5.3. `*Vertices n` counts the nodes,
whose lines hold a number and perhaps a label. `*Edges` and `*Arcs` hold pairs of numbers, perhaps
with a weight, which is 1 by default; `*Edgeslist` and `*Arcslist` the neighbours of a node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from stream_icd.core.errors import BadInput, BadRow
from stream_icd.sources.declared_nodes import check_number_of_nodes, with_nodes
from stream_icd.sources.headerless import NUMBER
from stream_icd.sources.source import OnBadRow, OnIgnored
from stream_icd.sources.tables import RawRows

_PAIRS, _LISTS = ("edges", "arcs"), ("edgeslist", "arcslist")
_TITLE = re.compile(rf"\*({'|'.join(('network', 'vertices', *_PAIRS, *_LISTS))})\b", re.IGNORECASE)
_KNOWN = "keep *Network, *Vertices, *Edges, *Arcs, *Edgeslist and *Arcslist only"
_VERTEX = re.compile(r'\s*(\d+)(?:\s+(?:"([^"]*)"|(\S+)))?')

_BY_NUMBER = (
    "has nodes without a label of their own: all nodes are named by their numbers, not by labels "
    "such as %s"
)


class _Part(NamedTuple):
    """The lines below a title, with their numbers."""

    title: str  # in lower case, without the star
    number: int  # in the title; -1: none
    lines: list[tuple[int, str]]


def is_pajek(start: str) -> bool:
    """Whether a text that begins so is in this format."""
    lines = (line.strip() for line in start.split("\n"))
    return _TITLE.match(next((line for line in lines if line and line[0] != "%"), "")) is not None


def read_pajek(text: str, name: str, on_bad_row: OnBadRow, on_ignored: OnIgnored) -> RawRows:
    """Read columns `src`, `dst` and, if an edge has one, `weight`; and all nodes.

    Nodes have their labels as ids if each has one of its own, and their numbers otherwise: labels
    that are not used go to `on_ignored`, with `_BY_NUMBER`. Lines that are no edges go to
    `on_bad_row`. Positions, colours and times are not used.

    Raises `BadInput` if the file has several networks, no number of vertices, or another part, such
    as a matrix.
    """
    parts = _parts(text.split("\n"))
    vertices = [part for part in parts if part.title == "vertices"]
    if len(vertices) != 1 or vertices[0].number < 0:
        raise BadInput(
            f"it has {len(vertices)} lists *Vertices; one network a file has one, with the number "
            "of its nodes"
        )
    n_nodes = vertices[0].number
    check_number_of_nodes(n_nodes, len(text))
    nodes = _nodes(vertices[0], on_ignored)
    place, src, dst, weights = list[int](), list[int](), list[int](), list[str | None]()
    for part in parts:
        for at, line in part.lines if part.title in (*_PAIRS, *_LISTS) else ():
            first, *others = line.split()
            ends = [first, *(others[:1] if part.title in _PAIRS else others)]
            if len(ends) < 2 or not all(re.fullmatch(r"\d{1,18}", end) for end in ends):
                on_bad_row(BadRow(f"{name}:{at}: {line!r:.60} is no edge of two numbers of nodes"))
                continue
            node, *neighbours = map(int, ends)
            if not all(1 <= end <= n_nodes for end in (node, *neighbours)):
                on_bad_row(BadRow(f"{name}:{at}: {line!r:.60} names no node of 1 to {n_nodes:,}"))
                continue
            weight = others[1] if part.title in _PAIRS and len(others) > 1 else ""
            weights += [weight if re.match(NUMBER, weight) else None] * len(neighbours)
            src += [node] * len(neighbours)
            dst += neighbours
            place += [at] * len(neighbours)
    edges = {"src": src, "dst": dst}
    columns = {end: nodes.take(pa.array(np.array(of, np.int64) - 1)) for end, of in edges.items()}
    if any(weights):
        columns["weight"] = pa.array([weight or "1" for weight in weights])
    return with_nodes(name, np.array(place, np.int64), pa.table(columns), nodes)


def _parts(lines: Iterable[str]) -> list[_Part]:
    """Divide a file at its titles; `BadInput`: one is of something else than a simple network."""
    parts = [_Part("", -1, [])]
    for at, text in enumerate(lines, start=1):
        line = text.strip()
        if line.startswith("*"):
            if (title := _TITLE.match(line)) is None:
                raise BadInput(
                    f"line {at}, {line!r:.60}, begins a part that cannot be read: {_KNOWN}"
                )
            number = re.search(r"\d{1,18}", line)
            parts.append(_Part(title[1].lower(), int(number[0]) if number else -1, []))
        elif line and not line.startswith("%"):
            parts[-1].lines.append((at, line))
    return parts


def _nodes(vertices: _Part, on_ignored: OnIgnored) -> pa.Array:
    """Return the id of each node: its label, if each has one of its own, or its number."""
    matches = filter(None, (_VERTEX.match(line) for _, line in vertices.lines))
    labels = {int(match[1]): match[2] or match[3] for match in matches}
    named = {number: label for number, label in labels.items() if label}
    numbers = range(1, vertices.number + 1)
    if len(set(named.values())) == vertices.number and all(number in named for number in numbers):
        return pa.array([named[number] for number in numbers])
    if named:
        on_ignored(_BY_NUMBER, next(iter(named.values())))
    return pa.array(np.arange(1, vertices.number + 1))
