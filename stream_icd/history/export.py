"""Export from the archive to one file: rows, or a graph for another program.

A graph file is GEXF, with Gephi's time line, or GraphML.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import IO, Any
from xml.sax.saxutils import XMLGenerator
from xml.sax.xmlreader import AttributesImpl

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from stream_icd.core.errors import BadSettings
from stream_icd.core.node_ids import in_schema
from stream_icd.core.printable import listed, printable, safe_cells
from stream_icd.core.store.store import Store
from stream_icd.core.store.whole_file import whole_file, writing
from stream_icd.core.times import rfc3339
from stream_icd.history.archive import Archive, Selection
from stream_icd.history.files import ArchivedWindow

_WRITERS: Mapping[str, Callable[..., Any]] = {
    ".parquet": partial(pq.ParquetWriter, compression="zstd"),
    ".csv": pa.csv.CSVWriter,
    ".arrow": pa.ipc.new_file,
}


def export(store: Store, selection: Selection, out: Path) -> int:
    """Write the selected rows to `out` in time order; return the number of rows.

    The columns are `graph` and then those of the archive; see `safe_cells` for CSV. The file
    appears when it is complete. If its name has an ending of `GRAPH_WRITERS`: see `_export_graph`.

    Raises:
        SourceNotFound, BadSettings: nothing is selected, the ending of the file's name is unknown,
            or graphs have ids of different types.
        StoreUnwritable, HistoryDamaged: see these classes.
    """
    if out.suffix in GRAPH_WRITERS:
        return _export_graph(store, selection, out)
    if out.suffix not in _WRITERS:
        endings = ", ".join(_WRITERS)
        raise BadSettings(f"cannot tell a format from {out.name!r}: end it in {endings}")
    with writing(out), whole_file(out) as aside, aside.open("xb") as sink:
        tables = _tables(store, selection)
        if out.suffix == ".csv":
            tables = map(safe_cells, tables)
        first, n_rows = next(tables), 0
        with _WRITERS[out.suffix](sink, first.schema) as writer:
            for table in chain([first], tables):
                writer.write_table(table)
                n_rows += table.num_rows
    return n_rows


def _tables(store: Store, selection: Selection) -> Iterator[pa.Table]:
    schema: pa.Schema | None = None
    archive = Archive(store)
    for window in archive.windows(selection):
        archived = archive.read_window(window)
        schema = schema or archived.schema
        rows = in_schema(archived, schema)
        if rows is None:
            raise BadSettings(
                f"graph {window.partition.graph!r} has other types of ids than the windows before "
                "it, and a file has one type: choose with --graph, --from and --to"
            )
        graph = pa.repeat(pa.scalar(window.partition.graph), rows.num_rows)
        yield rows.add_column(0, "graph", graph)
    if schema is None:
        raise archive.nothing_selected(selection)


_Interval = tuple[str, str]
"""Start, included, and end, excluded, RFC 3339 in UTC."""
_Values = tuple[Any, ...]
_Spells = list[tuple[_Interval, _Values]]
"""What was said of a node or an edge, and when; ascending."""

_OF_NODES = (("community_id", "long"), ("probability", "double"))
_OF_EDGES = (("weight", "double"),)


@dataclass(slots=True)
class _GraphInTime:
    """The nodes and edges of a graph over windows; an edge's ends ascend."""

    name: str
    nodes: dict[Any, _Spells] = field(default_factory=partial(defaultdict, list))
    edges: dict[tuple[Any, Any], _Spells] = field(default_factory=partial(defaultdict, list))

    def at_the_end(self) -> _GraphInTime:
        spells = [*self.nodes.values(), *self.edges.values()]
        end = max(of[-1][0][1] for of in spells)

        def last(elements: Mapping[Any, _Spells]) -> dict[Any, _Spells]:
            return {name: of[-1:] for name, of in elements.items() if of[-1][0][1] == end}

        return _GraphInTime(self.name, last(self.nodes), last(self.edges))


def _export_graph(store: Store, selection: Selection, out: Path) -> int:
    """Write one graph of a span to `out`; return the number of its nodes.

    GEXF has the whole span: when each node and edge was there, with its community and weight as
    dynamic attributes. GraphML has no times, and the newest window only. All edges of the span are
    kept in memory. Nodes have the attributes `community_id` and `probability` if results are
    archived, and the ids were found with memory. The file appears when it is complete.

    Raises as `export`; `BadSettings` if no graph is named, or results are of several models.
    """
    if selection.graph is None:
        raise BadSettings(f"{out.name} holds one graph: name it with --graph")
    graph = _graph_in_time(store, selection)
    if out.suffix == ".graphml":
        graph = graph.at_the_end()
    with writing(out), whole_file(out) as aside, aside.open("xb") as sink:
        GRAPH_WRITERS[out.suffix](graph, sink)
    return len(graph.nodes)


