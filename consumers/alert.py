"""`stream-icd consume alert`: tell people and programs of events that rules ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from stream_icd import programs
from stream_icd.commands.programs.declared import command, option
from stream_icd.commands.programs.naming import GraphNames, naming_by
from stream_icd.commands.programs.options import DeliveryOption, WorkerOptions
from stream_icd.core.errors import BadSettings
from stream_icd.core.printable import printable, say

if TYPE_CHECKING:
    from datetime import datetime

    from stream_icd.core.events import CommunityEvents
    from stream_icd.kafka.settings import KafkaSettings
    from stream_icd.methods.names.names import Naming
    from stream_icd.methods.tracking.alerts import Alerting
    from stream_icd.streaming.workers.step import BatchStep

app = typer.Typer()

TOPIC = "kafka:"


@command(app, "alert")
class Alert(WorkerOptions):
    """Send alerts: read icd.events.v1, apply rules, write icd.alerts.v1, call webhooks.

    A rule is a condition on an event, or on a node that moved to another community:

      --rule 'merged and bits >= 20 and size >= 50'
      --rule '(born or split) and graph = as733 and not size < 10'
      --rule 'node in watch.csv and moved'
      --rule 'died and name contains RU'

    Words: and, or, not, brackets; born, grown, shrunk, merged, split, continued, died, returned,
    moved; bits, size, size_before, overlap, away, parents, children with = != < <= > >=; graph and
    name with = != contains; community and node with = !=; node in FILE.

    See first how often rules would have fired, in the events topic or in an archive:

      stream-icd consume alert --rule 'merged and bits >= 20' --dry-run
      stream-icd consume alert --rule split --dry-run --history history/

    Then send: CloudEvents over HTTP, signed with STREAM_ICD_ALERTS_SECRET, or lines to Slack. Only
    events that held for three more windows:

      stream-icd consume alert --rule merged --to https://example.org/hook
      stream-icd consume alert --rule split --to slack:@/run/hook --confirmed 3

    Each event is one alert in the topic, however often the worker restarts. Each group (--group)
    has rules of its own. Without --to, alerts are in the topic only.
    """

    rule: list[str] | None = option(None, "Condition; may be repeated: any of them fires.")
    to: list[str] | None = option(
        None,
        "Receiver: https://HOST/PATH, slack:https://HOST/PATH, or @FILE or slack:@FILE with a file "
        "that holds the address; may be repeated. kafka:TOPIC: the topic of alerts, instead of "
        "icd.alerts.v1.",
    )
    confirmed: int = option(
        0,
        "Only events that have held for this number of later windows, and so many windows later.",
        min=0,
        max=100,
    )
    names: GraphNames = None
    oldest: str = option(
        "1d", "No alerts of events that the tracker published longer ago than this."
    )
    retry_for: str = option(
        "1h",
        "How long alerts wait for a receiver that does not answer; then they become dead letters.",
    )
    dry_run: bool = option(False, "Say how often each rule would have fired, and send nothing.")
    history: str | None = option(
        None, "With --dry-run: read this archive instead of the topic.", metavar="ARCHIVE"
    )
    delivery: DeliveryOption = "auto"
    batch: int = option(16, "Maximum number of windows processed together.", min=1)

    def alerting(self, naming: Naming | None = None) -> Alerting:
        """Return the rules; raise `BadSettings` if one is wrong."""
        from stream_icd.methods.tracking.alerts import Alerting
        from stream_icd.methods.tracking.rules import Rule
        from stream_icd.sources.node_tables import read_nodes

        if not self.rule:
            raise BadSettings("give at least one --rule, such as 'merged and bits >= 20'")
        rules = [Rule.parse(text, read_nodes) for text in self.rule]
        of_nodes = {} if naming is None else {"names": naming.of_events}
        return Alerting(rules, self.confirmed, self.group_of("alert"), **of_nodes)

    def topic(self) -> str:
        from stream_icd.kafka.topics import ALERTS, check_topic_for

        named = [to.removeprefix(TOPIC) for to in self.to or () if to.startswith(TOPIC)]
        if len(named) > 1:
            raise BadSettings(f"--to {TOPIC}{named[1]}: there is one topic of alerts")
        for name in named:
            check_topic_for(name, ALERTS)
        return named[0] if named else ALERTS

    def run(self) -> None:
        if self.history is not None and not self.dry_run:
            raise BadSettings("--history is for --dry-run: add that, or leave it out")
        if self.dry_run:
            self.alerting()  # a wrong rule is said before anything is read
            alerting = self.alerting(naming_by(self.names, self.graph))
            settings = None if self.history else self.kafka()
            _say_past_alerts(alerting, settings, self.history, self.graph)
            return
        self._work()

    def _work(self) -> None:
        from stream_icd.core.times import parse_duration, parse_wait
        from stream_icd.kafka.topics import EVENTS
        from stream_icd.streaming.workers.alert import Alerts
        from stream_icd.streaming.workers.deliver import AlertSettings, Deliver

        self.alerting()
        topic = self.topic()
        addresses = [to for to in self.to or () if not to.startswith(TOPIC)]
        receivers = AlertSettings().receivers(addresses)
        oldest, retry_for_s = parse_duration(self.oldest), parse_wait("--retry-for", self.retry_for)

        def steps(run: programs.WorkerRun) -> dict[str, BatchStep]:
            alerting = self.alerting(naming_by(self.names, self.graph))
            alerts = Alerts(run.settings, alerting, oldest, self.graph, out=topic)
            if not receivers:
                return {EVENTS: alerts}
            return {EVENTS: alerts, topic: Deliver(alerting.group, receivers, retry_for_s)}

        programs.run_worker(
            steps,
            self,
            "alert",
            delivery=self.delivery,
            batch=self.batch,
            group_by_topic=True,
            to=[topic, *(receiver.name for receiver in receivers)],
        )


def _say_past_alerts(
    alerting: Alerting, settings: KafkaSettings | None, history: str | None, graph: str | None
) -> None:
    """Print each alert that the rules would have caused, and how often each rule would have fired.

    Raises as reading the topic does, or the archive if `history` is given.
    """
    from stream_icd.methods.tracking.sentences import told
    from stream_icd.streaming.workers.alert import past_alerts

    first: datetime | None = None
    n_windows, fired = 0, Counter[str]()
    windows = _in_topic(settings, graph) if history is None else _in_archive(history, graph)
    for window, alerts in past_alerts(alerting, windows):
        start, n_windows = window.window.start, n_windows + 1
        first = start if first is None else min(first, start)
        for alert in alerts:
            fired.update(alert.rules)
            graph = f"{printable(alert.graph):<12}"
            say(f"{told(alert.window_start)}  {graph} {alert.event:<9} {alert.text}")
    for rule in alerting.rules:
        times = "once" if fired[rule.text] == 1 else f"{fired[rule.text]:,} times"
        since = "" if first is None else f" since {told(first)}"
        of = "1 window" if n_windows == 1 else f"{n_windows:,} windows"
        say(f"{rule.text}: would have fired {times}{since}, in {of}")


def _in_topic(settings: KafkaSettings | None, graph: str | None) -> Iterator[CommunityEvents]:
    from stream_icd.streaming.subscribers.subscribe import subscribe_events

    return subscribe_events(graph, until="end", settings=settings, on_gap=lambda _: None)


def _in_archive(history: str, graph: str | None) -> Iterator[CommunityEvents]:
    from stream_icd.core.store.store import open_store
    from stream_icd.history.archive import Archive, Selection
    from stream_icd.wire.events import decode_events
    from stream_icd.wire.limits import Limits

    store, selection, limits = open_store(history), Selection("events", graph), Limits()
    chosen = list(Archive(store).windows(selection))
    if not chosen:
        raise Archive(store).nothing_selected(selection)
    for noted in chosen:
        message = Archive(store).read_message(noted)
        yield decode_events(message.key, message.value, message.headers, limits)
