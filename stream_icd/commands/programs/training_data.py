"""Training graphs from a short description that is stored in the recipe."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from importlib.metadata import entry_points
from itertools import count, islice, starmap, zip_longest
from pathlib import Path
from threading import Event
from typing import Any, cast

import numpy as np
import pyarrow as pa
import typer
from numpy.typing import NDArray

from stream_icd.commands.programs.options import Producer
from stream_icd.commands.programs.producer import ProducerRun
from stream_icd.core.communities import Labels
from stream_icd.core.errors import BadInput, BadRow, BadSettings
from stream_icd.core.node_ids import places
from stream_icd.core.snapshot import Snapshot
from stream_icd.kafka.messages.publish import SentBefore
from stream_icd.methods.graphs.labelled_graph import LabelledGraph, Moment, numbered
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph, check_n_nodes
from stream_icd.sources.edge_files import is_archive
from stream_icd.sources.node_tables import WindowName, label_groups
from stream_icd.sources.windows import OnLate, TimedRows

_FORMS = """\
  files:path=graphs/                        a folder of edge lists, a graph a file
  events:path=mails.csv,window=1d           timed pairs, a graph a window (1d)
  archive:path=history/,graph=mails         what `consume archive` kept, with labels of all nodes
  as:path=as-733.tar.gz                     Internet topologies, or Parquet: window_start, src, dst
  taxi:path=fixes.parquet,tick=1m,stale=10m taxis by their 50 nearest, a graph a tick (1m)
  gn:p_in=0.3,graphs=100,seed=1000          simulated Girvan-Newman graphs, communities known
  lfr:mixing=0.3,graphs=100,seed=1000       simulated LFR graphs; nodes=5000-6000 varies N
The first five, and producers of other packages, take the options of `stream-icd produce NAME`
(archive: those of replay), a flag as sort=yes, and columns=src;dst;t with semicolons, and also
labels=FILE, a table of known communities with the columns node and community, and snapshot or
window_start where they change. A folder alone is files: or archive:, whichever it holds. Every form
takes graphs=N for the first N (100). Forms joined by " + " are a mixture"""

_DEFAULT_GRAPHS = 100
_MOST_GRAPHS = 1_000_000

_MORE = " + "
"""Separates the descriptions of a mixture."""

_ARCHIVE = {"archive": "replay"}
"""The producer that has another name here."""

_DEFAULTS = {"events": {"window": "1d", "until": "end"}, "taxi": {"tick": "1m", "until": "end"}}
"""Defaults that differ from the producer's, so that recipes written before keep their meaning."""

_GENERATED = {
    "gn": {"seed": "1000", "p_in": "0.3", "nodes": "5000", "communities": "250"},
    "lfr": {"seed": "1000", "mixing": "0.3", "nodes": "5000"},
}
"""The options of simulated graphs. Their seeds are not those of the producers."""

_OF_TERMINALS = {"--help", "--install-completion", "--show-completion", "--watch"}
"""Options that a description cannot have: those of every command, and one that never ends."""

_UsageError = cast(type[Exception], typer.BadParameter.__mro__[1])
"""What typer raises for arguments that do not fit: it exports only a subclass."""

_Options = dict[str, str]


