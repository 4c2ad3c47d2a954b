"""`stream-icd replay`: run detection again on past snapshots."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from stream_icd.errors import BadSettings
from stream_icd.programs.options import (
    BootstrapServers,
    Horizon,
    Memory,
    RegistryUri,
    kafka_settings,
)
from stream_icd.programs.past import Fastest, First, Graph, Last, Rate, Speed, parse_time

app = typer.Typer(no_args_is_help=True, help="Run detection again on past snapshots.")

EngineName = Literal["serial", "pool", "ray"]

Model = Annotated[
    str,
    typer.Option(
        help="Name of a shipped model, a version such as as@8168f91e (an error if the model has "
        "another one), the folder of a model (a path or a URI), or with a registry: a version, "
        "champion, or previous."
    ),
]
Method = Annotated[
    Literal["bp", "icd"],
    typer.Option(
        help="bp: local moves and belief propagation, better and faster; icd: the paper's "
        "method, encoder and K-means."
    ),
]
K = Annotated[
    int | None,
    typer.Option(
        "--k",
        min=1,
        help="Number of communities, for snapshots that do not state it.",
        show_default=False,
    ),
]
Seed = Annotated[
    int, typer.Option(min=0, help="Random seed; the same seed gives the same communities.")
]
WhichEngine = Annotated[
    EngineName,
    typer.Option(help="serial: this process; pool: processes on this machine; ray: a Ray cluster."),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1, help="Number of processes or actors. Default: one per core.", show_default=False
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        help="Address of a Ray cluster, such as auto. Default: a local cluster is started.",
        show_default=False,
    ),
]
OutTopic = Annotated[
    str | None,
    typer.Option(help="Topic for the results; created if it does not exist.", show_default=False),
]
IntoLive = Annotated[
    bool,
    typer.Option("--into-live", help="Allow the live topic (icd.communities.v1) as --out-topic."),
]
Smooth = Annotated[
    bool,
    typer.Option(
        "--smooth",
        help="Use the windows after each one, too: better communities of the past. Needs memory, "
        "and all windows of a graph in RAM. Excludes --engine ray, --speed and --rate.",
    ),
]
Compare = Annotated[
    bool,
    typer.Option("--compare", help="Compare with the earlier results: NMI, quality, churn."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")
]


@app.command()
def topic(
    out_topic: OutTopic = None,
    first: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Start: a time, an offset, or PARTITION:OFFSET,…. Default: the beginning.",
            show_default=False,
        ),
    ] = None,
    last: Annotated[
        str | None,
        typer.Option(
            "--to", help="End (not included), see --from. Default: the end.", show_default=False
        ),
    ] = None,
    source: Annotated[str, typer.Option("--topic", help="Topic that holds the snapshots.")] = (
        "icd.snapshots.v1"
    ),
    graph: Graph = None,
    model: Model = "default",
    registry: RegistryUri = None,
    method: Method = "bp",
    memory: Memory = "auto",
    horizon: Horizon = "auto",
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
    """Run detection again on snapshots that the topic still holds.

    Results go to --out-topic. After an interruption, run the same command again: it continues.
    With memory, the snapshots before --from are detected too, since the later ones need the memory
    of them; their results are not stored.

      stream-icd replay topic --from 2026-01-31 --out-topic again --dry-run

      stream-icd replay topic --model lfr --out-topic again --compare

      stream-icd replay topic --model champion --registry registry/ --out-topic new
    """
    from stream_icd.cli.replay.run import (
        Options,
        communities_topic,
        no_snapshots,
        past_of_topic,
        run_replay,
    )
    from stream_icd.kafka.topics import describe_topic
    from stream_icd.messages.topic_range import TopicRange, parse_position
    from stream_icd.registry.settings import registry_at
    from stream_icd.replay.pacing import parse_tempo
    from stream_icd.replay.results import TopicResults, check_results_topic

    if out_topic is None:
        raise BadSettings("say where results go: --out-topic")
    check_results_topic(out_topic, into_live=into_live)
    options = Options(
        model,
        registry_at(registry),
        method,
        k,
        seed,
        engine,
        workers,
        ray_address,
        parse_tempo(speed, rate, fastest=fastest),
        memory,
        horizon,
    )
    settings = kafka_settings(bootstrap_servers)
    n = describe_topic(settings, source).partitions
    start, end = parse_position("--from", first, n), parse_position("--to", last, n)
    part = TopicRange(source, start, end)
    run_replay(
        options,
        past_of_topic(settings, part, graph),
        TopicResults(settings, out_topic, n),
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
    model: Model = "default",
    registry: RegistryUri = None,
    method: Method = "bp",
    memory: Memory = "auto",
    horizon: Horizon = "auto",
    smooth: Smooth = False,
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
    """Run detection again on archived snapshots.

    Results go to another archive or a topic. The same model, method and seed give the same
    communities as on the stream, bit for bit. After an interruption, run the same command again:
    it continues. With memory, a replay --from a time starts with the archived memory of the window
    before; without one, it detects the windows before too, and does not store their results.

      stream-icd replay history history/ --out again/ --graph as733

      stream-icd replay history history/ --out smooth/ --smooth

      stream-icd replay history s3://bucket/history --out again/ --engine ray
    """
    from stream_icd.cli.replay.run import Options, past_of_archive, run_replay
    from stream_icd.history.archive import Selection
    from stream_icd.history.nothing import nothing_selected
    from stream_icd.registry.settings import registry_at
    from stream_icd.replay.pacing import parse_tempo
    from stream_icd.replay.results import (
        HistoryResults,
        Results,
        TopicResults,
        check_results_topic,
    )
    from stream_icd.store.store import open_store

    if (out is None) == (out_topic is None):
        raise BadSettings("give either --out or --out-topic for the results")
    options = Options(
        model,
        registry_at(registry),
        method,
        k,
        seed,
        engine,
        workers,
        ray_address,
        parse_tempo(speed, rate, fastest=fastest),
        memory,
        horizon,
        smooth,
    )
    store = open_store(uri)
    start, end = parse_time("--from", first), parse_time("--to", last)
    if out is not None:
        results: Results = HistoryResults(open_store(out))
    else:
        check_results_topic(str(out_topic), into_live=into_live)
        results = TopicResults(kafka_settings(bootstrap_servers), str(out_topic))
    selection = Selection(graph=graph, start=start, end=end)
    run_replay(
        options,
        past_of_archive(store, selection),
        results,
        HistoryResults(store) if compare else None,
        nothing=lambda: nothing_selected(store, selection),
        dry_run=dry_run,
    )
