"""Training graphs from a short description that is stored in the recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import count, islice, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from stream_icd.datasets.as_topology import read_as_topology
from stream_icd.datasets.taxi import TaxiSettings, taxi_columns, taxi_snapshots
from stream_icd.errors import BadRow, BadSettings
from stream_icd.graphs.labelled_graph import LabelledGraph, Moment
from stream_icd.sources.durations import parse_duration
from stream_icd.sources.edges.edge_files import is_archive, watch_edge_files
from stream_icd.sources.events import EventSettings, event_snapshots
from stream_icd.sources.labels.label_table import LabelTable
from stream_icd.sources.source import Source, stop_at_bad_row
from stream_icd.sources.spacing import parse_window
from stream_icd.sources.tables.tables import read_rows
from stream_icd.sources.tables.timed_rows import Columns, sorted_by_time, time_of, timed_rows
from stream_icd.sources.windows import Hopping, TimedRows
from stream_icd.synthetic.gn import generate_gn
from stream_icd.synthetic.lfr import generate_lfr
from stream_icd.synthetic.planted_graph import PlantedGraph
from stream_icd.times import parse_utc

FORMS = """\
  files:path=graphs/                        a folder of edge lists, a graph a file
  events:path=mails.csv,window=1d           timed pairs, a graph a window; columns src, dst, and
                                            t, time, timestamp, ts or datetime
  archive:path=history/,graph=mails         what `consume archive` kept, with its labels
  as:path=as-733.tar.gz                     Internet topologies, or Parquet: window_start, src, dst
  taxi:path=fixes.parquet,tick=1m,stale=10m,sample=1279,zone=Asia/Shanghai
                                            taxis by their 50 nearest; columns t, taxi, lat, lon
                                            (other names: time=, taxi=, lat=, lon=)
  gn:p_in=0.3,graphs=100,seed=1000          simulated Girvan-Newman graphs, communities known
  lfr:mixing=0.3,graphs=100,seed=1000       simulated LFR graphs; nodes=5000-6000 varies N
A folder alone is files: or archive:, whichever it holds. Every form takes graphs=N for the first N
(100). Forms joined by " + " are a mixture. The first five take labels=FILE, a table of known
communities with the columns node and community, and snapshot or window_start where they change.
files: takes ids=string; events: takes hop, time, src, dst, weight (a column, or count),
columns=src;dst;t for files without a header, zone, and sort=yes; archive: takes from and to, and
path may be a URI such as s3://bucket/history"""

DEFAULT_GRAPHS = 100

MORE = " + "
"""Between the descriptions of a mixture."""

Options = dict[str, str]
Labelled = Iterator[LabelledGraph]


def training_graphs(description: str) -> list[LabelledGraph]:
    """The graphs of a description such as `lfr:mixing=0.6,graphs=100,seed=1000`.

    Of several, joined by ` + `: the first graph of each, then the second of each, and so on.

    Raises:
        BadSettings: no such form or option; the message shows the forms there are.
        SourceNotFound: the path of a form does not exist.
        BadRow, BadInput: a row, a file or a label cannot be used.

    >>> [graph.n_communities for graph in training_graphs("gn:graphs=2,nodes=100,communities=4")]
    [4, 4]
    """
    if MORE in description:
        parts = map(training_graphs, description.split(MORE))
        turns = zip_longest(*parts)
        return [graph for turn in turns for graph in turn if graph is not None]
    kind, options = _parsed(description)
    try:
        limit = int(options.pop("graphs", str(DEFAULT_GRAPHS)))
        graphs = _KINDS[kind](options)
    except (KeyError, ValueError) as error:
        raise BadSettings(f"{description!r}: {error}; describe graphs as\n{FORMS}") from error
    if options:
        raise BadSettings(f"{description!r}: unknown {', '.join(options)}; the forms are\n{FORMS}")
    return list(islice(graphs, limit))


def _parsed(description: str) -> tuple[str, Options]:
    kind, _, rest = description.partition(":")
    if kind in _KINDS:
        return kind, _options(description, rest)
    folder = Path(description)
    if folder.is_dir():
        return "archive" if is_archive(folder) else "files", {"path": description}
    if folder.is_file():
        raise BadSettings(
            f"{description!r} is a file: for timed pairs give events:path={description},window=1d; "
            f"for others describe it as one of\n{FORMS}"
        )
    raise BadSettings(f"no graphs at or of kind {kind!r}; describe them as one of\n{FORMS}")


def _options(description: str, rest: str) -> Options:
    options: Options = {}
    for part in filter(None, rest.split(",")):
        name, given, value = part.partition("=")
        if not given or not value:
            raise BadSettings(
                f"{description!r}: {part!r} is not name=value; the forms are\n{FORMS}"
            )
        options[name] = value
    return options


