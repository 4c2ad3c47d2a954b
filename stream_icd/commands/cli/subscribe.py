"""`stream-icd subscribe`: receive communities, their events, or those of one node."""

from __future__ import annotations

import select
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from stream_icd.commands.programs.declared import command, option
from stream_icd.commands.programs.naming import GraphNames, naming_by
from stream_icd.commands.programs.options import BrokerOptions, OnlyGraph
from stream_icd.core.errors import BadSettings
from stream_icd.core.printable import did_you_mean, end_without_reader, listed, printable, say

if TYPE_CHECKING:
    from datetime import datetime

    from stream_icd.commands.cli.subscribe_shapes import Shape
    from stream_icd.kafka.settings import KafkaSettings
    from stream_icd.streaming.subscribers.subscription import SubscribeOptions, Subscription

app = typer.Typer()

_PATIENCE_S = 1.0
"""How long the reader of standard output may take, after Ctrl-C, for what is written to it."""


_EVENTS = "icd.events.v1"

_NO_TRACKER = (
    f"{_EVENTS} is empty: no tracker has published events. Run one: stream-icd consume track"
)


@command(app, "subscribe")
class _Subscribe(BrokerOptions):
    """Receive communities: one line per snapshot, until Ctrl-C or SIGTERM.

    With --format json, each line is a complete result, with all nodes and their communities:

      stream-icd subscribe --from beginning --format json | jq '.n_communities'

    With --format arrow, standard output is one Arrow IPC stream, one row per node:

      stream-icd subscribe --from beginning --until end --format arrow > c.arrows

    With --format parquet, results are written to one file or to a folder:

      stream-icd subscribe --until end --format parquet --out c.parquet

    If `stream-icd consume track` runs, communities have stable ids and lifecycle events. Follow
    all events, mergers and splits only, one community, or one node:

      stream-icd subscribe --events --graph as733
      stream-icd subscribe --event merged --event split
      stream-icd subscribe --event merged --least-bits 20 --confirmed 3
      stream-icd subscribe --community 12 --from beginning
      stream-icd subscribe --graph as733 --node 701
      stream-icd subscribe --graph as733 --node 701 --members

    With a table of attributes of the nodes, communities are named by what is over-represented
    among their members, such as a country:

      stream-icd subscribe --events --graph as733 --names countries.csv

    Missing windows are reported on standard error.
    """

    graph: OnlyGraph = None
    events: bool = option(False, "Receive lifecycle events (icd.events.v1).")
    event: list[str] | None = option(
        None,
        "Only this kind: born, grown, shrunk, merged, split, continued, died, returned. May be "
        "repeated. Default: all; lines for people leave out continued and returned.",
    )
    community: int | None = option(None, "Only events of the community with this stable id.")
    least_bits: float | None = option(
        None,
        "Only events of at least this strength: the bits by which the edges of the window are "
        "described worse without the event. Default: all; lines for people leave out events below "
        "0, against which the edges speak.",
    )
    confirmed: int | None = option(
        None,
        "Only events that have lasted for this number of windows, and so many windows later, such "
        "as 3. Not with --group.",
        min=1,
    )
    node: str | None = option(None, "Report when this node, such as 701, changes community.")
    members: bool = option(False, "With --community or --node: show the members of the community.")
    model: str | None = option(None, "Only results of this model: a name (lfr) or a version.")
    revisions: Literal["newest", "all"] = option(
        "newest", "Past results that were corrected: return the newest revision only, or all."
    )
    start: str | None = option(
        None,
        "Start at beginning, at latest, or at a time such as 2026-01-31T12:00:00Z. Default: "
        "latest, or the position of --group; with --until end: beginning.",
        "--from",
    )
    until: Literal["forever", "end"] = option(
        "forever", "end: stop after the results that the topic holds now."
    )
    limit: int | None = option(None, "Stop after this number of results.", min=1)
    group: str | None = option(
        None,
        "Consumer group: its members share the results, and a restarted one continues. Filters "
        "are added to its name, such as GROUP-as733 with --graph as733. Default: no group; each "
        "subscriber gets all results.",
    )
    format: Literal["table", "json", "csv", "arrow", "parquet"] = option(
        "table",
        "table: for people; json: JSON lines; csv: for spreadsheets; arrow: an Arrow stream; "
        "parquet: files, see --out.",
    )
    out: Path | None = option(
        None,
        "With --format parquet: FILE.parquet, complete when the stream ends, or a folder with one "
        "file per result, which --group needs.",
    )
    names: GraphNames = None

    @property
    def is_filtered(self) -> bool:
        filters = self.event or None, self.community, self.least_bits, self.confirmed
        return any(value is not None for value in filters)

    def check(self) -> None:
        if self.node is not None and self.is_filtered:
            raise BadSettings(
                "--node reports all events of one node: leave out --event, --community, "
                "--least-bits and --confirmed"
            )
        if self.members and self.node is None and self.community is None:
            raise BadSettings("--members shows one community: name it with --community or --node")

    def subscription(
        self, settings: KafkaSettings, topic: str
    ) -> tuple[Subscription[Any], Shape[Any]]:
        """Subscribe; return what arrives, and how it is shown."""
        from stream_icd.commands.cli.subscribe_shapes import shape_of
        from stream_icd.methods.tracking.confirmation import MOST_WAITING, followed
        from stream_icd.streaming.subscribers import subscribe as following

        naming, of_one_graph = naming_by(self.names, self.graph), self.graph is not None
        shape = partial(shape_of, naming=naming, of_one_graph=of_one_graph)
        options: SubscribeOptions = {
            "model": self.model,
            "revisions": self.revisions,
            "start": None if self.start is None else _parse_start(self.start),
            "until": self.until,
            "limit": self.limit,
            "group": self.group,
            "settings": settings,
            "on_gap": lambda gap: say(str(gap), err=True),
        }
        if self.node is not None:
            kind: Literal["members", "node"] = "members" if self.members else "node"
            return following.subscribe_node(self.node, self.graph, **options), shape(kind)
        if topic == _EVENTS:
            # Lines for people say how long past events have lasted; the newest ones come at once.
            waiting = MOST_WAITING if self.until == "end" else 0
            subscription = following.following_events(
                partial(followed, waiting=waiting) if self.format == "table" else iter,
                self.graph,
                self.community,
                self.event or None,
                self.least_bits,
                self.confirmed,
                options,
            )
            left_out = () if self.event else ("continued", "returned")
            if self.members:
                return subscription, shape("members", community=self.community)
            supported = 0.0 if self.least_bits is None else self.least_bits
            return subscription, shape("events", left_out=left_out, least_bits=supported)
        return following.subscribe(self.graph, **options), shape("communities")

    def run(self) -> None:
        from stream_icd.commands.cli.subscribe_formats import writer_of
        from stream_icd.core.imports import without_pandas
        from stream_icd.kafka.topics import COMMUNITIES
        from stream_icd.kafka.tracing import traces_of

        without_pandas()
        self.check()
        write = writer_of(self.format, self.out, self.group)
        settings = self.kafka(check=False)
        topic = _EVENTS if self.node is not None or self.events or self.is_filtered else COMMUNITIES
        subscription, shape = self.subscription(settings, topic)
        shown = 0

        def counted() -> Iterator[Any]:
            nonlocal shown
            for result in subscription:
                shown += 1
                yield result

        self.kafka()  # a broker that is not there is said before anything waits
        # After the broker has answered: from here on, an end of the program is no error.
        _when_reader_leaves(subscription.close)
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: files are finished
        try:
            if self.until == "forever" and topic == _EVENTS:
                _warn_of_no_tracker(settings)  # before the wait, which says nothing
            with traces_of("subscribe"):
                write(counted(), shape)
            # Afterwards, since it reads the topic once more: only who got nothing pays for that.
            if self.until == "end" and not shown:
                refuse_nothing(settings, topic, self.graph, self.model)
                say(f"no result: nothing in {topic} matches", err=True)
        except (KeyboardInterrupt, BrokenPipeError):
            # Ctrl-C, SIGTERM, or `| head`: the reader has seen enough.
            _let_reader_finish()
            raise typer.Exit(0) from None
        finally:
            subscription.close()


