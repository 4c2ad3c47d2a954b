"""`stream-icd consume detect`: find the communities of each snapshot that arrives."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from stream_icd.cli.options import BootstrapServers, MetricsHost, MetricsPort, kafka_settings

app = typer.Typer()


@app.command("detect")
def main(
    model: Annotated[
        str, typer.Option(help="Name of a shipped model, or a folder made by stream-icd train.")
    ] = "as",
    graph: Annotated[
        str | None, typer.Option(help="Only this graph; by default all.", show_default=False)
    ] = None,
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
    delivery: Annotated[
        Literal["auto", "exactly-once", "at-least-once"],
        typer.Option(help="What is promised after a failure; auto: the best this broker can keep."),
    ] = "auto",
    batch: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Snapshots published together when many are waiting; by default 8 a process.",
            show_default=False,
        ),
    ] = None,
    max_dead_letters: Annotated[
        float, typer.Option(help="Stop when more than this share of the last 50 records was bad.")
    ] = 0.5,
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
    from contextlib import ExitStack

    import structlog

    from stream_icd.cli.run_consumer import (
        freeze_what_stays,
        share_one_heap,
        shown_on,
        stop_on_signals,
    )
    from stream_icd.kafka.consumer import run_consumer
    from stream_icd.kafka.delivery import Delivery
    from stream_icd.kafka.topics import SNAPSHOTS
    from stream_icd.log import configure_logging
    from stream_icd.pipeline.dead_letters import DeadLetterLimit
    from stream_icd.pipeline.detect import Detector, DetectSettings, RecordDetection
    from stream_icd.pipeline.engines import IN_HAND, open_engine
    from stream_icd.pipeline.outgoing import Fit
    from stream_icd.registry.shipped import open_model

    share_one_heap()
    stop = stop_on_signals()
    configure_logging()
    settings = kafka_settings(bootstrap_servers)
    chosen = DetectSettings(
        graph=graph,
        n_communities=k,
        mode=mode,
        threads=threads or (2 if processes == 1 else 1),
        seed=seed,
    )
    with ExitStack() as until_the_end:
        metrics = until_the_end.enter_context(shown_on(metrics_port, metrics_host, settings))
        opened = open_model(model)
        work = RecordDetection(opened, chosen)
        engine = until_the_end.enter_context(open_engine(work, model, processes))
        metrics.model(work.version)
        metrics.processes(lambda: engine.alive)
        detector = Detector(opened, chosen, DeadLetterLimit(max_dead_letters), engine)
        structlog.get_logger().info("started", model=work.version, group=group)
        run_consumer(
            settings,
            SNAPSHOTS,
            group,
            Fit(settings).handle(detector.handle),
            stop,
            delivery=Delivery(delivery),
            max_records=batch or IN_HAND * processes,
            on_done=freeze_what_stays(),
            watcher=metrics.watch(SNAPSHOTS, graph),
            ahead=processes > 1,
        )