def training_graphs(description: str) -> list[LabelledGraph]:
    """The graphs of a description such as `lfr:mixing=0.6,graphs=100,seed=1000`.

    Of several, joined by ` + `: the first graph of each, then the second of each, and so on.

    Raises:
        BadSettings: no such form or option; the message shows the forms there are. Or the table of
            labels has none of any of the graphs.
        SourceNotFound, BadInput: the path does not exist; a row, file or label cannot be used.

    >>> [graph.n_communities for graph in training_graphs("gn:graphs=2,nodes=100,communities=4")]
    [4, 4]
    """
    if _MORE in description:
        parts = map(training_graphs, description.split(_MORE))
        turns = zip_longest(*parts)
        return [graph for turn in turns for graph in turn if graph is not None]
    try:
        description.encode()  # the recipe holds it
        kind, options = _parsed(description)
        limit = int(options.pop("graphs", _DEFAULT_GRAPHS))
        if not 1 <= limit <= _MOST_GRAPHS:
            raise ValueError(f"graphs={limit} is not from 1 to {_MOST_GRAPHS:,}")
        table = options.get("labels")
        graphs = _generated(kind, options) if kind in _GENERATED else _produced(kind, options)
    except (_UsageError, ValueError) as error:
        reason = getattr(error, "format_message", error.__str__)()
        raise BadSettings(f"{description!r}: {reason}; describe graphs as\n{_FORMS}") from error
    try:
        # Only here are the rows of graphs read, and their errors raised.
        chosen = list(islice(graphs, limit))
    except (BadRow, BadSettings) as error:
        raise type(error)(f"{error}{_way_to_give_options(kind, str(error))}") from error
    if table is not None and chosen and all(graph.labels is None for graph in chosen):
        first = chosen[0].moment  # `_produced` gives each one
        raise BadSettings(
            f"{table} has labels of none of the {len(chosen)} graphs: the first is the window of "
            f"{first and first.graph} that begins at {first and first.window.start.isoformat()}, "
            "which no graph, snapshot or window_start of the table names. If the communities do "
            "not change, leave these columns out"
        )
    return chosen


def _way_to_give_options(kind: str, advice: str) -> str:
    advised = [f"--{name}" for name in re.findall(r"--([a-z][a-z-]*)", advice)]
    options = [option for option in advised if option not in _OF_TERMINALS]
    if not options or "--data" in options:
        return ""
    name = options[0].removeprefix("--").replace("-", "_")
    return f". Here, {options[0]} is {name}=…, as in {kind}:path=…,{name}=…"


def _parsed(description: str) -> tuple[str, _Options]:
    kind, _, rest = description.partition(":")
    named = entry_points(group="stream_icd.producers", name=_ARCHIVE.get(kind, kind))
    if kind in _GENERATED or named:
        options: _Options = {}
        for part in filter(None, rest.split(",")):
            name, equals, value = part.partition("=")
            if not equals or not value:
                raise ValueError(f"{part!r} is not name=value")
            if name in options:
                raise ValueError(f"{name} is given twice")
            options[name] = value
        return kind, options
    if not description.strip():
        raise ValueError("it is empty")
    folder = Path(description)
    if folder.is_dir():
        return "archive" if is_archive(folder) else "files", {"path": description}
    if folder.is_file():
        raise ValueError(
            f"what is in this file? For timed pairs, give events:path={description},window=1d"
        )
    raise ValueError(f"no graphs at or of kind {kind!r}")


class _LabelTable:
    """The communities of snapshots, from a table that `label_groups` reads; raises as it does."""

    def __init__(self, path: Path) -> None:
        self._path = path
        groups = label_groups(path)
        # A single graph may have another name in a source that does not name its graph.
        one_graph = len({name.graph for name in groups}) == 1
        self._labels = {
            WindowName(None if one_graph else name.graph, name.window): labels
            for name, labels in groups.items()
        }
        self._graph_of: dict[WindowName, str] = {}  # of the labels that do not name their graph

    def of(self, snapshot: Snapshot) -> NDArray[np.int32] | None:
        """Return its communities, `(n_nodes,)`, if there are any; `BadInput`: a node has none."""
        windows = [*WindowName.windows(snapshot.graph, snapshot.id, snapshot.window.start), None]
        names = (
            WindowName(graph, window) for graph in (snapshot.graph, None) for window in windows
        )
        name = next((name for name in names if name in self._labels), None)
        if name is None:
            return None
        labels = self._labels[name]
        graph = self._graph_of.setdefault(name, snapshot.graph)
        if graph != snapshot.graph:
            raise BadSettings(
                f"the labels of {str(name) or 'each window'} in {self._path} may be those of "
                f"{graph} or {snapshot.graph}: choose one with graph=, or add the column graph"
            )
        nodes = snapshot.nodes.cast(pa.string()).to_pylist()
        missing = [node for node in nodes if node not in labels]
        if missing:
            raise BadInput(
                f"{self._path} has no label for {len(missing)} of the {len(nodes)} nodes of "
                f"{snapshot.id}, such as {missing[0]!r}; give each node one"
            )
        return np.unique([labels[node] for node in nodes], return_inverse=True)[1].astype(np.int32)


