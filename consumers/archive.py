"""`stream-icd consume archive`: store the messages of the topics."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from stream_icd.programs.options import (
    BootstrapServers,
    Group,
    MaxDeadLetters,
    MetricsHost,
    MetricsPort,
    OnlyGraph,
)

if TYPE_CHECKING:
    from stream_icd.programs import WorkerRun
    from stream_icd.workers.archive import Archiver

app = typer.Typer()


class Kinds(StrEnum):
    """What can be archived."""

    SNAPSHOTS = "snapshots"
    LABELS = "labels"
    COMMUNITIES = "communities"
    MEMORY = "memory"


@app.command("archive")
def main(
    uri: Annotated[
        str, typer.Argument(help="The archive: a folder, or a URI such as s3://bucket/history.")
    ],
    kind: Annotated[
        list[Kinds] | None,
        typer.Option(
            help="Only this kind; may be repeated. Default: all kinds.", show_default=False
        ),
    ] = None,
    graph: OnlyGraph = None,
    group: Group = None,
    max_dead_letters: MaxDeadLetters = 0.5,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Store snapshots, labels, communities and memory as Parquet files, each once.

    Offsets are committed after the files are safe, and a message always has the same file, so a
    crash neither loses nor repeats a message. A message that breaks the contract becomes a dead
    letter.

      stream-icd consume archive history/

      stream-icd consume archive s3://bucket/history --kind snapshots
    """
    from stream_icd.history.archive import Archive
    from stream_icd.history.layout import KINDS
    from stream_icd.programs import WorkerOptions, run_worker
    from stream_icd.store.store import open_store
    from stream_icd.workers.archive import TOPICS, Archiver

    kinds = [one for one in KINDS if kind is None or one in kind]

    def archivers(_: WorkerRun) -> dict[str, Archiver]:
        archive = Archive(open_store(uri))
        return {TOPICS[one]: Archiver(archive, one) for one in kinds}

    options = WorkerOptions(
        name="archive",
        group=group,
        group_by_topic=True,
        graph=graph,
        delivery="at-least-once",  # it is enough: keeping a record twice is keeping it once
        max_dead_letters=max_dead_letters,
        metrics_port=metrics_port,
        metrics_host=metrics_host,
        bootstrap_servers=bootstrap_servers,
    )
    run_worker(archivers, options, uri=uri, kinds=kinds)
