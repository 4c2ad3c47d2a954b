"""Options that several commands share, said once."""

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
        help="Kafka to use, HOST:PORT[,HOST:PORT]; by default $STREAM_ICD_BOOTSTRAP_SERVERS, "
        "else 127.0.0.1:9092.",
        show_default=False,
    ),
]


def kafka_settings(bootstrap_servers: str | None) -> KafkaSettings:
    """Settings from the environment and the configuration file, with this address if given.

    Raises:
        BadSettings: a setting is wrong.
    """
    from stream_icd.kafka.settings import KafkaSettings

    if bootstrap_servers is None:
        return KafkaSettings()
    return KafkaSettings(bootstrap_servers=bootstrap_servers)


MetricsPort = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        help="Show Prometheus metrics, /healthz and /readyz on this port, such as 9464; by default "
        "on none.",
        show_default=False,
    ),
]

MetricsHost = Annotated[
    str,
    typer.Option(help="Address of that port; 0.0.0.0 lets other machines see it, unprotected."),
]

Rate = Annotated[
    float | None,
    typer.Option(help="Snapshots a second at the most; by default no limit.", show_default=False),
]

Limit = Annotated[
    int | None, typer.Option(min=1, help="Stop after so many snapshots.", show_default=False)
]

Strict = Annotated[
    bool, typer.Option("--strict", help="Stop at the first bad row instead of counting it.")
]

Again = Annotated[
    bool,
    typer.Option(
        "--again", help="Send also what the topic holds already; by default only what it lacks."
    ),
]

PartitionBy = Annotated[
    Literal["graph", "snapshot"],
    typer.Option(
        help="What chooses a snapshot's partition. graph: all of a graph are in one, in order. "
        "snapshot: they are spread, for more detectors, and their order is given up."
    ),
]

GraphName = Annotated[str, typer.Option(help="Name of the graph: the key of its messages.")]

Late = Annotated[
    Path | None,
    typer.Option(
        "--late-rows",
        metavar="FILE",
        help="Write rows that arrive after their window has closed to this file, as JSON lines; by "
        "default GRAPH.late.jsonl.",
        show_default=False,
    ),
]

Lateness = Annotated[
    str,
    typer.Option(
        help="How far behind the newest row one may arrive, such as 30s: windows wait so long."
    ),
]

Zone = Annotated[str, typer.Option(help="Time zone of times that say none, such as Asia/Shanghai.")]

Unit = Annotated[
    Literal["s", "ms", "us", "ns"],
    typer.Option("--time-unit", help="Unit of times that are numbers, counted from 1970 UTC."),
]

Ids = Annotated[
    Literal["auto", "integer", "string"],
    typer.Option(help="What node ids are; auto: integers if the first one is."),
]

Topic = Annotated[
    str | None,
    typer.Option(
        help="Read from this Kafka topic instead, a JSON object a record.", show_default=False
    ),
]

Until = Annotated[
    Literal["forever", "end"],
    typer.Option(help="Of a topic: follow it, or stop after what is there now."),
]

QuietAfter = Annotated[
    str | None,
    typer.Option(
        help="Of a topic: windows stop waiting for a partition that had nothing for so long, "
        "such as 30s; by default they wait.",
        show_default=False,
    ),
]

Sort = Annotated[
    bool,
    typer.Option(
        "--sort", help="Of files that are not in order of time: read all first, and sort."
    ),
]