def _generated(kind: str, chosen: _Options) -> Iterator[LabelledGraph]:
    if unknown := chosen.keys() - _GENERATED[kind].keys():
        raise ValueError(f"unknown {', '.join(sorted(unknown))}")
    options = {**_GENERATED[kind], **chosen}
    if (first := int(options["seed"])) < 0:
        raise ValueError(f"seed={first} is below 0")
    draw: Callable[[np.random.Generator], PlantedGraph]
    if kind == "gn":
        n_nodes, n_communities = int(options["nodes"]), int(options["communities"])
        p_in = float(options["p_in"])
        draw = partial(generate_gn, n_nodes=n_nodes, n_communities=n_communities, p_in=p_in)
    else:
        least, _, most = options["nodes"].partition("-")
        sizes, mixing = range(int(least), int(most or least) + 1), float(options["mixing"])
        if not sizes:
            raise ValueError(f"nodes={options['nodes']}: the first number is above the second")

        check_n_nodes(sizes[-1])

        def draw(rng: np.random.Generator) -> PlantedGraph:
            n_nodes = sizes[rng.choice(len(sizes))]
            return generate_lfr(rng, LfrSettings(n_nodes=n_nodes, mixing=mixing))

    graphs = (draw(np.random.default_rng(seed)) for seed in count(first))
    return (LabelledGraph(graph.adjacency(), graph.communities) for graph in graphs)


def _produced(kind: str, options: _Options) -> Iterator[LabelledGraph]:
    labels_file = options.pop("labels", None)
    producer = _producer(_ARCHIVE.get(kind, kind), {**_DEFAULTS.get(kind, {}), **options})
    # Without a check: producers that read files need no broker.
    run = _Learning(producer.kafka(check=False), producer, Event())
    source = producer.open(run)
    table = None if labels_file is None else _LabelTable(Path(labels_file))

    def labelled(snapshot: Snapshot, labels: Labels | None) -> LabelledGraph:
        communities = None
        if table is not None:
            communities = table.of(snapshot)
        elif labels is not None:
            at = places(snapshot.nodes, labels.nodes)
            if (at >= 0).all():  # as bp learns from whole graphs
                communities = numbered(labels.labels[at])
        return LabelledGraph(snapshot.adjacency(), communities, Moment.of(snapshot))

    return starmap(labelled, islice(source.snapshots, producer.limit))


def _producer(name: str, options: _Options) -> Producer:
    """The producer with these options, which are checked as those of its command are."""
    (entry,) = entry_points(group="stream_icd.producers", name=name)
    command: Any = typer.main.get_command(entry.load())
    declared = inspect.unwrap(command.callback)
    if not (isinstance(declared, type) and issubclass(declared, Producer)):
        raise ValueError(f"the producer {name} is no class with a method `open`")
    flagged = (param for param in command.params if getattr(param, "is_flag", False))
    flags = {flag for param in flagged for flag in param.opts}
    path, arguments = options.pop("path", None), []
    for option, value in options.items():
        flag = f"--{option.replace('_', '-')}"
        if flag in _OF_TERMINALS:
            raise ValueError(f"unknown {option}")
        if flag in flags:
            if value not in ("yes", "no"):
                raise ValueError(f"{option}={value} is neither yes nor no")
            arguments += [flag] * (value == "yes")
        else:
            arguments += [flag, value.replace(";", ",")]
    if path is not None:
        arguments += ["--", path]
    with command.make_context(name, arguments) as context:
        producer: Producer = context.invoke(command.callback, **context.params)
    return producer


class _Learning(ProducerRun):
    """A run that only reads: without a broker, and every bad or late row ends it."""

    @cached_property
    def sent_before(self) -> SentBefore:
        return SentBefore()

    def bad_rows(self, error: BadRow) -> None:
        raise error

    def on_late(self, path: Path) -> OnLate:  # noqa: ARG002 - nothing is written
        def refuse(late: TimedRows) -> None:
            raise BadRow(f"{len(late.time)} rows come after later ones; sort the file by time")

        return refuse

    def on_open(self) -> None:
        return None  # no later run would learn from these rows
