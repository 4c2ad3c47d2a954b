"""Read GraphML as an edge list: find the names of its nodes and the weights of its edges.

GraphML has no attribute of its own for either. igraph, graph-tool, yEd and Cytoscape number the
nodes of each file anew, and store their names as an attribute; NetworkX declares an attribute once
for each type of its values.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from xml.etree import ElementTree
from xml.etree.ElementTree import Element
from xml.parsers import expat

import pyarrow as pa

from stream_icd.core.errors import BadInput
from stream_icd.core.printable import printable
from stream_icd.sources.source import OnIgnored

_NAMES = ("name", "label", "vertex_name", "nodegraphics", "nodelabels", "_graphml_vertex_id", "id")
"""Attributes that name nodes, the most usual first, in lower case: of igraph, graph-tool, Cytoscape
and Gephi (name, label), Boost, and yEd; the last two are ids of a file that graph-tool or igraph
has read and written again."""

_DRAWN = ("NodeLabel", "EdgeLabel", "Label.Text")
"""Elements that hold the text of a drawn node or edge, in yEd."""

_PLACE = "n"
"""The word before the places of nodes in a file, n0, of igraph, graph-tool, Boost and yEd."""

_NUMBERED = re.compile(r"(\D*)\d+")
"""A number, perhaps after a word: n0. Nested graphs of yEd join several: n0::n1."""

_BY_ID = (
    "has no name or label that each node has and no two nodes share: nodes are known by their ids. "
    "If these are places in the file (n0, n1, …), the same id is another node in the next file"
)
_NESTED = "has nested graphs: all their nodes and edges are read as one graph"
_SOME_WEIGHTS = "has edges without a weight: they weigh 1"
_NO_WEIGHT = "has no attribute weight on edges, so all edges weigh 1: not used are %s"
_NOT_USED = "has attributes that are not used: %s"

SettleNames = Callable[[str | None], str | None]
"""Called with the attribute that can name the nodes of a file ("": their ids; None: nothing can);
returns the one of an earlier file of the same source, or else the given one."""


def read_graphml(text: bytes, settle: SettleNames, on_ignored: OnIgnored) -> pa.Table:
    """Return columns `src`, `dst` and, if an edge has one, `weight`, all text.

    A row without `dst` declares a node. If the ids of nodes are numbers, an attribute of `_NAMES`
    that each node has, and no two nodes share, names them, as `settle` decides. Attributes that are
    not used go to `on_ignored`. Raises `BadInput` if this is not GraphML of a single graph, or it
    declares entities, or its nodes have no names, unlike those of an earlier file; `ParseError` or
    `ExpatError` if it is no XML.
    """
    _refuse_declarations(text)
    parts = _parts(ElementTree.fromstring(text))
    nodes, edges = parts["node"], parts["edge"]
    ids = [node.get("id", "") for node in nodes]
    ends = [_ends(edge) for edge in edges]
    of_nodes, of_edges, of_graphs = (
        _attributes(parts[kind], _names_of_keys(parts["key"], kind))
        for kind in ("node", "edge", "graph")
    )
    linked = {end for pair in ends for end in pair if end}
    name = _naming(ids, linked, of_nodes, settle, on_ignored)
    called = dict(zip(ids, _texts(of_nodes[name]), strict=True)) if name else {}
    columns = {
        "src": [*(called.get(id, id) for id in ids), *(called.get(s, s) for s, _ in ends)],
        "dst": [*[None] * len(ids), *(called.get(t, t) for _, t in ends)],
    }
    weight, stated = _weights(parts["key"], of_edges, len(edges), on_ignored)
    if weight is not None:
        columns["weight"] = [*[None] * len(ids), *stated]
    if len(parts["graph"]) > 1:
        on_ignored(_NESTED, ())
    used = {"node": name, "edge": weight, "graph": None}
    kinds = {"node": of_nodes, "edge": of_edges, "graph": of_graphs}
    unused = [
        f"{attribute} of {kind}s"
        for kind, attributes in kinds.items()
        for attribute in attributes
        if attribute != used[kind]
    ]
    if unused:
        on_ignored(_NO_WEIGHT if edges and weight is None else _NOT_USED, unused)
    return pa.table({column: pa.array(texts, pa.string()) for column, texts in columns.items()})


def _refuse_declarations(text: bytes) -> None:
    """Refuse XML that declares what can expand without limit, in any encoding; expand nothing."""

    def refuse(*_: object) -> None:
        raise BadInput(
            "its XML declares entities or attributes (ENTITY, ATTLIST), which can expand without "
            "limit: remove them"
        )

    parser = expat.ParserCreate()
    parser.EntityDeclHandler = parser.AttlistDeclHandler = refuse
    try:
        parser.Parse(text, True)
    except (LookupError, ValueError) as error:
        raise BadInput(f"its XML has an encoding that cannot be read: {error}") from error


def _parts(root: Element) -> Mapping[str, list[Element]]:
    """Return the elements of each kind, in the order of the file, of one graph."""
    if (kind := _kind(root)) != "graphml":
        raise BadInput(f"it is no GraphML: its first element is {printable(kind):.60}, not graphml")
    if (n_graphs := [_kind(part) for part in root].count("graph")) > 1:
        raise BadInput(f"it holds {n_graphs:,} graphs: write each to a file of its own")
    parts: defaultdict[str, list[Element]] = defaultdict(list)
    to_visit = [root]
    while to_visit:
        element = to_visit.pop()
        if (kind := _kind(element)) != "data":  # which may hold anything
            parts[kind].append(element)
            to_visit += element[::-1]
    if parts["hyperedge"]:
        raise BadInput(
            f"it holds hyperedges ({len(parts['hyperedge']):,}), and an edge has two ends: write "
            "each as the edges between its nodes"
        )
    if parts["locator"]:
        raise BadInput("a part of it is in another file (locator): write all of it to one file")
    return parts


def _kind(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _ends(edge: Element) -> tuple[str, str]:
    """Return both ends; if one is missing, the first is empty, which is no id."""
    source, target = edge.get("source", ""), edge.get("target", "")
    return (source, target) if target else ("", source)


def _names_of_keys(keys: Sequence[Element], kind: str) -> dict[str, str]:
    """Return the attribute of each key that elements of a kind refer to.

    Cytoscape declares all keys for nodes, and uses them on edges: a key of another kind counts if
    no key of this kind has the same id.
    """
    rank = {kind: 2, "all": 1}
    ordered = sorted(keys, key=lambda key: rank.get(key.get("for", "all"), 0))
    return {key.get("id", ""): _name_of_key(key) for key in ordered}


def _name_of_key(key: Element) -> str:
    return key.get("attr.name", "") or key.get("yfiles.type", "") or key.get("id", "")


def _attributes(
    elements: Sequence[Element], names: Mapping[str, str]
) -> dict[str, dict[int, list[str]]]:
    """Return the texts of each attribute, by the place of the element that has it."""
    attributes: dict[str, dict[int, list[str]]] = {}
    for at, element in enumerate(elements):
        for data in element:
            if _kind(data) == "data" and (text := _text(data)):
                key = data.get("key", "")
                attributes.setdefault(names.get(key, key), {}).setdefault(at, []).append(text)
    return attributes


def _text(data: Element) -> str:
    """Return the text of an attribute; of a drawn node or edge, its first label."""
    if text := (data.text or "").strip():
        return text
    drawn = ((part.text or "").strip() for part in data.iter() if part.tag.endswith(_DRAWN))
    return next(filter(None, drawn), "")


def _texts(values: Mapping[int, Sequence[str]]) -> list[str]:
    """Return the text of each element; different texts of one element are joined."""
    return [" and ".join(dict.fromkeys(values[at])) for at in sorted(values)]


def _naming(
    ids: Sequence[str],
    ends: Collection[str],
    attributes: Mapping[str, Mapping[int, Sequence[str]]],
    settle: SettleNames,
    on_ignored: OnIgnored,
) -> str | None:
    """Return the attribute that names the nodes; None if their ids do."""
    if (word := _word(ids or ends)) is None:
        return None
    faults = {
        attribute: _fault(ids, ends, attributes[attribute])
        for name in _NAMES
        for attribute in attributes
        if attribute.lower() == name
    }
    best = next((attribute for attribute, fault in faults.items() if not fault), None)
    by_id = None if word == _PLACE else ""
    name = settle(by_id if best is None else best)
    if name and (fault := faults.get(name, "no node has it")):
        raise BadInput(
            f"the attribute {printable(name):.60} names the nodes of the files before it, and "
            f"here {fault}: give each node a name of its own"
        )
    if not name and (faults or word == _PLACE):
        on_ignored(_BY_ID, ())
    return name or None


def _word(ids: Collection[str]) -> str | None:
    """Return the word that precedes the number of each id, perhaps ""; None: they are no numbers.

    >>> _word(["n0", "n0::n1"]), _word(["60", "61"]), _word(["as701", "ix1"])
    ('n', '', None)
    """
    parts = (_NUMBERED.fullmatch(part) for id in ids for part in id.split("::"))
    words = {part and part[1] for part in parts}
    return words.pop() if len(words) == 1 else None


def _fault(ids: Sequence[str], ends: Collection[str], values: Mapping[int, Sequence[str]]) -> str:
    """Return why an attribute cannot name the nodes; "" if it can."""
    if len(values) < len(ids):
        lacking = next(id for at, id in enumerate(ids) if at not in values)
        return f"node {printable(lacking):.60} has none"
    declared = set(ids)
    if unknown := next((end for end in ends if end not in declared), None):
        return f"node {printable(unknown):.60} has none"
    if len(declared) < len(ids):
        return "two nodes have the same id"
    first: dict[str, int] = {}
    for at, text in enumerate(texts := _texts(values)):
        if first.setdefault(text, at) != at:
            namesakes = f"{printable(ids[first[text]]):.60} and {printable(ids[at]):.60}"
            return f"nodes {namesakes} have the same"
    return "it holds numbers" if _word(texts) == _PLACE else ""


def _weights(
    keys: Sequence[Element],
    attributes: Mapping[str, Mapping[int, Sequence[str]]],
    n_edges: int,
    on_ignored: OnIgnored,
) -> tuple[str | None, list[str]]:
    """Return the attribute that is the weight, if there is one, and the weight of each edge."""
    defaults: dict[str, str] = {}
    for key in keys:
        default = key.findtext("{*}default", "").strip()
        if default and key.get("for", "all") in ("edge", "all"):
            defaults.setdefault(_name_of_key(key), default)
    named = [name for name in {**attributes, **defaults} if name.lower() == "weight"]
    if not named:
        return None, []
    name = "weight" if "weight" in named else named[0]
    stated = attributes.get(name, {})
    if len(stated) < n_edges and name not in defaults:
        on_ignored(_SOME_WEIGHTS, ())
    weights = [defaults.get(name, "1")] * n_edges
    for at, weight in zip(sorted(stated), _texts(stated), strict=True):
        weights[at] = _decimal(weight)
    return name, weights


def _decimal(number: str) -> str:
    """Return a number as decimal text: graph-tool writes 0x1.8p+1 for 3."""
    with suppress(ValueError, OverflowError):
        return str(float.fromhex(number)) if "x" in number.lower() else number
    return number
