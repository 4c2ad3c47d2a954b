"""`stream-icd dlq`: list and show dead letters, and send them again."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from stream_icd.errors import BadSettings
from stream_icd.printable import say
from stream_icd.programs.declared import argument, command, option, options
from stream_icd.programs.options import BrokerOptions, OnlyGraph
from stream_icd.programs.past import PartOptions

if TYPE_CHECKING:
    from stream_icd.dead_letters.box import Choice
    from stream_icd.kafka.settings import KafkaSettings

app = typer.Typer(no_args_is_help=True, help="List, inspect and retry dead letters.")

SNAPSHOTS = "icd.snapshots.v1"
POSITION = "PARTITION:OFFSET, or TOPIC[PARTITION]@OFFSET as in lists and logs."

Topic = Annotated[str, typer.Option(help="Topic of the dead letters, if no position names it.")]


@options
class Chosen(PartOptions, BrokerOptions):
    """The options that choose dead letters."""

    graph: OnlyGraph = None
    exception: str | None = option(None, "Only those with this exception, such as BadSnapshot.")

    def choice(
        self, settings: "KafkaSettings", dead_letters: str, places: frozenset[str] = frozenset()
    ) -> "Choice":
        """Return what is chosen of a dead-letter topic: all that fits, or what is at places."""
        from stream_icd.dead_letters.box import Choice

        return Choice(self.part(settings, dead_letters), places, self.graph, self.exception)


@command(app, "list")
class ListLetters(Chosen):
    """List dead letters: which records, when, why, and whether they were sent again.

    One line per record, even if several workers could not read it or it failed again.

      stream-icd dlq list
      stream-icd dlq list --graph as733 --from 2026-01-31 --format json
    """

    topic: str = argument("Topic to list the dead letters of.", default=SNAPSHOTS)
    everywhere: bool = option(False, "List the dead letters of all topics.", "--all")
    format: Literal["table", "json"] = option(
        "table", "table: for people; json: JSON lines with everything except the value."
    )

    def run(self) -> None:
        from stream_icd.cli.dlq.tables import json_lines, table_lines
        from stream_icd.dead_letters.box import BadRecord, dead_letters_of, read_dead_letters
        from stream_icd.kafka.port import is_dead_letter_topic
        from stream_icd.kafka.topics import topic_names

        settings = self.kafka()
        boxes = [dead_letters_of(self.topic)]
        if self.everywhere:
            boxes = [name for name in topic_names(settings) if is_dead_letter_topic(name)]
        records, no_match = list[BadRecord](), None
        for name in boxes:
            choice, box = self.choice(settings, name), read_dead_letters(settings, name)
            try:
                records += choice.records(box)
            except BadSettings as error:
                no_match = error
        if no_match is not None and not records:
            raise no_match
        say(*(json_lines(records) if self.format == "json" else table_lines(records)))


@command(app, "show")
class ShowLetter(BrokerOptions):
    """Show everything about one dead letter, and whether it can be read now.

    stream-icd dlq show 0:7 --out snapshot.arrows

    stream-icd dlq show 'icd.snapshots.v1[3]@41'
    """

    place: str = argument(POSITION, metavar="POSITION")
    topic: Topic = SNAPSHOTS
    out: Path | None = option(None, "Write the value to this file, byte for byte.")

    def run(self) -> None:
        from stream_icd.cli.dlq.tables import letter_lines
        from stream_icd.dead_letters.box import parse_places, read_again, read_dead_letters
        from stream_icd.messages.claims import MessageReader

        dead_letters, places = parse_places([self.place], self.topic)
        settings = self.kafka()
        box, reader = read_dead_letters(settings, dead_letters), MessageReader()
        for letter, came in read_again(
            settings, Chosen().choice(settings, dead_letters, places).of(box)
        ):
            say(*letter_lines(letter, came, box.retried.get(letter.origin, ()), reader))
            if self.out is None:
                continue
            if came.value is None:
                raise BadSettings(f"{came.place} has no value (null): cannot write {self.out}")
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

    places: list[str] | None = argument(POSITION, default=None, metavar="POSITION")
    topic: Topic = SNAPSHOTS
    everything: bool = option(False, "All dead letters of the topic.", "--all")
    to_topic: str | None = option(None, "Topic to send them to. Default: where each came from.")
    again: bool = option(False, "Also send those that have been sent again before, once each.")
    rate: float | None = option(None, "Maximum rate, in records per second. Default: unlimited.")
    dry_run: bool = option(False, "Print what would be sent, and do nothing.")

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
        settings = self.kafka()
        run_retry(settings, self.choice(settings, dead_letters, places), self)
