"""The archive as a producer's source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from stream_icd.communities import Labels
from stream_icd.history.archive import Selection, read_message, read_snapshot, windows
from stream_icd.history.nothing import nothing_selected
from stream_icd.history.parquet import ArchivedWindow
from stream_icd.pipeline.pacing import Tempo, paced
from stream_icd.pipeline.sent_before import SentBefore
from stream_icd.sources.source import Source
from stream_icd.store import Store
from stream_icd.wire.communities import decode_labels
from stream_icd.wire.limits import Limits


def archived_source(
    store: Store,
    selection: Selection,
    tempo: Tempo,
    monotonic: Callable[[], float],
    sleep: Callable[[float], object],
    already: SentBefore,
) -> Source:
    """Archived snapshots in the order of their windows, with the labels that were kept of them.

    Args:
        tempo: when each is given; nobody waits for those that are sent `already`.

    Raises:
        SourceNotFound, BadSettings: there are none; the message says why.
        HistoryDamaged: a file cannot be read.
    """
    chosen = list(windows(store, selection))
    if not chosen:
        raise nothing_selected(store, selection)
    known = {
        (noted.partition.graph, noted.identity.snapshot_id): noted
        for noted in windows(store, replace(selection, kind="labels"))
    }
    limits = Limits()
    snapshots = paced(
        (read_snapshot(store, noted, limits) for noted in chosen),
        lambda snapshot: snapshot.window.end,
        tempo,
        monotonic,
        sleep,
        at_once=lambda snapshot: snapshot in already,
    )
    return Source(
        len(chosen),
        ((one, _labels(store, known.get((one.graph, one.id)), limits)) for one in snapshots),
    )


def _labels(store: Store, noted: ArchivedWindow | None, limits: Limits) -> Labels | None:
    if noted is None:
        return None
    message = read_message(store, noted)
    return decode_labels(message.key, message.value, message.headers, limits)
