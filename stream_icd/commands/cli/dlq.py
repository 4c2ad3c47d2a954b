"""`stream-icd dlq`: list and show dead letters, and send them again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from stream_icd.commands.programs.declared import argument, command, option, options
from stream_icd.commands.programs.options import BrokerOptions, OnlyGraph, PartOptions
from stream_icd.core.errors import BadInput, BadSettings, StoreUnreachable
from stream_icd.core.printable import printable, say, shortened, shown

if TYPE_CHECKING:
    from stream_icd.kafka.messages.claims import MessageReader
    from stream_icd.kafka.record import Record
    from stream_icd.kafka.settings import KafkaSettings
    from stream_icd.streaming.dead_letters.box import BadRecord, DeadLetterChoice, ResendPlan
    from stream_icd.streaming.dead_letters.letters import DeadLetter, Retried

app = typer.Typer(no_args_is_help=True, help="List, inspect and retry dead letters.")

_SNAPSHOTS = "icd.snapshots.v1"
_POSITION = "PARTITION:OFFSET, or TOPIC[PARTITION]@OFFSET as in lists and logs."

_Topic = Annotated[str, typer.Option(help="Topic of the dead letters, if no position names it.")]

_COLUMNS: dict[str, Callable[[BadRecord], str]] = {
    "place": lambda record: record.latest.place,
    "dead-lettered": lambda record: f"{record.latest.at:%Y-%m-%d %X}",
    "graph": lambda record: shortened(record.latest.graph or shown(record.latest.key)),
    "snapshot": lambda record: shortened(record.latest.snapshot_id or "?"),
    "stage": lambda record: ", ".join(record.stages),
    "exception": lambda record: record.latest.exception,
    "time": lambda record: str(record.attempt),
    "sent again": lambda record: "yes" if record.was_sent_again else "no",
    "because": lambda record: shortened(record.latest.message, 60),
}
"""Columns of the table, and how the cell of a record is made."""

_SHOWN_ROWS = 5


@options
class _ChosenLetters(PartOptions, BrokerOptions):
    graph: OnlyGraph = None
    exception: str | None = option(None, "Only those with this exception, such as BadSnapshot.")

    def choice(
        self, settings: KafkaSettings, dead_letters: str, places: frozenset[str] = frozenset()
    ) -> DeadLetterChoice:
        """Return what is chosen of a dead-letter topic: all that fits, or what is at places."""
        from stream_icd.streaming.dead_letters.box import DeadLetterChoice

        return DeadLetterChoice(
            self.part(settings, dead_letters), places, self.graph, self.exception
        )


@command(app, "list")
class _ListLetters(_ChosenLetters):
    """List dead letters: which records, when, why, and whether they were sent again.

    One line per record, even if several workers could not read it or it failed again.

      stream-icd dlq list
      stream-icd dlq list --graph as733 --from 2026-01-31 --format json
    """

    topic: str = argument("Topic to list the dead letters of.", default=_SNAPSHOTS)
    everywhere: bool = option(False, "List the dead letters of all topics.", "--all")
    format: Literal["table", "json"] = option(
        "table", "table: for people; json: JSON lines with everything except the value."
    )

    def run(self) -> None:
        from stream_icd.kafka.connect import connect
        from stream_icd.kafka.port import is_dead_letter_topic
        from stream_icd.streaming.dead_letters.box import BadRecord, DeadLetterBox
        from stream_icd.streaming.dead_letters.letters import parse_places

        settings = self.kafka()
        boxes = [parse_places([], self.topic)[0]]
        if self.everywhere:
            with connect(settings).admin() as admin:
                boxes = list(filter(is_dead_letter_topic, admin.topic_names()))
        records, no_match = list[BadRecord](), None
        for name in boxes:
            choice, box = self.choice(settings, name), DeadLetterBox.read(settings, name)
            try:
                records += choice.records(box)
            except BadSettings as error:
                no_match = error
        if no_match is not None and not records:
            raise no_match
        say(*(_json_lines(records) if self.format == "json" else _table_lines(records)))


@command(app, "show")
class _ShowLetter(BrokerOptions):
    """Show everything about one dead letter, and whether it can be read now.

    stream-icd dlq show 0:7 --out snapshot.arrows

    stream-icd dlq show 'icd.snapshots.v1[3]@41'
    """

    place: str = argument(_POSITION, metavar="POSITION")
    topic: _Topic = _SNAPSHOTS
    out: Path | None = option(None, "Write the value, claimed or not, to this file, byte for byte.")

    def run(self) -> None:
        from stream_icd.core.store.whole_file import writing
        from stream_icd.kafka.messages.claims import MessageReader
        from stream_icd.streaming.dead_letters.box import DeadLetterBox, read_again
        from stream_icd.streaming.dead_letters.letters import parse_places

        dead_letters, places = parse_places([self.place], self.topic)
        settings = self.kafka()
        box, reader = DeadLetterBox.read(settings, dead_letters), MessageReader()
        for letter, came in read_again(
            settings, _ChosenLetters().choice(settings, dead_letters, places).of(box)
        ):
            say(*_letter_lines(letter, came, box.retried.get(letter.origin, ()), reader))
            if self.out is None:
                continue
            value = came.value or reader.whole(came).value
            if value is None:
                raise BadSettings(f"{came.place} has no value (null): cannot write {self.out}")
            with writing(self.out):  # after the claim was read: a refused one leaves no file
                self.out.write_bytes(value)
            say(f"{len(value):,} bytes to {self.out}")


@command(app, "retry")
class _RetryLetters(_ChosenLetters):
    """Send dead letters again, each once, to the topic that they came from.

    Key, value and headers are unchanged. The command marks in the dead-letter topic what it has
    sent: after an interruption, run it again to send the rest. If a record fails again, its new
    dead letter counts the attempts.

      stream-icd dlq retry --graph as733 --exception LimitExceeded --dry-run
      stream-icd dlq retry 0:7 'icd.snapshots.v1[3]@41'
    """

    places: list[str] | None = argument(_POSITION, default=None, metavar="POSITION")
    topic: _Topic = _SNAPSHOTS
    everything: bool = option(False, "All dead letters of the topic.", "--all")
    to_topic: str | None = option(None, "Topic to send them to. Default: where each came from.")
    again: bool = option(False, "Also send those that have been sent again before, once each.")
    rate: float | None = option(None, "Maximum rate, in records per second. Default: unlimited.")
    dry_run: bool = option(False, "Print what would be sent, and do nothing.")

    def run(self) -> None:
        from stream_icd.streaming.dead_letters.letters import parse_places

        if self.everything and self.places:
            raise BadSettings("give either positions, or --all")
        choices = self.everything, self.places, self.graph, self.exception, self.first, self.last
        if not any(choices):
            raise BadSettings(
                "choose dead letters: give positions, --graph, --exception, --from, --to, or --all"
            )
        dead_letters, places = parse_places(self.places or [], self.topic)
        settings = self.kafka()
        self.send(settings, self.choice(settings, dead_letters, places))

    def send(self, settings: KafkaSettings, choice: DeadLetterChoice) -> None:
        """Send the chosen dead letters again, and mark them; exit with 1 if some are too large."""
        import structlog

        from stream_icd.commands.programs.process import (
            INTERRUPTED,
            finish,
            progress_bar,
            stop_on_signals,
        )
        from stream_icd.core.log import configure_logging
        from stream_icd.kafka.messages.pacing import Tempo
        from stream_icd.streaming.dead_letters.box import (
            DeadLetterBox,
            ResendPlan,
            open_retry_sink,
        )

        configure_logging()
        topic = choice.part.topic
        planned = partial(ResendPlan.of, choice=choice, to=self.to_topic, again=self.again)
        if self.dry_run:
            say(*_plan_lines(planned(DeadLetterBox.read(settings, topic))), err=True)
            return
        tempo, stop = Tempo(rate=self.rate), stop_on_signals()
        # The sink first: from then on another retry commits nothing more, and what is read next
        # holds all of its marks.
        with closing(open_retry_sink(settings, topic)) as sink:
            box = DeadLetterBox.read(settings, topic, until="settled", stop=stop)
            if stop.is_set():  # what was read by then is not all
                raise typer.Exit(INTERRUPTED)
            plan = planned(box)
            say(*_plan_lines(plan), err=True)
            plan.check_targets(settings)  # a topic that is gone is named before anything is sent
            with progress_bar() as progress:
                task = progress.add_task("sent again", total=len(plan.records))
                advance = partial(progress.advance, task)
                done = plan.send(settings, sink, tempo, lambda: datetime.now(UTC), stop, advance)
        for place, reason in done.refused.items():
            structlog.get_logger().warning("not sent", place=place, reason=reason)
        refused = len(done.refused)
        remaining = len(plan.records) - done.sent - refused
        counts = {"sent": done.sent, "already": plan.already, "refused": refused, "left": remaining}
        finish(stop, bool(refused), **counts)


def _table_lines(records: Sequence[BadRecord]) -> Iterator[str]:
    cells = ([printable(cell(record)) for cell in _COLUMNS.values()] for record in records)
    rows = [list(_COLUMNS), *cells]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(map(str.ljust, row, widths)).rstrip()
    yield from _counts_lines(record.latest for record in records)
    again = sum(record.was_sent_again for record in records)
    yield f"{len(records):,} records dead-lettered, {again:,} of them sent again"


def _counts_lines(letters: Iterable[DeadLetter]) -> Iterator[str]:
    from stream_icd.streaming.dead_letters.box import UNKNOWN

    for name, count in Counter(letter.exception or UNKNOWN for letter in letters).most_common():
        yield f"{count:,} {printable(name)}"


def _json_lines(records: Sequence[BadRecord]) -> Iterator[str]:
    return (json.dumps(_document(record)) for record in records)


def _plan_lines(plan: ResendPlan) -> Iterator[str]:
    for target, count in sorted(plan.targets.items()):
        yield f"{count:,} records to {target}"
    yield from _counts_lines(record.latest for record, _ in plan.records)
    if plan.already:
        yield f"{plan.already:,} were sent again before and are passed over (--again sends them)"
    if not plan.records:
        yield "nothing to send"


def _letter_lines(
    letter: DeadLetter, came: Record, retried: Sequence[Retried], reader: MessageReader
) -> Iterator[str]:
    yield f"{letter.place}, dead-lettered {letter.at:%Y-%m-%d %X} UTC, time {letter.attempt}"
    yield f"came from {letter.came_from or 'an unknown place'}"
    yield f"because, at stage {letter.stage}: {letter.exception}: {letter.message}"
    for retry in retried:
        yield f"sent again to {retry.to}, {retry.at}"
    yield f"key: {shown(letter.key)}"
    for name, content in letter.headers:
        yield f"header {name}: {shown(content)}"
    for name, text in letter.added.items():
        yield f"header {name}: {text}"
    yield "value: null" if letter.size is None else f"value: {letter.size:,} bytes"
    yield f"today: {_verdict(came, reader)}"
    yield from _first_rows(came, reader)


def _document(record: BadRecord) -> dict[str, Any]:
    letter = record.latest
    return {
        "place": letter.place,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "at": letter.at.isoformat(),
        "came_from": letter.came_from,
        "origin": record.origin,
        "letters": [letter.place for letter in record.letters],
        "key": None if letter.key is None else shown(letter.key),
        "graph": letter.graph,
        "snapshot_id": letter.snapshot_id,
        "stage": letter.stage,
        "stages": list(record.stages),
        "exception": letter.exception,
        "message": letter.message,
        "attempt": letter.attempt,
        "bytes": letter.size,
        "headers": [[name, shown(content)] for name, content in letter.headers],
        "retried": [{"at": retry.at, "to": retry.to} for retry in record.retried],
    }


def _verdict(record: Record, reader: MessageReader) -> str:
    """Return whether it is a valid message with the current settings, or what is wrong."""
    from stream_icd.history.archiver import CODECS
    from stream_icd.wire.message import EVENT_TYPES

    decoders = {EVENT_TYPES[kind]: decode for kind, (decode, _) in CODECS.items()}
    kind = dict(record.headers).get("ce_type", b"").decode(errors="replace")
    try:
        reader.decoded(record, decoders.get(kind, CODECS["snapshots"][0]))
    except (BadInput, StoreUnreachable) as error:
        taken_for = "" if kind in decoders else " as a snapshot"  # it may be another program's
        return f"it cannot be read{taken_for}: {type(error).__name__}: {error}"
    return f"it can be read, as {kind}"


def _first_rows(record: Record, reader: MessageReader) -> Iterator[str]:
    """Yield columns and first rows of its value (or claimed value), if it is an Arrow stream."""
    from stream_icd.wire.arrow_stream import read_table
    from stream_icd.wire.message import refusing

    try:
        whole = reader.whole(record)
        table = read_table(whole.value or b"", None, reader.limits, BadInput)
        with refusing(BadInput, "its rows cannot be shown"):
            columns = [f"  {field.name}: {field.type}" for field in table.schema]
            rows = [f"  {row}" for row in table.slice(0, _SHOWN_ROWS).to_pylist()]
    except (BadInput, StoreUnreachable) as error:
        yield f"no table: {error}"
        return
    yield f"table of {table.num_rows:,} rows:"
    yield from columns
    yield from rows
