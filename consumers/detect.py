"""`stream-icd consume detect`: find the communities of each snapshot that arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from stream_icd.cli.options import (
    BootstrapServers,
    Delivery,
    MaxDeadLetters,
    MetricsHost,
    MetricsPort,
    OnlyGraph,
)

if TYPE_CHECKING:
    from stream_icd.cli.run_worker import Run
    from stream_icd.pipeline.detect import Detector

app = typer.Typer()


@app.command("detect")
def main(
    model: Annotated[
        str, typer.Option(help="Name of a shipped model, or a folder made by stream-icd train.")
    ] = "as",
    graph: OnlyGraph = None,
    k: Annotated[
        int | None,
        typer.Option(
            "--k",
            min=1,
            help="Number of communities for snapshots that do not say theirs; by default it is "
            "found out from each snapshot.",
            show_default=False,
        ),
    ] = None,
    mode: Annotated[
        Literal["refined", "faithful"],
        typer.Option(help="refined: the better and faster; faithful: as the paper, by K-means."),
    ] = "refined",
    group: Annotated[str, typer.Option(help="Consumer group: its members share the work.")] = (
        "stream-icd-detect"
    ),
    delivery: Delivery = "auto",
    batch: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Snapshots published together when many are waiting; by default 8 a process.",
            show_default=False,
        ),
    ] = None,
    max_dead_letters: MaxDeadLetters = 0.5,
    processes: Annotated[
        int,
        typer.Option(
            min=1,
            help="Snapshots that are worked on at once, each in a process of its own; give as many "
            "as there are cores. Results keep their order, also of one graph.",
        ),
    ] = 1,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Cores that one snapshot may use; by default 2, and 1 with several processes.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same communities.")] = 0,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Detect communities: read icd.snapshots.v1, write icd.communities.v1.

    A snapshot that breaks the contract goes to icd.snapshots.v1.dlq with the reason, and the
    stream goes on. Start as many as you like: the group shares the topic's partitions.

      stream-icd consume detect --model lfr

      stream-icd consume detect --model as --processes 4
    """
    from stream_icd.cli.run_worker import WorkerOptions, run_worker
    from stream_icd.kafka.topics import SNAPSHOTS
    from stream_icd.pipeline.detect import Detector, DetectSettings, RecordDetection
    from stream_icd.pipeline.engines import IN_HAND, open_engine
    from stream_icd.registry.shipped import open_model

    settings = DetectSettings(
        n_communities=k,
        mode=mode,
        threads=threads or (2 if processes == 1 else 1),
        seed=seed,
    )

    def detector(run: Run) -> dict[str, Detector]:
        opened = open_model(model)
        work = RecordDetection(opened, settings)
        run.metrics.model(work.version)
        engine = run.until_the_end.enter_context(open_engine(work, model, processes))
        run.metrics.processes(lambda: engine.alive)
        in_pool = engine if processes > 1 else None
        return {SNAPSHOTS: Detector(lambda: opened, settings, in_pool)}

    options = WorkerOptions(
        group=group,
        graph=graph,
        delivery=delivery,
        batch=batch or IN_HAND * processes,
        max_dead_letters=max_dead_letters,
        metrics_port=metrics_port,
        metrics_host=metrics_host,
        bootstrap_servers=bootstrap_servers,
    )
    run_worker(detector, options)