def _graph_in_time(store: Store, selection: Selection) -> _GraphInTime:
    snapshots = replace(selection, kind="snapshots", model=None)
    archive, graph = Archive(store), _GraphInTime(selection.graph or "")

    def rows(window: ArchivedWindow, *columns: str) -> Iterator[_Values]:
        table = archive.read_window(window)
        return zip(*(table[name].to_pylist() for name in columns), strict=True)

    for window in archive.windows(snapshots):
        at = _interval(window)
        for src, dst, weight in rows(window, "src", "dst", "weight"):
            graph.nodes[src].append((at, (None, None)))
            if dst is not None:
                graph.nodes[dst].append((at, (None, None)))
                graph.edges[src, dst].append((at, (weight,)))
    if not graph.nodes:
        raise archive.nothing_selected(snapshots)
    models = set()
    for window in archive.windows(replace(selection, kind="communities")):
        models.add(window.identity.model)
        at = _interval(window)
        for node, *values in rows(window, "node", "community_id", "probability"):
            graph.nodes[node].append((at, tuple(values)))
    if len(models) > 1:
        raise BadSettings(
            f"graph {selection.graph} has results of {listed(sorted(models))}: choose with --model"
        )
    for spells in (*graph.nodes.values(), *graph.edges.values()):
        spells[:] = _joined(spells)
    return graph


def _interval(window: ArchivedWindow) -> _Interval:
    return rfc3339(window.window.start), rfc3339(window.window.end)


def _joined(spells: _Spells) -> _Spells:
    """Return each window once, with what was said last, and equal neighbours in one."""
    joined: _Spells = []
    for at, values in sorted(dict(spells).items(), key=itemgetter(0)):
        if joined and joined[-1][0][1] == at[0] and joined[-1][1] == values:
            joined[-1] = (joined[-1][0][0], at[1]), values
        else:
            joined.append((at, values))
    return joined


class _Xml:
    """Writes elements; texts have no character that XML lacks."""

    def __init__(self, sink: IO[bytes]) -> None:
        self._out = XMLGenerator(sink, "utf-8", short_empty_elements=True)
        self._out.startDocument()

    @contextmanager
    def inside(self, name: str, **attributes: Any) -> Any:
        texts = {key: printable(str(value)) for key, value in attributes.items()}
        self._out.startElement(name, AttributesImpl(texts))
        yield
        self._out.endElement(name)

    def element(self, name: str, text: str | None = None, **attributes: Any) -> None:
        with self.inside(name, **attributes):
            if text is not None:
                self._out.characters(printable(text))


def _write_gexf(graph: _GraphInTime, sink: IO[bytes]) -> None:
    xml = _Xml(sink)
    with xml.inside("gexf", xmlns="http://gexf.net/1.3", version="1.3"):
        how = {"defaultedgetype": "undirected", "mode": "dynamic", "timeformat": "dateTime"}
        with xml.inside("graph", timerepresentation="interval", **how):
            for kind, columns in (("node", _OF_NODES), ("edge", _OF_EDGES)):
                with xml.inside("attributes", **{"class": kind, "mode": "dynamic"}):
                    for name, type_ in columns:
                        xml.element("attribute", id=name, title=name, type=type_)
            with xml.inside("nodes"):
                for node, spells in graph.nodes.items():
                    with xml.inside("node", id=node, label=node):
                        _write_spells(xml, spells, _OF_NODES)
            with xml.inside("edges"):
                for at, ((src, dst), spells) in enumerate(graph.edges.items()):
                    with xml.inside("edge", id=at, source=src, target=dst):
                        _write_spells(xml, spells, _OF_EDGES)


def _write_spells(xml: _Xml, spells: _Spells, columns: Iterable[tuple[str, str]]) -> None:
    with xml.inside("attvalues"):
        for at, (name, _) in enumerate(columns):
            for (start, end), (value,) in _joined([(when, (of[at],)) for when, of in spells]):
                if value is not None:
                    how = {"for": name, "start": start, "end": end}
                    xml.element("attvalue", value=_written(value), **how)
    with xml.inside("spells"):
        for (start, end), _ in _joined([(when, ()) for when, _ in spells]):
            xml.element("spell", start=start, end=end)


def _write_graphml(graph: _GraphInTime, sink: IO[bytes]) -> None:
    xml = _Xml(sink)
    with xml.inside("graphml", xmlns="http://graphml.graphdrawing.org/xmlns"):
        for kind, columns in (("node", _OF_NODES), ("edge", _OF_EDGES)):
            for name, type_ in columns:
                named = {"for": kind, "attr.name": name, "attr.type": type_}
                xml.element("key", id=name, **named)
        with xml.inside("graph", id=graph.name, edgedefault="undirected"):
            for node, spells in graph.nodes.items():
                with xml.inside("node", id=node):
                    _write_data(xml, spells[-1][1], _OF_NODES)
            for (src, dst), spells in graph.edges.items():
                with xml.inside("edge", source=src, target=dst):
                    _write_data(xml, spells[-1][1], _OF_EDGES)


def _write_data(xml: _Xml, values: _Values, columns: Iterable[tuple[str, str]]) -> None:
    for value, (name, _) in zip(values, columns, strict=True):
        if value is not None:
            xml.element("data", _written(value), key=name)


def _written(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"


GRAPH_WRITERS: Mapping[str, Callable[[_GraphInTime, IO[bytes]], None]] = {
    ".gexf": _write_gexf,
    ".graphml": _write_graphml,
}
