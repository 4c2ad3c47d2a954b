"""`stream-icd consume detect`: find the communities of each snapshot that arrives."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from stream_icd.errors import BadSettings
from stream_icd.programs.options import (
    BootstrapServers,
    Delivery,
    Group,
    Horizon,
    MaxDeadLetters,
    Memory,
    MetricsHost,
    MetricsPort,
    OnlyGraph,
    RegistryUri,
    chosen_horizon,
)

if TYPE_CHECKING:
    from stream_icd.programs import WorkerRun
    from stream_icd.workers.detect import Detector

app = typer.Typer()


@app.command("detect")
def main(
    model: Annotated[
        str,
        typer.Option(
            help="Name of a shipped model, the folder of one (a path, or a URI such as "
            "s3://bucket/mine), or with a registry: a version, or champion. With champion, the "
            "detector starts with the newest champion and changes to each later one between two "
            "batches, without a restart."
        ),
    ] = "default",
    registry: RegistryUri = None,
    graph: OnlyGraph = None,
    k: Annotated[
        int | None,
        typer.Option(
            "--k",
            min=1,
            help="Number of communities for snapshots that do not state it, at most the number of "
            "nodes. Default: determine it for each snapshot.",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        Literal["bp", "icd"],
        typer.Option(
            help="bp: local moves and belief propagation, better and faster; icd: the paper's "
            "method, encoder and K-means."
        ),
    ] = "bp",
    memory: Memory = "auto",
    horizon: Horizon = "auto",
    group: Group = None,
    delivery: Delivery = "auto",
    batch: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Maximum number of snapshots published together. Default: 8 per process; with "
            "memory and several processes, 32 per process, so that several graphs are among them.",
            show_default=False,
        ),
    ] = None,
    max_dead_letters: MaxDeadLetters = 0.5,
    processes: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of worker processes; each works on one snapshot at a time. Use one per "
            "core. Results keep their order. With memory, they work on different graphs.",
        ),
    ] = 1,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Cores per snapshot, with --method icd only. Default: 2, or 1 with several "
            "processes. (The method bp uses one core per snapshot: give --processes.)",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed; the same seed gives the same communities.")
    ] = 0,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Detect communities: read icd.snapshots.v1, write icd.communities.v1.

    What the windows before showed improves the communities of the next one, and communities have
    ids that last. The memory of each graph is published to icd.memory.v1 with
    each result, and read again after a restart. Windows of a graph are detected one after the
    other, so --processes works on several graphs at a time.

    A snapshot that breaks the contract, or exceeds its budget of time or memory, goes to
    icd.snapshots.v1.dlq with the reason, and the detector continues. You can start several: they
    share the topic's partitions.

      stream-icd consume detect --model lfr

      stream-icd consume detect --processes 4

      stream-icd consume detect --model champion --registry s3://bucket/models
    """
    from stream_icd.detection.record import RecordDetection
    from stream_icd.detection.settings import DetectSettings, result_version
    from stream_icd.execution.engines import IN_HAND, IN_HAND_OF_CHAINS, ProcessPool
    from stream_icd.kafka.topics import SNAPSHOTS
    from stream_icd.programs import WorkerOptions, run_worker
    from stream_icd.programs.model_at_work import check_model, model_at_work
    from stream_icd.workers.detect import Detector
    from stream_icd.workers.memories import open_memories

    remembers = memory == "auto"
    options = WorkerOptions(
        name="detect",
        group=group,
        graph=graph,
        delivery=delivery,
        batch=batch or processes * (IN_HAND_OF_CHAINS if remembers and processes > 1 else IN_HAND),
        max_dead_letters=max_dead_letters,
        metrics_port=metrics_port,
        metrics_host=metrics_host,
        bootstrap_servers=bootstrap_servers,
    )
    settings = DetectSettings(
        memory=memory,
        horizon=chosen_horizon(horizon, memory),
        group=options.group_of(SNAPSHOTS),
        n_communities=k,
        method=method,
        threads=_threads(method, threads, processes),
        seed=seed,
    )
    check_model(model, registry)

    def detector(run: WorkerRun) -> dict[str, Detector]:
        memories = None
        if remembers:
            memories = open_memories(run.settings, settings.group)
            run.metrics.memory(lambda: memories.n_bytes, lambda: memories.n_restored)
        swap = run.until_the_end.enter_context(
            model_at_work(
                run,
                model,
                registry,
                lambda opened, place: ProcessPool(
                    RecordDetection(opened, settings), place, processes, give_up=True
                ).opened(),
                lambda opened: result_version(opened, settings),
            )
        )
        room = partial(run.room, settings.memory_topic)
        return {SNAPSHOTS: Detector(swap.model, settings, swap, memories, room)}

    run_worker(detector, options)


def _threads(method: str, threads: int | None, processes: int) -> int:
    """Cores of one snapshot; an option that would do nothing is refused."""
    if threads is not None and method == "bp":
        raise BadSettings(
            f"--threads {threads} has no effect: the method bp uses one core per snapshot; give "
            f"--processes instead, or --method icd"
        )
    return threads or (2 if processes == 1 else 1)
