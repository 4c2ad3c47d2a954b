"""Graphs as lists of neighbours in METIS files (`.graph`, `.metis`), as KaHIP and DIMACS use them.

G. Karypis, "METIS: a software package for partitioning unstructured graphs", version 5.1, 2013,
section 4.1. The first line has the numbers of nodes and edges, and perhaps says which weights there
are; then each line lists the neighbours of one node. Nodes count from 1; `%` begins a comment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import dropwhile

import numpy as np
import pyarrow as pa

from stream_icd.core.arrays import Floats, Ids
from stream_icd.core.errors import BadInput
from stream_icd.sources.declared_nodes import with_nodes
from stream_icd.sources.tables import RawRows

_SIZES = re.compile(r"\s*(\d{1,18})\s+(\d{1,18})(?:\s+([01]{1,3})(?:\s+(\d{1,9}))?)?\s*")
"""Number of nodes, number of edges, format, and number of weights of a node."""

_A_LOOK = 100


def may_be_metis(start: str) -> bool:
    """Whether the first lines fit the format, as those of an edge list hardly do.

    start: the beginning of a text, up to the end of a line.
    """
    sizes, *lists = [text for _, text in _content(start)][: _A_LOOK + 1] or [""]
    if (match := _SIZES.fullmatch(sizes)) is None:
        return False
    n_nodes, n_edges = int(match[1]), int(match[2])
    if any(text.strip() for text in lists[n_nodes:]) or re.search(r"[^\d\s.]", "".join(lists)):
        return False
    if match[3] is not None:  # weights may be any numbers
        return True
    named = [(node, text.split()) for node, text in enumerate(lists, start=1)]
    return sum(len(others) for _, others in named) <= 2 * n_edges and all(
        str(node) not in others for node, others in named
    )


def read_metis(text: str, name: str) -> RawRows:
    """Read columns `src`, `dst` and, if edges have one, `weight`; and all nodes.

    The file states each edge in the lines of both ends. Sizes and weights of nodes are not used.

    Raises `BadInput` if this is no graph of this format: the message says at which line.
    """
    lines = list(dropwhile(lambda numbered: not numbered[1].strip(), _content(text)))
    first = lines[0][1] if lines else ""
    if (sizes := _SIZES.fullmatch(first)) is None:
        raise BadInput(
            f"METIS begins with the numbers of nodes and of edges, not with {first!r:.40}"
        )
    n_nodes, n_edges = int(sizes[1]), int(sizes[2])
    has_sizes, has_weights, is_weighted = (digit == "1" for digit in (sizes[3] or "").zfill(3))
    n_before = has_sizes + (int(sizes[4] or 1) if has_weights else 0)
    lists, after = lines[1 : n_nodes + 1], lines[n_nodes + 1 :]
    n_after = sum(bool(line.strip()) for _, line in after)
    if len(lists) < n_nodes or n_after:
        raise BadInput(
            f"its first line says {n_nodes:,} nodes, and {len(lists) + n_after:,} lines follow"
        )
    counts, others, weights = list[int](), list[int](), list[float]()
    for at, line in lists:
        fields = line.split()[n_before:]
        try:
            named = [int(field) for field in fields[:: 1 + is_weighted]]
            weights += [float(field) for field in fields[1::2]] if is_weighted else []
        except ValueError as error:
            raise BadInput(f"line {at}, {line!r:.60}, is no list of neighbours") from error
        if not all(1 <= other <= n_nodes for other in named):
            raise BadInput(f"line {at}, {line!r:.60}, names a node that is not in 1 to {n_nodes:,}")
        others += named
        counts.append(len(named))
    if is_weighted and len(weights) != len(others):
        raise BadInput(
            "some neighbours have no weight, though the first line says that all have one"
        )
    nodes = np.arange(1, n_nodes + 1)
    edges = {"src": np.repeat(nodes, counts), "dst": np.array(others, np.int64)}
    if is_weighted:
        edges["weight"] = np.array(weights)
    _check(edges, n_edges)
    once = edges["src"] <= edges["dst"]
    place = np.repeat([at for at, _ in lists], counts)[once]
    table = pa.table({column: values[once] for column, values in edges.items()})
    return with_nodes(name, place, table, pa.array(nodes))


def _check(edges: Mapping[str, Ids | Floats], n_edges: int) -> None:
    """Raise `BadInput` unless each edge is there in both directions, and all are counted."""
    src, dst = edges["src"], edges["dst"]
    if len(src) != 2 * n_edges:
        raise BadInput(
            f"its first line says {n_edges:,} edges, and its lists name {len(src):,} neighbours: "
            "not twice as many"
        )
    weights = edges.get("weight", np.zeros(len(src)))
    there, back = src < dst, src > dst
    forward = np.array([src[there], dst[there], weights[there]])
    backward = np.array([dst[back], src[back], weights[back]])
    both = [one[:, np.lexsort(one[::-1])] for one in (forward, backward)]
    if not np.array_equal(both[0], both[1]):
        raise BadInput("its lists differ in an edge: both ends of each one must name the other")


def _content(text: str) -> list[tuple[int, str]]:
    """Return the lines that are no comments, with their numbers; an empty one lists nobody."""
    lines = enumerate(text.removesuffix("\n").split("\n"), start=1)
    return [(at, line) for at, line in lines if not line.startswith("%")]
