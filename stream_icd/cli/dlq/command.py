"""`stream-icd dlq`: list and show dead letters, and send them again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from stream_icd.errors import BadSettings
from stream_icd.printable import say
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

Topic = Annotated[str, typer.Option(help="Topic of the dead letters, if no position names it.")]
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
        help="Start: a time, an offset, or PARTITION:OFFSET,… in the dead-letter topic. Default: "
        "the beginning.",
        show_default=False,
    ),
]
Last = Annotated[
    str | None,
    typer.Option(
        "--to", help="End (not included), see --from. Default: the end.", show_default=False
    ),
]


@app.command("list")
def list_(
    topic: Annotated[str, typer.Argument(help="Topic to list the dead letters of.")] = SNAPSHOTS,
    everywhere: Annotated[
        bool, typer.Option("--all", help="List the dead letters of all topics.")
    ] = False,
    graph: Graph = None,
    exception: Exception_ = None,
    first: First = None,
    last: Last = None,
    format: Annotated[
        Literal["table", "json"],
        typer.Option(help="table: for people; json: JSON lines with everything except the value."),
    ] = "table",
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """List dead letters: which records, when, why, and whether they were sent again.

    One line per record, even if several workers could not read it or it failed again.

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
        say(line)


@app.command()
def show(
    place: Annotated[
        str,
        typer.Argument(
            metavar="POSITION",
            help="PARTITION:OFFSET, or TOPIC[PARTITION]@OFFSET as in lists and logs.",
        ),
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

    dead_letters, places = parse_places([place], topic)
    settings = kafka_settings(bootstrap_servers)
    box, reader = read_dead_letters(settings, dead_letters), MessageReader()
    chosen = _choice(settings, dead_letters, places, None, None, None, None).of(box)
    for letter, came in read_again(settings, chosen):
        again = box.retried.get(letter.origin, ())
        say(*letter_lines(letter, came, again, reader))
        if out is not None:
            _write(out, came)


@app.command()
def retry(
    places: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="POSITION",
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
            help="Topic to send them to. Default: the topic that each came from.",
            show_default=False,
        ),
    ] = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Also send those that have been sent again before, once each."
        ),
    ] = False,
    rate: Annotated[
        float | None,
        typer.Option(
            help="Maximum rate, in records per second. Default: unlimited.", show_default=False
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be sent, and do nothing.")
    ] = False,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Send dead letters again, each once, to the topic that they came from.

    Key, value and headers are unchanged. The command marks in the dead-letter topic what it has
    sent: after an interruption, run it again to send the rest. If a record fails again, its new
    dead letter counts the attempts.

      stream-icd dlq retry --graph as733 --exception LimitExceeded --dry-run

      stream-icd dlq retry 0:7 'icd.snapshots.v1[3]@41'
    """
    from stream_icd.cli.dlq.retry import run_retry
    from stream_icd.dead_letters.choice import parse_places

    if everything and places:
        raise BadSettings("give either positions, or --all")
    if not (everything or places or graph or exception or first or last):
        raise BadSettings(
            "choose dead letters: give positions, --graph, --exception, --from, --to, or --all"
        )
    dead_letters, wanted = parse_places(places or [], topic)
    settings = kafka_settings(bootstrap_servers)
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
    say(f"{len(record.value):,} bytes to {out}")
