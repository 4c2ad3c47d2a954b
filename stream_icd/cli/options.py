"""Options that several commands share, said once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

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
