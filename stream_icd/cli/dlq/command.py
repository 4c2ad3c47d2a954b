"""`stream-icd dlq`: look at dead letters, and send them again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from stream_icd.errors import BadSettings
from stream_icd.programs.options import BootstrapServers, kafka_settings
from stream_icd.programs.past import Graph

if TYPE_CHECKING:
    from stream_icd.dead_letters.choice import Choice
    from stream_icd.kafka.record import Record
    from stream_icd.kafka.settings import KafkaSettings

app = typer.Typer(
    no_args_is_help=True,
    help="List, inspect and retry dead letters.",
)

SNAPSHOTS = "icd.snapshots.v1"

Topic = Annotated[
    str, typer.Option(help="Topic whose dead letters are meant, if no place names it.")
]
Exception_ = Annotated[
    str | None,
    typer.Option(
        "--exception",
        help="Only dead letters with this exception, such as BadSnapshot.",
        show_default=False,
    ),
]
First = Annotated[
    str | None,
    typer.Option(
        "--from",
        help="Start: a time, an offset, or PARTITION:OFFSET,… in the dead-letter topic; by default "
        "the beginning.",
        show_default=False,
    ),
]
Last = Annotated[
    str | None,
    typer.Option(
        "--to", help="End (not included), as --from; by default the end.", show_default=False
    ),
]


@app.command("list")
def list_(
    topic: Annotated[str, typer.Argument(help="Topic whose dead letters are listed.")] = SNAPSHOTS,
    everywhere: Annotated[
        bool, typer.Option("--all", help="List the dead letters of all topics.")
    ] = False,
    graph: Graph = None,
    exception: Exception_ = None,
    first: First = None,
    last: Last = None,
    format: Annotated[
        Literal["table", "json"],
        typer.Option(help="Table, or JSON lines with everything but the value."),
    ] = "table",
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """List dead letters: which records, when, why, and whether they were retried.

    A record that several workers dead-lettered, or that failed again, is listed once.

    stream-icd dlq list

    stream-icd dlq list --graph as733 --from 2026-01-31 --format json
    """
    from stream_icd.cli.dlq.tables import json_lines, table_lines
    from stream_icd.dead_letters.box import BadRecord, read_dead_letters
    from stream_icd.dead_letters.choice import dead_letters_of
    from stream_icd.kafka.port.topic import is_dead_letter_topic
    from stream_icd.kafka.topics import topic_names

    settings = kafka_settings(bootstrap_servers)
    boxes = (
        [name for name in topic_names(settings) if is_dead_letter_topic(name)]
        if everywhere
        else [dead_letters_of(topic)]
    )
    found, no_match = list[BadRecord](), None
    for name in boxes:
        choice = _choice(settings, name, frozenset(), graph, exception, first, last)
        box = read_dead_letters(settings, name)
        try:
            found += choice.records(box)
        except BadSettings as error:
            no_match = error
    if no_match is not None and not found:
        raise no_match
    for line in json_lines(found) if format == "json" else table_lines(found):
        typer.echo(line)


@app.command()
def show(
    place: Annotated[
        str,
        typer.Argument(help="PARTITION:OFFSET, or TOPIC[PARTITION]@OFFSET as in lists and logs."),
    ],
    topic: Topic = SNAPSHOTS,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the value to this file, byte for byte.", show_default=False),
    ] = None,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Show everything about one dead letter, and whether it can be read now.

    stream-icd dlq show 0:7 --out snapshot.arrows

    stream-icd dlq show 'icd.snapshots.v1[3]@41'
    """
    from stream_icd.cli.dlq.tables import letter_lines
    from stream_icd.dead_letters.box import read_again, read_dead_letters
    from stream_icd.dead_letters.choice import parse_places
    from stream_icd.messages.reader import MessageReader
    from stream_icd.printable import printable

    settings = kafka_settings(bootstrap_servers)
    dead_letters, places = parse_places([place], topic)
    box, reader = read_dead_letters(settings, dead_letters), MessageReader()
    chosen = _choice(settings, dead_letters, places, None, None, None, None).of(box)
    for letter, came in read_again(settings, chosen):
        again = box.retried.get(letter.origin, ())
        for line in letter_lines(letter, came, again, reader):
            typer.echo(printable(line))
        if out is not None:
            _write(out, came)


@app.command()
def retry(
    places: Annotated[
        list[str] | None,
        typer.Argument(
            help="PARTITION:OFFSET, or TOPIC[PARTITION]@OFFSET as in lists and logs.",
            show_default=False,
        ),
    ] = None,
    topic: Topic = SNAPSHOTS,
    everything: Annotated[
        bool, typer.Option("--all", help="All dead letters of the topic.")
    ] = False,
    graph: Graph = None,
    exception: Exception_ = None,
    first: First = None,
    last: Last = None,
    to_topic: Annotated[
        str | None,
        typer.Option(
            "--to-topic",
            help="Topic to send them to; by default the topic that each came from.",
            show_default=False,
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Also those that have been retried before, once each.")
    ] = False,
    rate: Annotated[
        float | None,
        typer.Option(
            help="Maximum rate, records per second; by default unlimited.", show_default=False
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be sent, and do nothing.")
    ] = False,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Send dead letters again, each once, to the topic that they came from.

    Key, value and headers are unchanged. What was sent is marked in the dead-letter topic: after an
    interruption, run the command again to send the rest. A record that fails again becomes another
    dead letter, which counts the attempts.

      stream-icd dlq retry --graph as733 --exception LimitExceeded --dry-run

      stream-icd dlq retry 0:7 'icd.snapshots.v1[3]@41'
    """
    from stream_icd.cli.dlq.retry import run_retry
    from stream_icd.dead_letters.choice import parse_places

    if everything and places:
        raise BadSettings("give either places, or --all")
    if not (everything or places or graph or exception or first or last):
        raise BadSettings("say which: places, --graph, --exception, --from, --to, or --all")
    settings = kafka_settings(bootstrap_servers)
    dead_letters, wanted = parse_places(places or [], topic)
    choice = _choice(settings, dead_letters, wanted, graph, exception, first, last)
    run_retry(settings, choice, to_topic=to_topic, again=again, rate=rate, dry_run=dry_run)


def _choice(
    settings: KafkaSettings,
    dead_letters: str,
    places: frozenset[str],
    graph: str | None,
    exception: str | None,
    first: str | None,
    last: str | None,
) -> Choice:
    from stream_icd.dead_letters.choice import Choice
    from stream_icd.kafka.topics import describe_topic
    from stream_icd.messages.topic_range import TopicRange, parse_position

    n = describe_topic(settings, dead_letters).partitions
    start, end = parse_position("--from", first, n), parse_position("--to", last, n)
    return Choice(TopicRange(dead_letters, start, end), places, graph, exception)


def _write(out: Path, record: Record) -> None:
    if record.value is None:
        raise BadSettings(f"{record.place} has no value (null): nothing to write to {out}")
    out.write_bytes(record.value)
    typer.echo(f"{len(record.value):,} bytes to {out}")
