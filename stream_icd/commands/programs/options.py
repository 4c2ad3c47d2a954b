"""Options that several commands share, and what they stand for."""

from __future__ import annotations

import os
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from stream_icd.commands.programs.declared import argument, option, options
from stream_icd.core.errors import BadInput, BadSettings
from stream_icd.kafka.messages.pacing import Tempo, parse_rate

if TYPE_CHECKING:
    from stream_icd.commands.programs.producer import ProducerRun
    from stream_icd.history.archive import Selection
    from stream_icd.history.files import FileKind
    from stream_icd.kafka.messages.topic_range import TopicRange
    from stream_icd.kafka.settings import KafkaSettings
    from stream_icd.sources.source import Source
    from stream_icd.streaming.detection.settings import DetectSettings


@options
class BrokerOptions:
    """The options of commands that speak to Kafka."""

    bootstrap_servers: str | None = option(
        None,
        "Kafka bootstrap servers, HOST:PORT[,HOST:PORT]. Default: those set in the environment, "
        "otherwise 127.0.0.1:9092.",
        "--bootstrap-servers",
        "-b",
    )

    def kafka(self, *, check: bool = True) -> KafkaSettings:
        """Return the settings of the environment and the configuration file, with this address.

        Raises `BrokerUnavailable` if nobody listens there, and `check` asks for it.
        """
        from stream_icd.kafka.settings import KafkaSettings, check_that_somebody_listens

        address = self.bootstrap_servers
        settings = KafkaSettings() if address is None else KafkaSettings(bootstrap_servers=address)
        if check:
            check_that_somebody_listens(settings)
        return settings


@options
class _WaitingOptions(BrokerOptions):
    """The options of programs that wait for a broker that is away."""

    give_up_after: str | None = option(
        None,
        "End with exit status 75 if the broker is away for this long, such as 10m; 0s: at once, if "
        "it is away at the start. Default: wait for it.",
    )

    @property
    def give_up_after_s(self) -> float | None:
        """How long to wait for a broker that is away, in seconds; None: forever."""
        from stream_icd.core.times import parse_duration

        text = self.give_up_after
        return None if text is None else parse_duration(text).total_seconds()


@options
class ServedOptions:
    """The options of programs that show how they do."""

    metrics_port: int | None = option(
        None,
        "Serve Prometheus metrics, /healthz and /readyz on this port, such as 9464. Default: do "
        "not serve them.",
        min=0,
        max=65535,
    )
    metrics_host: str = option(
        "127.0.0.1",
        "Address to serve metrics on. 0.0.0.0 serves other machines too, without a password.",
    )


RegistryUri = Annotated[
    str | None,
    Option(
        "--registry",
        help="Registry of models: a folder, or a URI such as s3://bucket/models. Default: that of "
        "STREAM_ICD_REGISTRY.",
    ),
]


def checked_graph(name: str | None) -> str | None:
    """Return the name; raise `BadSettings` if no graph may have it."""
    if name is not None:
        from stream_icd.core.snapshot import check_graph_name

        try:
            check_graph_name(name)
        except BadInput as error:
            raise BadSettings(str(error)) from error
    return name


def _checked_group(name: str | None) -> str | None:
    """Return the name; raise `BadSettings` if it is empty, as by an unset variable of a script."""
    if name == "":
        raise BadSettings("--group is empty: name the group, or omit it")
    return name


StoppedGroup = Annotated[
    str, Option(help="Consumer group; stop all its members first.", callback=_checked_group)
]

OnlyGraph = Annotated[
    str | None,
    Option("--graph", help="Only this graph. Default: all graphs.", callback=checked_graph),
]


def _checked_zone(name: str) -> str:
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError) as error:  # the last one: it is not found
        raise BadSettings(
            f"--zone {name!r}: there is no such time zone; give one such as Europe/Paris or UTC"
        ) from error
    return name


Zone = Annotated[
    str,
    Option(
        "--zone",
        help="Time zone of the times that are shown, such as Europe/Paris.",
        callback=_checked_zone,
    ),
]

DeliveryOption = Annotated[
    Literal["auto", "exactly-once", "at-least-once"],
    Option(
        help="Delivery guarantee after a failure; auto: the strongest that the broker supports."
    ),
]

Seed = Annotated[int, Option(min=0, help="Random seed; the same seed gives the same bytes.")]


@options
class MethodOptions:
    """The method, and how far back it looks with memory."""

    method: Literal["auto", "bp", "icd"] = option(
        "auto",
        "auto: what the model proved best with; bp: local moves and belief propagation; icd: the "
        "paper's method, encoder and K-means.",
    )
    horizon: str = option(
        "auto",
        "How far back memory looks. auto: chosen for each graph while it runs. off: no edges of "
        "earlier windows, only the last communities as a prior. N: about the last N windows.",
        metavar="auto|off|WINDOWS",
    )

    def chosen_horizon(self, memory: str = "auto") -> float | Literal["auto", "off"]:
        """Return the horizon; raise `BadSettings` if it is none, or if there is no memory."""
        if self.horizon == "auto":  # without importing what detects with memory
            return "auto"
        from stream_icd.methods.memory.horizon import read_horizon

        horizon = read_horizon(self.horizon)
        if memory == "off" and horizon != "auto":
            raise BadSettings(
                f"--horizon {self.horizon} has no effect with --memory off: leave one of them out"
            )
        return horizon


