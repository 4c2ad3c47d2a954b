"""`stream-icd replay`: detect snapshots of the past again."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from stream_icd.cli.options import BootstrapServers, kafka_settings
from stream_icd.cli.replay_options import Fastest, First, Graph, Last, Rate, Speed, parse_time
from stream_icd.errors import BadSettings

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Detect snapshots of the past again."
)

EngineName = Literal["serial", "pool", "ray"]

Model = Annotated[
    str,
    typer.Option(
        help="A shipped model, its version (as@556afcd8: refused if it is another one now), or "
        "a folder made by stream-icd train."
    ),
]
Mode = Annotated[
    Literal["refined", "faithful"],
    typer.Option(help="refined: the better and faster; faithful: as the paper, by K-means."),
]
K = Annotated[
    int | None,
    typer.Option(
        "--k", min=1, help="Communities of snapshots that do not say theirs.", show_default=False
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Same seed, same communities.")]
WhichEngine = Annotated[
    EngineName,
    typer.Option(help="serial: here; pool: processes on this machine; ray: actors on a cluster."),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Processes or actors; by default one a core.", show_default=False),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        help="Of a Ray cluster, such as auto; by default one is started here.", show_default=False
    ),
]
OutTopic = Annotated[
    str | None,
    typer.Option(help="Topic for the results; made if there is none.", show_default=False),
]
IntoLive = Annotated[
    bool, typer.Option("--into-live", help="Let --out-topic be the topic that all follow.")
]
Compare = Annotated[
    bool,
    typer.Option("--compare", help="Show both versions: NMI between them, quality, churn."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would happen, and do nothing.")]


@app.command()
def topic(
    out_topic: OutTopic = None,
    first: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Time at which records were written, offset, or PARTITION:OFFSET,…; by default "
            "the beginning.",
            show_default=False,
        ),
    ] = None,
    last: Annotated[
        str | None,
        typer.Option(
            "--to", help="The same, not included; by default the end.", show_default=False
        ),
    ] = None,
    source: Annotated[str, typer.Option("--topic", help="Where snapshots are.")] = (
        "icd.snapshots.v1"
    ),
    graph: Graph = None,
    model: Model = "as",
    mode: Mode = "refined",
    k: K = None,
    seed: Seed = 0,
    into_live: IntoLive = False,
    compare: Compare = False,
    dry_run: DryRun = False,
    speed: Speed = None,
    rate: Rate = None,
    fastest: Fastest = False,
    engine: WhichEngine = "pool",
    workers: Workers = None,
    ray_address: RayAddress = None,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Detect again what the snapshots topic still holds, into a topic of your choice.

    Started again after it was stopped or killed, it detects what the topic lacks.

      stream-icd replay topic --from 2026-01-31 --to 2026-02-01 --out-topic again --dry-run

      stream-icd replay topic --model lfr --out-topic again --compare
    """
    from stream_icd.cli.replay_run import (
        Options,
        communities_topic,
        no_snapshots,
        run_replay,
        topic_jobs,
    )
    from stream_icd.kafka.topics import describe_topic
    from stream_icd.pipeline.pacing import parse_tempo
    from stream_icd.pipeline.replay_results import results_topic
    from stream_icd.pipeline.topic_range import TopicRange, parse_position

    if out_topic is None:
        raise BadSettings("say where results go: --out-topic")
    options = Options(
        model,
        mode,
        k,
        seed,
        engine,
        workers,
        ray_address,
        parse_tempo(speed, rate, fastest=fastest),
    )
    settings = kafka_settings(bootstrap_servers)
    n = describe_topic(settings, source).partitions
    start, end = parse_position("--from", first, n), parse_position("--to", last, n)
    part = TopicRange(source, start, end)
    run_replay(
        options,
        topic_jobs(settings, part, graph),
        results_topic(settings, out_topic, into_live=into_live, partitions=n),
        communities_topic(settings) if compare else None,
        nothing=lambda: no_snapshots(part, graph),
        dry_run=dry_run,
    )


@app.command()
def history(
    uri: Annotated[
        str, typer.Argument(help="The archive: a folder, or a URI such as s3://bucket/history.")
    ],
    out: Annotated[
        str | None,
        typer.Option(help="Archive for the results: a folder or a URI.", show_default=False),
    ] = None,
    out_topic: OutTopic = None,
    first: First = None,
    last: Last = None,
    graph: Graph = None,
    model: Model = "as",
    mode: Mode = "refined",
    k: K = None,
    seed: Seed = 0,
    into_live: IntoLive = False,
    compare: Compare = False,
    dry_run: DryRun = False,
    speed: Speed = None,
    rate: Rate = None,
    fastest: Fastest = False,
    engine: WhichEngine = "pool",
    workers: Workers = None,
    ray_address: RayAddress = None,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Detect archived snapshots again, into another archive or a topic.

    The communities are those of the stream, bit for bit, for the same model, mode and seed.
    Started again after it was stopped or killed, it detects what is not there yet.

      stream-icd replay history history/ --out again/ --graph as733 --from 1999-01-01

      stream-icd replay history s3://bucket/history --out s3://bucket/again --engine ray
    """
    from stream_icd.cli.replay_run import Options, archived_jobs, run_replay
    from stream_icd.history.archive import Selection
    from stream_icd.history.nothing import nothing_selected
    from stream_icd.pipeline.pacing import parse_tempo
    from stream_icd.pipeline.replay_results import HistoryResults, Results, results_topic
    from stream_icd.store import open_store

    if (out is None) == (out_topic is None):
        raise BadSettings("say where results go: either --out or --out-topic")
    options = Options(
        model,
        mode,
        k,
        seed,
        engine,
        workers,
        ray_address,
        parse_tempo(speed, rate, fastest=fastest),
    )
    store = open_store(uri)
    start, end = parse_time("--from", first), parse_time("--to", last)
    if out is not None:
        results: Results = HistoryResults(open_store(out))
    else:
        settings = kafka_settings(bootstrap_servers)
        results = results_topic(settings, str(out_topic), into_live=into_live)
    selection = Selection(graph=graph, start=start, end=end)
    run_replay(
        options,
        archived_jobs(store, selection),
        results,
        HistoryResults(store) if compare else None,
        nothing=lambda: nothing_selected(store, selection),
        dry_run=dry_run,
    )
