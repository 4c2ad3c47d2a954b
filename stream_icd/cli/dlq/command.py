"""`stream-icd dlq`: list and show dead letters, and send them again."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from stream_icd.errors import BadSettings
from stream_icd.printable import say
from stream_icd.programs.declared import command
from stream_icd.programs.options import BootstrapServers, OnlyGraph, kafka_settings
from stream_icd.programs.past import PartOptions

if TYPE_CHECKING:
    from stream_icd.dead_letters.box import Choice
    from stream_icd.kafka.settings import KafkaSettings

app = typer.Typer(no_args_is_help=True, help="List, inspect and retry dead letters.")

SNAPSHOTS = "icd.snapshots.v1"
POSITION = "PARTITION:OFFSET, or TOPIC[PARTITION]@OFFSET as in lists and logs."

Topic = Annotated[str, typer.Option(help="Topic of the dead letters, if no position names it.")]


@dataclass(frozen=True, kw_only=True)
class Chosen(PartOptions):
    """The options that choose dead letters."""

    graph: OnlyGraph = None
    exception: Annotated[
        str | None,
        typer.Option(
            "--exception", help="Only dead letters with this exception, such as BadSnapshot."
        ),
    ] = None
    bootstrap_servers: BootstrapServers = None

    def choice(
        self, settings: "KafkaSettings", dead_letters: str, places: frozenset[str] = frozenset()
    ) -> "Choice":
        """Return what is chosen in a dead-letter topic: all that fits, or what is at some places.

        Raises:
            BadSettings: `--from` or `--to` is no position.
        """
        from stream_icd.dead_letters.box import Choice

        part = self.part(settings, dead_letters)
        return Choice(part, places, self.graph, self.exception)


@command(app, "list")
class ListLetters(Chosen):
    """List dead letters: which records, when, why, and whether they were sent again.

    One line per record, even if several workers could not read it or it failed again.

      stream-icd dlq list

      stream-icd dlq list --graph as733 --from 2026-01-31 --format json
    """

    topic: Annotated[str, typer.Argument(help="Topic to list the dead letters of.")] = SNAPSHOTS
    everywhere: Annotated[
        bool, typer.Option("--all", help="List the dead letters of all topics.")
    ] = False
    format: Annotated[
        Literal["table", "json"],
        typer.Option(help="table: for people; json: JSON lines with everything except the value."),
    ] = "table"

    def run(self) -> None:
        from stream_icd.cli.dlq.tables import json_lines, table_lines
        from stream_icd.dead_letters.box import BadRecord, dead_letters_of, read_dead_letters
        from stream_icd.kafka.port import is_dead_letter_topic
        from stream_icd.kafka.topics import topic_names

        settings = kafka_settings(self.bootstrap_servers)
        boxes = [dead_letters_of(self.topic)]
        if self.everywhere:
            boxes = [name for name in topic_names(settings) if is_dead_letter_topic(name)]
        found, no_match = list[BadRecord](), None
        for name in boxes:
            choice, box = self.choice(settings, name), read_dead_letters(settings, name)
            try:
                found += choice.records(box)
            except BadSettings as error:
                no_match = error
        if no_match is not None and not found:
            raise no_match
        for line in json_lines(found) if self.format == "json" else table_lines(found):
            say(line)


@command(app, "show")
class ShowLetter:
    """Show everything about one dead letter, and whether it can be read now.

    stream-icd dlq show 0:7 --out snapshot.arrows

    stream-icd dlq show 'icd.snapshots.v1[3]@41'
    """

    place: Annotated[str, typer.Argument(metavar="POSITION", help=POSITION)]
    topic: Topic = SNAPSHOTS
    out: Annotated[
        Path | None, typer.Option(help="Write the value to this file, byte for byte.")
    ] = None
    bootstrap_servers: BootstrapServers = None

    def run(self) -> None:
        from stream_icd.cli.dlq.tables import letter_lines
        from stream_icd.dead_letters.box import parse_places, read_again, read_dead_letters
        from stream_icd.messages.claims import MessageReader

        dead_letters, places = parse_places([self.place], self.topic)
        settings = kafka_settings(self.bootstrap_servers)
        box, reader = read_dead_letters(settings, dead_letters), MessageReader()
        for letter, came in read_again(
            settings, Chosen().choice(settings, dead_letters, places).of(box)
        ):
            say(*letter_lines(letter, came, box.retried.get(letter.origin, ()), reader))
            if self.out is None:
                continue
            if came.value is None:
                nothing = f"{came.place} has no value (null): nothing to write to {self.out}"
                raise BadSettings(nothing)
            self.out.write_bytes(came.value)
            say(f"{len(came.value):,} bytes to {self.out}")


@command(app, "retry")
class RetryLetters(Chosen):
    """Send dead letters again, each once, to the topic that they came from.

    Key, value and headers are unchanged. The command marks in the dead-letter topic what it has
    sent: after an interruption, run it again to send the rest. If a record fails again, its new
    dead letter counts the attempts.

      stream-icd dlq retry --graph as733 --exception LimitExceeded --dry-run

      stream-icd dlq retry 0:7 'icd.snapshots.v1[3]@41'
    """

    places: Annotated[list[str] | None, typer.Argument(metavar="POSITION", help=POSITION)] = None
    topic: Topic = SNAPSHOTS
    everything: Annotated[bool, typer.Option("--all", help="All dead letters of the topic.")] = (
        False
    )
    to_topic: Annotated[
        str | None,
        typer.Option(
            "--to-topic", help="Topic to send them to. Default: the topic that each came from."
        ),
    ] = None
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Also send those that have been sent again before, once each."
        ),
    ] = False
    rate: Annotated[
        float | None, typer.Option(help="Maximum rate, in records per second. Default: unlimited.")
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be sent, and do nothing.")
    ] = False

    def run(self) -> None:
        from stream_icd.cli.dlq.retry import run_retry
        from stream_icd.dead_letters.box import parse_places

        if self.everything and self.places:
            raise BadSettings("give either positions, or --all")
        wanted = self.everything, self.places, self.graph, self.exception, self.first, self.last
        if not any(wanted):
            raise BadSettings(
                "choose dead letters: give positions, --graph, --exception, --from, --to, or --all"
            )
        dead_letters, places = parse_places(self.places or [], self.topic)
        settings = kafka_settings(self.bootstrap_servers)
        choice = self.choice(settings, dead_letters, places)
        run_retry(
            settings,
            choice,
            to_topic=self.to_topic,
            again=self.again,
            rate=self.rate,
            dry_run=self.dry_run,
        )
