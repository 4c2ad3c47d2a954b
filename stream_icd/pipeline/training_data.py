"""The graphs that a model learns from, by a short description that its recipe can keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path

import numpy as np

from stream_icd.errors import BadRow, BadSettings
from stream_icd.icd.labelled_graph import LabelledGraph
from stream_icd.sources.as_topology import read_as_topology
from stream_icd.sources.durations import parse_duration
from stream_icd.sources.source import Source, stop_at_bad_row
from stream_icd.sources.tables import read_rows
from stream_icd.sources.taxi import TaxiSettings, taxi_columns, taxi_snapshots
from stream_icd.sources.timed_rows import timed_rows
from stream_icd.sources.windows import TimedRows
from stream_icd.synthetic.gn import generate_gn
from stream_icd.synthetic.lfr import generate_lfr
from stream_icd.synthetic.planted_graph import PlantedGraph

Options = dict[str, str]

FORMS = """\
  gn:p_in=0.3,graphs=100,seed=1000          Girvan-Newman graphs with ground truth
  lfr:mixing=0.3,graphs=100,seed=1000       LFR graphs with ground truth; nodes=5000-6000 varies N
  as:path=as-733.tar.gz                     daily AS topologies, no ground truth
  taxi:path=fixes.parquet,tick=1m,stale=10m,sample=1279,zone=Asia/Shanghai
                                            taxis by their 50 nearest; columns t, taxi, lat, lon
every form takes graphs=N for the first N (100)"""


def training_graphs(description: str) -> list[LabelledGraph]:
    """The graphs of a description such as `lfr:mixing=0.6,graphs=100,seed=1000`.

    Raises:
        BadSettings: no such form or option; the message shows the forms there are.
        SourceNotFound: the path of a form does not exist.

    >>> [graph.n_communities for graph in training_graphs("gn:graphs=2,nodes=100,communities=4")]
    [4, 4]
    """
    kind, _, rest = description.partition(":")
    if kind not in _KINDS:
        raise BadSettings(f"no graphs of kind {kind!r}; describe them as one of\n{FORMS}")
    options = _parse(description, rest)
    try:
        limit = int(options.pop("graphs", "100"))
        graphs = _KINDS[kind](options)
    except (KeyError, ValueError) as error:
        raise BadSettings(f"{description!r}: {error}; describe graphs as\n{FORMS}") from error
    if options:
        raise BadSettings(f"{description!r}: unknown {', '.join(options)}; the forms are\n{FORMS}")
    return list(islice(graphs, limit))


def _parse(description: str, rest: str) -> Options:
    options: Options = {}
    for part in filter(None, rest.split(",")):
        name, given, value = part.partition("=")
        if not given or not value:
            raise BadSettings(f"{description!r}: {part!r} is no name=value; the forms are\n{FORMS}")
        options[name] = value
    return options


def _gn(options: Options) -> Iterator[LabelledGraph]:
    p_in = float(options.pop("p_in", "0.3"))
    nodes, communities = int(options.pop("nodes", "5000")), int(options.pop("communities", "250"))

    def draw(rng: np.random.Generator) -> PlantedGraph:
        return generate_gn(rng, nodes, communities, p_in)

    return _planted(draw, options)


def _lfr(options: Options) -> Iterator[LabelledGraph]:
    mixing = float(options.pop("mixing", "0.3"))
    least, _, most = options.pop("nodes", "5000").partition("-")
    n_nodes = range(int(least), int(most or least) + 1)

    def draw(rng: np.random.Generator) -> PlantedGraph:
        return generate_lfr(rng, n_nodes=int(rng.choice(n_nodes)), mixing=mixing)

    return _planted(draw, options)


def _planted(
    draw: Callable[[np.random.Generator], PlantedGraph], options: Options
) -> Iterator[LabelledGraph]:
    graphs = (draw(np.random.default_rng(seed)) for seed in count(int(options.pop("seed", "1000"))))
    return (LabelledGraph(graph.adjacency(), graph.communities) for graph in graphs)


def _as(options: Options) -> Iterator[LabelledGraph]:
    return _from_source(read_as_topology(Path(options.pop("path"))))


def _taxi(options: Options) -> Iterator[LabelledGraph]:
    columns = taxi_columns("t", "taxi", "lat", "lon", zone=options.pop("zone", "UTC"))
    tick = options.pop("tick", "1m")
    settings = TaxiSettings(
        tick=parse_duration(tick),
        stale=parse_duration(options.pop("stale", tick)),
        sample=int(options.pop("sample")) if "sample" in options else None,
    )
    rows = read_rows(Path(options.pop("path")), columns.names, stop_at_bad_row)
    fixes = timed_rows(rows, columns, stop_at_bad_row)
    return _from_source(taxi_snapshots(fixes, settings, on_late=_stop_at_disorder))


def _stop_at_disorder(late: TimedRows) -> None:
    raise BadRow(f"{len(late.time)} fixes come after later ones; sort the file by t")


def _from_source(source: Source) -> Iterator[LabelledGraph]:
    for snapshot, labels in source.snapshots:
        yield LabelledGraph(snapshot.adjacency(), None if labels is None else labels.labels)


_KINDS: dict[str, Callable[[Options], Iterator[LabelledGraph]]] = {
    "gn": _gn,
    "lfr": _lfr,
    "as": _as,
    "taxi": _taxi,
}
