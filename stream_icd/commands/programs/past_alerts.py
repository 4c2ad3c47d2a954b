"""What rules of alerts would have said of the past: of the events topic, or of an archive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from stream_icd.core.printable import printable, say

if TYPE_CHECKING:
    from stream_icd.core.events import CommunityEvents
    from stream_icd.kafka.settings import KafkaSettings
    from stream_icd.methods.tracking.alerts import Alerting
    from stream_icd.wire.alerts import Alert


def say_past_alerts(
    alerting: Alerting, settings: KafkaSettings | None, history: str | None, graph: str | None
) -> None:
    """Print each alert that the rules would have caused, and how often each rule would have fired.

    Raises as reading the topic does, or the archive if `history` is given.
    """
    from stream_icd.methods.tracking.sentences import told

    first: datetime | None = None
    n_windows, fired = 0, Counter[str]()
    windows = _in_topic(settings, graph) if history is None else _in_archive(history, graph)
    for window, alerts in _alerts(alerting, windows):
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


def _alerts(
    alerting: Alerting, windows: Iterator[CommunityEvents]
) -> Iterator[tuple[CommunityEvents, list[Alert]]]:
    """Yield each window that is not late or repeated, and its alerts, each once."""
    from stream_icd.streaming.workers.alert import PublishedAlerts, with_window
    from stream_icd.streaming.workers.recent_windows import Recent, Unpacked

    published, unpacked = PublishedAlerts(), Unpacked()
    graphs: dict[str, Recent] = {}
    for window in windows:
        recent = with_window(graphs.get(window.graph, ()), window, alerting.windows)
        if recent is not None:
            graphs[window.graph] = recent
            alerts = alerting.alerts(unpacked.all(recent))
            yield window, [alert for alert in alerts if published.is_new(alert.id)]


def _in_topic(settings: KafkaSettings | None, graph: str | None) -> Iterator[CommunityEvents]:
    from stream_icd.streaming.subscribers.subscribe import subscribe_events

    return subscribe_events(graph, until="end", settings=settings, on_gap=lambda _: None)


def _in_archive(history: str, graph: str | None) -> Iterator[CommunityEvents]:
    from stream_icd.core.store.store import open_store
    from stream_icd.history.archive import Selection, nothing_selected, read_message, windows
    from stream_icd.wire.events import decode_events
    from stream_icd.wire.limits import Limits

    store, selection, limits = open_store(history), Selection("events", graph), Limits()
    chosen = list(windows(store, selection))
    if not chosen:
        raise nothing_selected(store, selection)
    for noted in chosen:
        message = read_message(store, noted)
        yield decode_events(message.key, message.value, message.headers, limits)