def _gn(options: Options) -> Labelled:
    p_in = float(options.pop("p_in", "0.3"))
    nodes, communities = int(options.pop("nodes", "5000")), int(options.pop("communities", "250"))

    def draw(rng: np.random.Generator) -> PlantedGraph:
        return generate_gn(rng, nodes, communities, p_in)

    return _planted(draw, options)


def _lfr(options: Options) -> Labelled:
    mixing = float(options.pop("mixing", "0.3"))
    least, _, most = options.pop("nodes", "5000").partition("-")
    n_nodes = range(int(least), int(most or least) + 1)

    def draw(rng: np.random.Generator) -> PlantedGraph:
        return generate_lfr(rng, n_nodes=int(rng.choice(n_nodes)), mixing=mixing)

    return _planted(draw, options)


def _planted(draw: Callable[[np.random.Generator], PlantedGraph], options: Options) -> Labelled:
    graphs = (draw(np.random.default_rng(seed)) for seed in count(int(options.pop("seed", "1000"))))
    return (LabelledGraph(graph.adjacency(), graph.communities) for graph in graphs)


def _as(options: Options) -> Labelled:
    window = options.pop("window", None)
    return _from_source(
        read_as_topology(
            Path(options.pop("path")), window=None if window is None else parse_window(window)
        ),
        options,
    )


def _files(options: Options) -> Labelled:
    ids: Any = _one_of(options, "ids", ("auto", "integer", "string"))
    return _from_source(watch_edge_files(Path(options.pop("path")), id_kind=ids), options)


def _events(options: Options) -> Labelled:
    size = parse_duration(options.pop("window", "1d"))
    hop = options.pop("hop", None)
    weight, names = options.pop("weight", None), options.pop("columns", None)
    path, header = Path(options.pop("path")), None if names is None else names.split(";")
    columns = Columns(
        time_of(path, header, options.pop("time", None)),
        {"src": options.pop("src", "src"), "dst": options.pop("dst", "dst")},
        {} if weight in (None, "count") else {"weight": (str(weight), lambda given: given > 0)},
        zone=options.pop("zone", "UTC"),
    )
    raw = read_rows(path, columns.names, stop_at_bad_row, header=header)
    rows = timed_rows(raw, columns, stop_at_bad_row)
    if _one_of(options, "sort", ("no", "yes")) == "yes":
        rows = sorted_by_time(rows)
    settings = EventSettings(
        graph="events",
        rule=Hopping(size, size if hop is None else parse_duration(hop)),
        counted=weight == "count",
    )
    return _from_source(event_snapshots(rows, settings, on_late=_stop_at_disorder), options)


def _taxi(options: Options) -> Labelled:
    path = Path(options.pop("path"))
    time = time_of(path, None, options.pop("time", None))
    taxi, lat, lon = (options.pop(name, name) for name in ("taxi", "lat", "lon"))
    columns = taxi_columns(time, taxi, lat, lon, zone=options.pop("zone", "UTC"))
    tick = options.pop("tick", "1m")
    settings = TaxiSettings(
        tick=parse_duration(tick),
        stale=parse_duration(options.pop("stale", tick)),
        sample=int(options.pop("sample")) if "sample" in options else None,
    )
    rows = read_rows(path, columns.names, stop_at_bad_row)
    fixes = timed_rows(rows, columns, stop_at_bad_row)
    return _from_source(taxi_snapshots(fixes, settings, on_late=_stop_at_disorder), options)


def _archive(options: Options) -> Labelled:

    from stream_icd.history.archive import Selection
    from stream_icd.replay.archived_source import archived_source
    from stream_icd.store.store import open_store

    source = archived_source(
        open_store(options.pop("path")),
        Selection(
            graph=options.pop("graph", None),
            start=_time(options.pop("from", None)),
            end=_time(options.pop("to", None)),
        ),
    )
    return _from_source(source, options)


def _time(text: str | None) -> datetime | None:
    return None if text is None else parse_utc(text)


def _one_of(options: Options, name: str, allowed: tuple[str, ...]) -> str:
    """An option that is the first of those allowed unless it is given."""
    value = options.pop(name, allowed[0])
    if value not in allowed:
        raise ValueError(f"{name}={value} is none of {', '.join(allowed)}")
    return value


def _stop_at_disorder(late: TimedRows) -> None:
    raise BadRow(f"{len(late.time)} rows come after later ones; sort the file by time")


def _from_source(source: Source, options: Options) -> Labelled:
    table = LabelTable(Path(options.pop("labels"))) if "labels" in options else None

    def graphs() -> Labelled:
        for snapshot, labels in source.snapshots:
            known = None if labels is None else labels.labels
            if table is not None:
                known = table.of(snapshot)
            moment = Moment(snapshot.graph, snapshot.nodes, snapshot.window)
            yield LabelledGraph(snapshot.adjacency(), known, moment)

    return graphs()


_KINDS: dict[str, Callable[[Options], Labelled]] = {
    "files": _files,
    "events": _events,
    "archive": _archive,
    "as": _as,
    "taxi": _taxi,
    "gn": _gn,
    "lfr": _lfr,
}
