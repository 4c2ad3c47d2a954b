"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from stream_icd.kafka.settings import KafkaSettings

BootstrapServers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        "-b",
        help="Kafka bootstrap servers, HOST:PORT[,HOST:PORT]. Default: those set in the "
        "environment, otherwise 127.0.0.1:9092.",
        show_default=False,
    ),
]


def kafka_settings(bootstrap_servers: str | None) -> KafkaSettings:
    """Return settings of a broker that is there; see `chosen_settings`.

    Raises:
        BadSettings: a setting is wrong.
        BrokerUnavailable: nobody listens at the address.
    """
    from stream_icd.kafka.somebody import check_that_somebody_listens

    settings = chosen_settings(bootstrap_servers)
    check_that_somebody_listens(settings)
    return settings


def chosen_settings(bootstrap_servers: str | None) -> KafkaSettings:
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
        show_default=False,
    ),
]

MetricsPort = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        help="Serve Prometheus metrics, /healthz and /readyz on this port, such as 9464. "
        "Default: do not serve them.",
        show_default=False,
    ),
]

MetricsHost = Annotated[
    str,
    typer.Option(
        help="Address to serve metrics on. 0.0.0.0 serves other machines too, without a password."
    ),
]

OnlyGraph = Annotated[
    str | None,
    typer.Option("--graph", help="Only this graph. Default: all graphs.", show_default=False),
]

NamesFile = Annotated[
    Path | None,
    typer.Option(
        "--names",
        metavar="FILE",
        help="Name communities by this table of attributes of nodes: CSV or Parquet, with the "
        "column node and one for each attribute, such as country.",
        show_default=False,
    ),
]

Group = Annotated[
    str | None,
    typer.Option(
        help="Consumer group; its members share the work. Default: stream-icd-NAME, where NAME is "
        "that of this command, or stream-icd-NAME-GRAPH with --graph. archive appends the topic.",
        show_default=False,
    ),
]

Delivery = Annotated[
    Literal["auto", "exactly-once", "at-least-once"],
    typer.Option(
        help="Delivery guarantee after a failure; auto: the strongest that the broker supports."
    ),
]

MaxDeadLetters = Annotated[
    float,
    typer.Option(
        help="Stop if more than this fraction of the last 50 records became dead letters; "
        "1: never stop."
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
    from stream_icd.errors import BadSettings
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
        help="Maximum rate, in snapshots per second. Default: unlimited.", show_default=False
    ),
]

Limit = Annotated[
    int | None, typer.Option(min=1, help="Stop after this number of snapshots.", show_default=False)
]

Strict = Annotated[
    bool, typer.Option("--strict", help="Stop at the first bad row instead of counting bad rows.")
]

Again = Annotated[
    bool,
    typer.Option(
        "--again",
        help="Also send snapshots that the topic already holds. Default: skip them.",
    ),
]

Correct = Annotated[
    bool,
    typer.Option(
        "--correct",
        help="Send corrections: snapshots that the topic holds with other content.",
    ),
]

PartitionBy = Annotated[
    Literal["graph", "snapshot"],
    typer.Option(
        help="How partitions are chosen. graph: all snapshots of a graph go to one partition, in "
        "order. snapshot: they are spread over all partitions for more detectors, without order."
    ),
]


def checked_graph(name: str | None) -> str | None:
    """Return the name for a graph that an option gives.

    Raises:
        BadSettings: no graph may have this name.
    """
    from stream_icd.errors import BadInput, BadSettings
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

Late = Annotated[
    Path | None,
    typer.Option(
        "--late-rows",
        metavar="FILE",
        help="Write rows that arrive after their window has closed to this file, as JSON lines. "
        "Default: GRAPH.late.jsonl.",
        show_default=False,
    ),
]

Lateness = Annotated[
    str,
    typer.Option(
        help="Keep windows open for rows that arrive this long after their end, such as 30s."
    ),
]

Zone = Annotated[str, typer.Option(help="Time zone of times without one, such as Asia/Shanghai.")]

Unit = Annotated[
    Literal["s", "ms", "us", "ns"],
    typer.Option("--time-unit", help="Unit of numeric times, counted from 1970 UTC."),
]

Ids = Annotated[
    Literal["auto", "integer", "string"],
    typer.Option(
        help="Type of the node ids; auto: integer if the first id is an integer, else string."
    ),
]

Topic = Annotated[
    str | None,
    typer.Option(
        help="Read rows from this Kafka topic, one JSON object per record, instead of a file.",
        show_default=False,
    ),
]

Until = Annotated[
    Literal["forever", "end"],
    typer.Option(help="With --topic: follow it forever, or stop at its current end."),
]

QuietAfter = Annotated[
    str | None,
    typer.Option(
        help="With --topic: stop waiting for partitions without records for this long, such as "
        "30s. Default: windows wait for all partitions.",
        show_default=False,
    ),
]

TimeColumn = Annotated[
    str | None,
    typer.Option(
        "--time",
        help="Time column. Default: t, or the only one called time, timestamp, ts or datetime.",
        show_default=False,
    ),
]
Sort = Annotated[
    bool,
    typer.Option(
        "--sort", help="Sort the rows of files by time first; reads all of them into memory."
    ),
]