@options
class DetectionOptions(MethodOptions):
    """How communities are detected."""

    registry: RegistryUri = None
    k: int | None = option(
        None,
        "Number of communities for snapshots that do not state it, at most the number of nodes. "
        "Default: determine it for each snapshot.",
        min=1,
    )
    memory: Literal["auto", "off"] = option(
        "auto",
        "auto: detect each window with the memory of the graph's last one (with the method bp, if "
        "the model's `stay` is above 0); off: detect each window alone.",
    )
    threads: int | None = option(
        None,
        "Cores per snapshot. The method bp uses one below 50,000 nodes. Default: the machine's "
        "cores divided by the number of processes, at most 4.",
        min=1,
    )
    seed: Seed = 0

    def settings(self, processes: int, group: str = "") -> DetectSettings:
        from stream_icd.streaming.detection.settings import DetectSettings

        return DetectSettings(
            memory=self.memory,
            horizon=self.chosen_horizon(self.memory),
            group=group,
            n_communities=self.k,
            method=self.method,
            # Together, the processes use no more cores than there are.
            threads=self.threads or max(1, min((os.cpu_count() or 1) // processes, 4)),
            seed=self.seed,
        )


_Rate = Annotated[
    float | None,
    Option(
        parser=parse_rate,
        metavar="RATE",
        help="Maximum rate, in snapshots per second, such as 2 or 50/s. Default: unlimited.",
    ),
]


@options
class Producer(ServedOptions, _WaitingOptions):
    """The options of a producer, and the source that they describe."""

    rate: _Rate = None
    limit: int | None = option(None, "Stop after this number of snapshots.", min=1)
    again: bool = option(False, "Also send snapshots that the topic holds. Default: skip them.")
    correct: bool = option(False, "Correct snapshots that the topic holds with other content.")
    partition_by: Literal["graph", "snapshot"] = option(
        "graph",
        "How partitions are chosen. graph: all snapshots of a graph go to one partition, in "
        "order. snapshot: they are spread over all partitions for more detectors, without order.",
    )

    @property
    def strict(self) -> bool:
        return False

    def tempo(self) -> Tempo:
        return Tempo(rate=self.rate)

    def open(self, run: ProducerRun) -> Source:
        """Open the source of snapshots."""
        raise NotImplementedError

    def run(self) -> None:
        from stream_icd.commands.programs.producer import run_producer

        run_producer(self.open, self)


@options
class ReadingProducer(Producer):
    """The options of a producer that reads rows, some of which may be bad."""

    strict: bool = option(False, "Stop at the first bad row instead of counting bad rows.")


@options
class WorkerOptions(ServedOptions, _WaitingOptions):
    """The options of programs that are members of a consumer group."""

    graph: OnlyGraph = None
    group: str | None = option(
        None,
        "Consumer group; its members share the work. Default: stream-icd-NAME, where NAME is that "
        "of this command, or stream-icd-NAME-GRAPH with --graph. archive appends the topic.",
    )
    max_dead_letters: float = option(
        0.5, "Stop if more than this fraction of the last 50 records became dead letters; 1: never."
    )

    def __post_init__(self) -> None:
        _checked_group(self.group)

    def group_of(self, name: str) -> str:
        """Return the group of the program of this name; those of other graphs need other groups.

        >>> WorkerOptions(graph="as733").group_of("detect")
        'stream-icd-detect-as733'
        """
        graph = "" if self.graph is None else f"-{self.graph}"
        return self.group or f"stream-icd-{name}{graph}"


GraphName = Annotated[
    str, Option(help="Name of the graph, the key of its messages.", callback=checked_graph)
]

WindowOption = Annotated[
    str | None,
    Option(
        help="Window length, such as 2h, 1d or month. Default: a window lasts until the next file."
    ),
]

IdsOption = Annotated[
    Literal["auto", "integer", "string"],
    Option(
        help="Type of the node ids; auto: that of the graph's last snapshot, or for its first one "
        "integer if all ids are whole numbers, else string."
    ),
]


@options
class RowOptions:
    """The options of producers that make windows of timed rows, from a path or a topic."""

    path: Path | None = argument(
        "CSV, JSON lines or Parquet file (also compressed), or a folder of such files.",
        default=None,
    )
    topic: str | None = option(
        None, "Read rows from this Kafka topic, one JSON object per record, instead of a file."
    )
    until: Literal["forever", "end"] = option(
        "forever",
        "With --topic: follow it forever, or stop at its current end; the next run sends the "
        "windows that are open then.",
    )
    flush: bool = option(
        False,
        "With --until end, if the topic has ended: send the open windows, too. Rows that arrive "
        "after that for these windows are in no snapshot.",
    )
    quiet_after: str | None = option(
        None,
        "With --topic: stop waiting for partitions without records for this long, such as 30s "
        "(with --until end: by the timestamps of records). Default: windows wait for all "
        "partitions.",
    )
    columns: str | None = option(None, "Columns of files without a header line, such as src,dst,t.")
    time: str | None = option(
        None, "Time column. Default: t, or the only one called time, timestamp, ts or datetime."
    )
    time_unit: Literal["s", "ms", "us", "ns"] = option("s", "Unit of numeric times since 1970 UTC.")
    time_format: str | None = option(
        None,
        "Form of times in text, as of Python's strptime, such as '%m/%d/%Y %I:%M %p'. Default: ISO "
        "8601, or the date of a mail.",
    )
    zone: str = option("UTC", "Time zone of times without one, such as Asia/Shanghai.")
    ids: IdsOption = "auto"
    sort: bool = option(False, "Sort rows of files by time first; reads all of them into memory.")
    lateness: str = option(
        "0s", "Keep windows open for rows that arrive this long after their end, such as 30s."
    )
    late_rows: Path | None = option(
        None,
        "Write rows that arrive after their window has closed to this file, as JSON lines. "
        "Default: GRAPH.late.jsonl.",
        metavar="FILE",
    )
    graph: GraphName = "rows"

    def __post_init__(self) -> None:
        if (self.path is None) == (self.topic is None):
            raise BadSettings("give either a path to read from, or a topic with --topic")
        if self.path is None and (self.sort or self.columns):
            raise BadSettings("--sort and --columns are for files: leave them out with --topic")
        if self.flush and self.until == "forever":
            raise BadSettings("--flush is for the end of a topic: give --topic and --until end")

    @property
    def header(self) -> list[str] | None:
        return None if self.columns is None else [name.strip() for name in self.columns.split(",")]

    @cached_property
    def file_columns(self) -> list[str]:
        """The columns of the file, or of the first one in the folder; empty for a topic."""
        from stream_icd.sources.tables import columns_of

        return [] if self.path is None else columns_of(self.path, self.header)


FromOption = Annotated[
    str | None, Option("--from", help="Only windows that begin at this time or later.")
]

Last = Annotated[str | None, Option("--to", help="Only windows that begin before this time.")]


@options
class PastOptions:
    """Which windows of an archive."""

    first: FromOption = None
    last: Last = None
    graph: OnlyGraph = None

    def selection(self, kind: FileKind = "snapshots") -> Selection:
        """Return what is selected; raise `BadSettings` if a time is none."""
        from stream_icd.history.archive import Selection

        start, end = parse_time("--from", self.first), parse_time("--to", self.last)
        return Selection(kind, self.graph, start=start, end=end)


HistoryUri = Annotated[
    str, Option("--history", help="The archive: a folder, or a URI such as s3://bucket/history.")
]

ArchivedGraph = Annotated[
    str | None, Option("--graph", help="The graph. Default: the only one in the archive.")
]

ArchiveUri = Annotated[
    str, Argument(help="The archive: a folder, or a URI such as s3://bucket/history.")
]


@options
class PartOptions:
    """Which part of a topic."""

    first: str | None = option(
        None, "Start: a time, an offset, or PARTITION:OFFSET,…. Default: the beginning.", "--from"
    )
    last: str | None = option(None, "End (not included), see --from. Default: the end.", "--to")

    def part(self, settings: KafkaSettings, topic: str) -> TopicRange:
        """Return what is selected of a topic; raise `BadSettings` if it is no such part."""
        from stream_icd.core.printable import say
        from stream_icd.kafka.messages.topic_range import TopicRange
        from stream_icd.kafka.topics import describe_topic

        described = describe_topic(settings, topic)
        if described.is_compacted:
            say(
                f"warning: {topic} is compacted: of each graph, Kafka keeps only the newest record "
                "there. Set its cleanup.policy to delete",
                err=True,
            )
        return TopicRange.of_options(topic, self.first, self.last, described.partitions)


@options
class TempoOptions:
    """How fast the past passes."""

    speed: str | None = option(None, "Replay at this multiple of real time, such as 10x.")
    rate: _Rate = None
    fastest: bool = option(False, "Do not wait between windows (default).", "--as-fast-as-possible")

    def tempo(self) -> Tempo:
        return Tempo.of_options(self.speed, self.rate, fastest=self.fastest)


def parse_time(option: str, text: str | None) -> datetime | None:
    """Parse a time, or a date, which means its beginning; the default zone is UTC."""
    from stream_icd.core.times import time_of_option

    forms = "a day or a time, such as 2026-01-31T12:00:00Z"
    return None if text is None else time_of_option(option, text, forms)
