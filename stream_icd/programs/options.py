"""Options that several commands share.

Annotations stay objects here, since typer reads those of a dataclass's fields.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from stream_icd.errors import BadSettings
from stream_icd.replay.pacing import parse_rate

if TYPE_CHECKING:
    from stream_icd.kafka.settings import KafkaSettings

BootstrapServers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        "-b",
        help="Kafka bootstrap servers, HOST:PORT[,HOST:PORT]. Default: those set in the "
        "environment, otherwise 127.0.0.1:9092.",
    ),
]


def kafka_settings(bootstrap_servers: str | None) -> "KafkaSettings":
    """Return settings of a broker that is there; see `chosen_settings`.

    Raises:
        BadSettings: a setting is wrong.
        BrokerUnavailable: nobody listens at the address.
    """
    from stream_icd.kafka.somebody import check_that_somebody_listens

    settings = chosen_settings(bootstrap_servers)
    check_that_somebody_listens(settings)
    return settings


def chosen_settings(bootstrap_servers: str | None) -> "KafkaSettings":
    """Return settings from the environment and the configuration file, with this address if given.

    Raises:
        BadSettings: a setting is wrong.
    """
    from stream_icd.kafka.settings import KafkaSettings

    if bootstrap_servers is None:
        return KafkaSettings()
    return KafkaSettings(bootstrap_servers=bootstrap_servers)


RegistryUri = Annotated[
    str | None,
    typer.Option(
        "--registry",
        help="Registry of models: a folder, or a URI such as s3://bucket/models. Default: that of "
        "STREAM_ICD_REGISTRY.",
    ),
]

OnlyGraph = Annotated[
    str | None, typer.Option("--graph", help="Only this graph. Default: all graphs.")
]

NamesFile = Annotated[
    Path | None,
    typer.Option(
        "--names",
        metavar="FILE|topic",
        help="Name communities by this table of attributes of nodes: CSV or Parquet, with the "
        "column node and one for each attribute, such as country. topic: by icd.attributes.v1, "
        "where attributes may change.",
    ),
]

Delivery = Annotated[
    Literal["auto", "exactly-once", "at-least-once"],
    typer.Option(
        help="Delivery guarantee after a failure; auto: the strongest that the broker supports."
    ),
]

Method = Annotated[
    Literal["bp", "icd"],
    typer.Option(
        help="bp: local moves and belief propagation, better and faster; icd: the paper's "
        "method, encoder and K-means."
    ),
]

Memory = Annotated[
    Literal["auto", "off"],
    typer.Option(
        help="auto: detect each window with the memory of the graph's last one (with --method bp, "
        "if the model's `stay` is above 0); off: detect each window alone."
    ),
]

Horizon = Annotated[
    str,
    typer.Option(
        metavar="auto|off|WINDOWS",
        help="How far back memory looks. auto: found for each graph; off: the last window, and "
        "what is believed of it; or a number of windows.",
    ),
]


def chosen_horizon(text: str, memory: str) -> float | Literal["auto", "off"]:
    """Return the horizon that an option gives.

    Raises:
        BadSettings: it is none, or there is no memory that it would be of.
    """
    if text == "auto":  # without importing what detects with memory
        return "auto"
    from stream_icd.memory.horizon import read_horizon

    horizon = read_horizon(text)
    if memory == "off" and horizon != "auto":
        raise BadSettings(
            f"--horizon {text} has no effect with --memory off: leave one of them out"
        )
    return horizon


Rate = Annotated[
    float | None,
    typer.Option(
        parser=parse_rate,
        metavar="RATE",
        help="Maximum rate, in snapshots per second, such as 2 or 50/s. Default: unlimited.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Sending:
    """The options of all producers; `SendOptions` are those of producers that read rows."""

    rate: Rate = None
    limit: Annotated[
        int | None, typer.Option(min=1, help="Stop after this number of snapshots.")
    ] = None
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Also send snapshots that the topic already holds. Default: skip them."
        ),
    ] = False
    correct: Annotated[
        bool,
        typer.Option(
            "--correct", help="Send corrections: snapshots that the topic holds with other content."
        ),
    ] = False
    partition_by: Annotated[
        Literal["graph", "snapshot"],
        typer.Option(
            help="How partitions are chosen. graph: all snapshots of a graph go to one partition, "
            "in order. snapshot: they are spread over all partitions for more detectors, without "
            "order."
        ),
    ] = "graph"
    bootstrap_servers: BootstrapServers = None

    @property
    def strict(self) -> bool:
        """Whether to stop at the first bad row."""
        return False


@dataclass(frozen=True, kw_only=True)
class SendOptions(Sending):
    """The options of producers that read rows, some of which may be bad."""

    strict: Annotated[
        bool,
        typer.Option("--strict", help="Stop at the first bad row instead of counting bad rows."),
    ] = False


MetricsPort = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        help="Serve Prometheus metrics, /healthz and /readyz on this port, such as 9464. "
        "Default: do not serve them.",
    ),
]

MetricsHost = Annotated[
    str,
    typer.Option(
        help="Address to serve metrics on. 0.0.0.0 serves other machines too, without a password."
    ),
]


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """The options of programs that are members of a consumer group."""

    graph: OnlyGraph = None
    group: Annotated[
        str | None,
        typer.Option(
            help="Consumer group; its members share the work. Default: stream-icd-NAME, where NAME "
            "is that of this command, or stream-icd-NAME-GRAPH with --graph. archive appends the "
            "topic."
        ),
    ] = None
    max_dead_letters: Annotated[
        float,
        typer.Option(
            help="Stop if more than this fraction of the last 50 records became dead letters; "
            "1: never stop."
        ),
    ] = 0.5
    metrics_port: MetricsPort = None
    metrics_host: MetricsHost = "127.0.0.1"
    bootstrap_servers: BootstrapServers = None

    def group_of(self, name: str) -> str:
        """Return the group of the program of this name.

        Members of a group share the work, so members for different graphs need different groups.

        >>> WorkerOptions(graph="as733").group_of("detect")
        'stream-icd-detect-as733'
        """
        graph = "" if self.graph is None else f"-{self.graph}"
        return self.group or f"stream-icd-{name}{graph}"


def checked_graph(name: str | None) -> str | None:
    """Return the name for a graph that an option gives.

    Raises:
        BadSettings: no graph may have this name.
    """
    from stream_icd.errors import BadInput
    from stream_icd.graph_name import check_graph_name

    try:
        if name is not None:
            check_graph_name(name)
    except BadInput as error:
        raise BadSettings(str(error)) from error
    return name


GraphName = Annotated[
    str, typer.Option(help="Name of the graph, the key of its messages.", callback=checked_graph)
]

Window = Annotated[
    str | None,
    typer.Option(
        help="Window length, such as 2h, 1d or month; files of the same window become one "
        "snapshot. Default: a window lasts until the next file."
    ),
]

Ids = Annotated[
    Literal["auto", "integer", "string"],
    typer.Option(
        help="Type of the node ids; auto: integer if the first id is an integer, else string."
    ),
]

Seed = Annotated[
    int,
    typer.Option(min=0, help="Random seed; the same seed gives the same bytes."),
]


Threads = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Cores per snapshot. The method bp uses one below 50,000 nodes. Default: the "
        "machine's cores divided by the number of processes, at most 4.",
    ),
]


def threads_for(asked: int | None, processes: int) -> int:
    """Cores of one snapshot: together, the processes use no more than there are."""
    return asked or max(1, min((os.cpu_count() or 1) // processes, 4))


@dataclass(frozen=True, kw_only=True)
class RowOptions:
    """The options of producers that make windows of timed rows.

    Raises:
        BadSettings: neither a path nor a topic is given, or both are.
    """

    path: Annotated[
        Path | None,
        typer.Argument(
            help="CSV, JSON lines or Parquet file (also .gz), or a folder of such files."
        ),
    ] = None
    topic: Annotated[
        str | None,
        typer.Option(
            help="Read rows from this Kafka topic, one JSON object per record, instead of a file."
        ),
    ] = None
    until: Annotated[
        Literal["forever", "end"],
        typer.Option(help="With --topic: follow it forever, or stop at its current end."),
    ] = "forever"
    quiet_after: Annotated[
        str | None,
        typer.Option(
            help="With --topic: stop waiting for partitions without records for this long, such as "
            "30s. Default: windows wait for all partitions."
        ),
    ] = None
    columns: Annotated[
        str | None,
        typer.Option(help="Column names of files without a header line, such as src,dst,t."),
    ] = None
    time: Annotated[
        str | None,
        typer.Option(
            help="Time column. Default: t, or the only one called time, timestamp, ts or datetime."
        ),
    ] = None
    time_unit: Annotated[
        Literal["s", "ms", "us", "ns"],
        typer.Option(help="Unit of numeric times, counted from 1970 UTC."),
    ] = "s"
    zone: Annotated[
        str, typer.Option(help="Time zone of times without one, such as Asia/Shanghai.")
    ] = "UTC"
    ids: Ids = "auto"
    sort: Annotated[
        bool,
        typer.Option(
            "--sort", help="Sort the rows of files by time first; reads all of them into memory."
        ),
    ] = False
    lateness: Annotated[
        str,
        typer.Option(
            help="Keep windows open for rows that arrive this long after their end, such as 30s."
        ),
    ] = "0s"
    late_rows: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write rows that arrive after their window has closed to this file, as JSON "
            "lines. Default: GRAPH.late.jsonl.",
        ),
    ] = None
    graph: GraphName = "rows"

    def __post_init__(self) -> None:
        if (self.path is None) == (self.topic is None):
            raise BadSettings("give either a path to read from, or a topic with --topic")
