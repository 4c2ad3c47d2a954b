"""The graphs of windows, read when a map is requested: the page keeps no edges."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from stream_icd.errors import OffsetGone, StreamIcdError
from stream_icd.history.archive import Selection, read_snapshot, windows
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.messages.reader import MessageReader
from stream_icd.snapshot import Snapshot
from stream_icd.store.store import Store
from stream_icd.view.data.series import SeriesName
from stream_icd.view.data.window import SeenWindow
from stream_icd.wire.snapshots import decode_snapshot

KEPT_PARTS = 12_000_000
"""Nodes and edges of the snapshots in memory, at most: some 300 MB."""
_PLACE = re.compile(r"(\d{1,5})@(\d{1,18})", re.ASCII)


class NoGraph(StreamIcdError):
    """The graph of a window is not available; the message says why."""


def place_in_topic(snapshot_place: str) -> tuple[int, int] | None:
    """Return partition and offset of a snapshot, as results name them; None if one does not."""
    place = _PLACE.fullmatch(snapshot_place)
    return None if place is None else (int(place[1]), int(place[2]))


def read_from_topic(
    settings: KafkaSettings, topic: str, reader: MessageReader, one: SeenWindow
) -> Snapshot:
    """Return the graph of a window from the place in a topic that its result names.

    Raises:
        StreamIcdError: it is not available, such as `NoGraph`.
    """
    place = place_in_topic(one.result.snapshot_place)
    if place is None:
        raise NoGraph("the result does not say where its snapshot is")
    partition, offset = place
    try:
        with open_reader(
            settings, topic, {partition: offset}, "end", limit=1, only={partition}
        ) as records:
            record = next(iter(records), None)
    except OffsetGone as error:
        raise NoGraph("the topic no longer holds the snapshot") from error
    if record is None or record.offset != offset:
        raise NoGraph("the topic does not hold the snapshot")
    return _checked(reader.decoded(record, decode_snapshot), one)


def read_from_archive(store: Store, one: SeenWindow) -> Snapshot:
    """Return the graph of a window from an archive.

    Raises:
        StreamIcdError: it is not available, such as `NoGraph`.
    """
    start = one.result.window.start
    for noted in windows(store, Selection(graph=one.result.graph, start=start)):
        if noted.identity.snapshot_id == one.result.snapshot_id:
            return _checked(read_snapshot(store, noted), one)
        if noted.window.start > start:
            break
    raise NoGraph("the archive does not hold the snapshot")


def _checked(snapshot: Snapshot, one: SeenWindow) -> Snapshot:
    if (snapshot.graph, snapshot.id) != (one.result.graph, one.result.snapshot_id):
        raise NoGraph("the topic holds another snapshot there: it was created anew")
    return snapshot


@dataclass(slots=True)
class KeptSnapshots:
    """The graphs that were read last, within `KEPT_PARTS`; one is read at a time.

    Attributes:
        source: reads the graph of a window of a series.
    """

    source: Callable[[SeriesName, SeenWindow], Snapshot]
    _kept: OrderedDict[tuple[str, ...], Snapshot] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, name: SeriesName, one: SeenWindow) -> Snapshot:
        """Return the graph.

        Raises:
            StreamIcdError: it is not available, such as `NoGraph`.
        """
        with self._lock:
            identity = (name.origin, *one.result.identity())
            found = self._kept.get(identity) or self.source(name, one)
            self._kept[identity] = found
            self._kept.move_to_end(identity)
            while len(self._kept) > 1 and self._parts() > KEPT_PARTS:
                self._kept.popitem(last=False)
            return found

    def _parts(self) -> int:
        return sum(snapshot.n_nodes + snapshot.n_edges for snapshot in self._kept.values())