def _let_reader_finish(patience_s: float = _PATIENCE_S) -> None:
    """Write what is buffered; end the program if nobody takes it, or at a further signal."""
    for number in (signal.SIGALRM, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: end_without_reader())
    signal.setitimer(signal.ITIMER_REAL, patience_s)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        end_without_reader()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _when_reader_leaves(call: Callable[[], None]) -> None:
    """Call, from a thread, once nobody reads standard output: what waits may never write again."""
    try:
        output = sys.stdout.fileno()
    except (AttributeError, OSError):  # there is none, or it is no file of the system's
        return

    def watch() -> None:
        ends = select.poll()
        ends.register(output, 0)  # 0: the end is reported without being asked for
        ends.poll()
        call()

    threading.Thread(target=watch, name="reader", daemon=True).start()


def _parse_start(text: str) -> Literal["beginning", "latest"] | datetime:
    from stream_icd.core.times import time_of_option

    if text == "beginning":
        return "beginning"
    if text == "latest":
        return "latest"
    forms = "beginning, latest, or a time such as 2026-01-31T12:00:00Z"
    return time_of_option("--from", text, forms)


def _warn_of_no_tracker(settings: KafkaSettings) -> None:
    from stream_icd.kafka.reader import open_reader

    with open_reader(settings, _EVENTS, until="end", limit=1) as records:
        if next(iter(records), None) is None:
            say(f"{_NO_TRACKER}; waiting for one", err=True)


def refuse_nothing(
    settings: KafkaSettings, topic: str, graph: str | None, model: str | None = None
) -> None:
    """Raise `BadSettings` if no tracker has published, or only other graphs or models are there."""
    from stream_icd.kafka.reader import open_reader

    if graph is None and model is None and topic != _EVENTS:
        return
    with open_reader(settings, topic, until="end") as records:
        published = {
            (record.key_text, dict(record.headers).get("icd_model", b""))
            for record in records
            if record.value is not None  # which starts a graph anew, even one that is not there
        }
    if not published and topic == _EVENTS:
        raise BadSettings(_NO_TRACKER)
    graphs = {name for name, _ in published}
    if graph is not None and graph not in graphs:
        raise _other("graph", graph, topic, graphs)
    versions = {version.decode(errors="replace") for _, version in published if version}
    names = {version.rpartition("@")[0] for version in versions}
    if model is not None and model not in names | versions:
        raise _other("model", model, topic, versions)


def _other(kind: str, name: str, topic: str, names: Collection[str]) -> BadSettings:
    content = f"it holds {listed(sorted(names))}{did_you_mean(name, names)}"
    if not names:
        content = "it is empty: what publishes there is still at its first window, or does not run"
    return BadSettings(printable(f"{topic} holds nothing of {kind} {name}; {content}"))
