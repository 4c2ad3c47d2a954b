"""What the page's tests look at: windows with drifting communities, and a page that serves them."""

from __future__ import annotations

import gzip
import http.client
import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import combinations, pairwise
from typing import Any
from urllib.parse import urlencode, urlsplit

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_icd.core.coordinates import DEGREES, Coordinates
from stream_icd.core.events import CommunityEvents
from stream_icd.core.snapshot import Snapshot, snapshot_from_pairs
from stream_icd.interfaces.view.data.all_series import AllSeries
from stream_icd.interfaces.view.data.series import SeenWindow, SeriesName
from stream_icd.interfaces.view.feeds.sources import NoGraph, Sources
from stream_icd.interfaces.view.panels.queries import Queries
from stream_icd.interfaces.view.web.app import View
from stream_icd.interfaces.view.web.serve import Access, PageServer
from stream_icd.methods.names.attributes import attributes_of
from stream_icd.methods.names.names import Naming
from stream_icd.streaming.dead_letters.letters import DeadLetter
from tests.testbed.windows import START, follow, window

ORIGIN = "topic"


def drifting(n: int, nodes: int = 60, k: int = 4, seed: int = 0) -> Iterator[NDArray[np.int32]]:
    """Labels of n windows in which a few nodes move each time."""
    rng = np.random.default_rng(seed)
    labels = np.arange(nodes, dtype=np.int32) % k
    for _ in range(n):
        yield labels
        labels = labels.copy()
        labels[rng.integers(k, nodes, 3)] = rng.integers(0, k, 3)


def seen(
    labels: int | Iterable[object] = 6,
    graph: str = "g",
    *,
    names: Any = None,
    model: str = "m@1",
    origin: str = ORIGIN,
    first: int = 0,
    to: AllSeries | None = None,
    **fields: Any,
) -> AllSeries:
    """All series after windows of one graph, an hour each: so many drifting ones, or with these.

    fields: what else the results say.
    """
    everything = AllSeries() if to is None else to
    given = drifting(labels) if isinstance(labels, int) else labels
    for hour, found in enumerate(given, first):
        result = window(hour, found, names, model, graph=graph)
        everything.add(replace(result, **fields), origin)
    return everything


def named(values: Sequence[str], attribute: str = "class", graph: str | None = None) -> AllSeries:
    """No series yet; the nodes 0, 1, 2, … of the graph, or of any, have these values."""
    table = attributes_of(pa.array(range(len(values))), {attribute: values})
    return AllSeries(naming=Naming({graph: table}))


@dataclass(frozen=True)
class Cliques:
    """Every community of a window is a clique, and each is joined to the next one by an edge.

    The graphs of windows before the number `kept_from` are gone.
    """

    kept_from: int = 0

    def read(self, one: SeenWindow) -> Snapshot:
        if one.number < self.kept_from:
            raise NoGraph("the topic no longer holds the snapshot")
        tracked = one.tracked()
        communities = [np.flatnonzero(tracked.communities == id).tolist() for id in one.ids]
        pairs = list(pairwise(members[0] for members in communities))
        for members in communities:
            pairs += combinations(members, 2)
        src, dst = (tracked.nodes.take(pa.array(ends)) for ends in zip(*pairs, strict=True))
        result = one.result
        return snapshot_from_pairs(
            src, dst, graph=result.graph, id=result.snapshot_id, window=result.window
        )


class Placed(Cliques):
    """The same graphs; the nodes of each community lie on a street of Beijing, but for the last."""

    def read(self, one: SeenWindow) -> Snapshot:
        snapshot = super().read(one)
        ids = one.tracked().communities
        x, y = 116.3 + 0.1 * ids, 39.9 + 0.001 * np.arange(len(ids))
        x[-1] = y[-1] = np.nan
        return replace(snapshot, coordinates=Coordinates(x, y, DEGREES))


NOWHERE = Cliques(kept_from=99)
"""No graph is available."""


@dataclass(slots=True)
class Given(Sources):
    """Graphs, and what the page is told of topics; the fields can be changed while it is open."""

    graphs: Any
    archive: bool
    trouble: dict[str, str] = field(default_factory=dict)
    waiting: int | None = None
    there: bool = False
    sent: datetime | None = None
    read: bool = True

    def read_snapshot(self, _: SeriesName, window: SeenWindow) -> Snapshot:
        return self.graphs.read(window)

    def troubles(self) -> dict[str, str]:
        return self.trouble

    def lag(self) -> int | None:
        return self.waiting

    def snapshots_there(self) -> bool:
        return self.there

    def latest(self) -> datetime | None:
        return self.sent

    def caught_up(self) -> bool:
        return self.read


def queries(everything: AllSeries, snapshots: Any = None, *, archive: bool = False) -> Queries:
    return Queries(everything, Given(snapshots or Cliques(), archive))


def name(graph: str = "g", model: str = "", origin: str = ORIGIN) -> SeriesName:
    return SeriesName(graph, model, origin)


@contextmanager
def serving(view: View, access: Access | None = None, port: int = 0) -> Iterator[str]:
    """Serve a page from a thread; give its address."""
    host = "127.0.0.1"
    server = PageServer(view, access or Access.at(host), host, port)
    thread = threading.Thread(target=server.serve_page, name="view server", daemon=True)
    thread.start()
    try:
        yield server.address
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def page_of(
    everything: AllSeries,
    access: Access | None = None,
    snapshots: Any = None,
    *,
    archive: bool = False,
) -> Iterator[tuple[View, str]]:
    """Serve a page; give it and its address."""
    view = View(queries(everything, snapshots, archive=archive))
    with serving(view, access) as place:
        yield view, place


class Answer:
    """A response, with its body decompressed."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        body = response.read()
        self.status = response.status
        self.headers = {key.lower(): value for key, value in response.getheaders()}
        self.cookies = [v for k, v in response.getheaders() if k.lower() == "set-cookie"]
        self.body = gzip.decompress(body) if self.headers.get("content-encoding") else body

    def json(self) -> Any:
        return json.loads(self.body)


def get(
    address: str,
    path: str = "/",
    parameters: dict[str, str] | None = None,
    method: str = "GET",
    headers: dict[str, str] | None = None,
    timeout: float = 20,
) -> Answer:
    place = urlsplit(address)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=timeout)
    try:
        query = f"?{urlencode(parameters)}" if parameters else ""
        connection.request(method, f"{path}{query}", headers=headers or {})
        return Answer(connection.getresponse())
    finally:
        connection.close()


def letter(graph: str, offset: int, at: datetime = START, message: str = "no edge") -> DeadLetter:
    """A dead letter of a snapshot."""
    ms = int(at.timestamp() * 1000)
    added = {
        "icd_dlq_stage": "decode",
        "icd_dlq_exception": "BadSnapshot",
        "icd_dlq_message": message,
    }
    return DeadLetter("t.dlq", 0, offset, ms, graph.encode(), None, (), added)


def tracked_elsewhere(n: int) -> tuple[list, list[CommunityEvents]]:
    """Results, and what a tracker says that knew communities 0 to 99 before."""
    found = [window(hour, labels) for hour, labels in enumerate(drifting(n))]
    shifted = [
        replace(
            events,
            communities=events.communities + 100,
            events=tuple(replace(e, community=e.community + 100) for e in events.events),
            next_community=events.next_community + 100,
        )
        for events in follow(found)
    ]
    return found, shifted
