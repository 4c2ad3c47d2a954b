"""From topics and archives to a tab: what comes is seen once, and what fails heals by itself."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, replace
from datetime import UTC, date, datetime
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from typer.testing import CliRunner

from stream_icd import memory_broker
from stream_icd.commands.cli.main import app
from stream_icd.core.communities import Communities, Labels
from stream_icd.core.errors import BadSnapshot, StoreUnreachable
from stream_icd.core.snapshot import Snapshot
from stream_icd.core.store.store import Store, open_store
from stream_icd.history import archive
from stream_icd.history.archive import Archive
from stream_icd.history.compaction import compact_archive
from stream_icd.interfaces.view.data.all_series import AllSeries, News
from stream_icd.interfaces.view.feeds import archives
from stream_icd.interfaces.view.feeds.archives import Archives
from stream_icd.interfaces.view.feeds.live import Live, Topics, _SnapshotLag
from stream_icd.interfaces.view.panels.queries import Queries
from stream_icd.interfaces.view.web.app import View
from stream_icd.kafka.connect import connect
from stream_icd.kafka.messages.records import outgoing
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import create_topics
from stream_icd.streaming.dead_letters.letters import dead_letter
from stream_icd.wire.announcements import Announcement, encode_announcement
from stream_icd.wire.communities import encode_communities, encode_labels
from stream_icd.wire.events import encode_events
from stream_icd.wire.snapshots import encode_snapshot
from tests.interfaces.view.windows import drifting, get, serving, tracked_elsewhere
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.streams import publish
from tests.testbed.windows import HOUR, START, window

pytestmark = pytest.mark.brokers("memory")


@pytest.fixture
def topics(broker: Broker, topic_name: str) -> Topics:
    parts = ("found", "events", "labels", "snaps", "models")
    names = Topics(*(f"{topic_name}.{part}" for part in parts))
    dead_letters = TopicSpec(names.snapshots).with_dead_letters()[1:]
    create_topics(broker.settings(), [*map(TopicSpec, astuple(names)), *dead_letters])
    return names


@contextmanager
def viewed(broker: Broker, topics: Topics, **options: Any) -> Iterator[tuple[AllSeries, str]]:
    """A page over these topics: what it has seen, and its address."""
    seen = AllSeries()
    sources = Live(broker.settings(), topics, seen, **options)
    view = View(Queries(seen, sources))
    with serving(view) as address, sources.reading(view.publish):
        yield seen, address


WINDOWS = [window(hour, labels) for hour, labels in enumerate(drifting(5))]


def results(topics: Topics, found: Iterable[Communities]) -> list[OutgoingRecord]:
    return [outgoing(topics.communities, encode_communities(one)) for one in found]


def kept(seen: AllSeries) -> int:
    return sum(summary.kept for summary in seen.summaries())


def listened(address: str) -> list[tuple[str, Any]]:
    """Open a tab; its list of server-sent events grows until the server ends."""
    place = urlsplit(address)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=20)
    connection.request("GET", "/api/stream", headers={"Connection": "close"})
    response = connection.getresponse()
    assert response.getheader("content-type", "").startswith("text/event-stream")
    got: list[tuple[str, Any]] = []

    def read() -> None:
        kind = ""
        for line in iter(response.readline, b""):
            field, _, value = line.decode().strip("\r\n").partition(": ")
            if field == "event":
                kind = value
            elif field == "data":
                got.append((kind, json.loads(value)))

    threading.Thread(target=read, daemon=True).start()
    return got


def test_what_the_topic_held_and_what_comes_later_is_seen(broker: Broker, topics: Topics) -> None:
    publish(broker, results(topics, WINDOWS[:3]))
    with viewed(broker, topics) as (seen, address):
        wait_until(lambda: kept(seen) == 3)
        got = listened(address)
        wait_until(lambda: bool(got))
        publish(broker, results(topics, WINDOWS[3:]))
        wait_until(lambda: got[-1][1].get("number") == 4)
        assert [kind for kind, _ in got] == ["hello"] + ["window"] * (len(got) - 1)
        wait_until(lambda: get(address, "/api/overview").json()["caught_up"])
        # A window that is kept while the tab connects may be told as well: its news come after.
        assert [row["number"] for _, row in got[1:]] in ([3, 4], [2, 3, 4])
        life = get(address, "/api/life").json()["columns"]
        assert life["number"] == [0, 1, 2, 3, 4]
        assert {key: life[key][4] for key in got[-1][1]} == got[-1][1]


@pytest.mark.brokers("mortal_kafka")
def test_the_page_goes_on_after_a_restart_of_the_broker(broker: Broker, topics: Topics) -> None:
    publish(broker, results(topics, WINDOWS[:2]))
    with viewed(broker, topics) as (seen, address):
        wait_until(lambda: kept(seen) == 2)
        got = listened(address)
        broker.node.kill()
        broker.node.start()
        publish(broker, results(topics, WINDOWS[2:3]))
        wait_until(lambda: any(kind == "window" for kind, _ in got))
        assert get(address, "/api/life").json()["columns"]["number"] == [0, 1, 2]


@pytest.fixture
def no_broker() -> Iterator[KafkaSettings]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        yield KafkaSettings(bootstrap_servers=address, connect_timeout_s=0.5)


def test_the_command_says_where_to_open_the_page_which_waits_for_a_broker(
    no_broker: KafkaSettings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STREAM_ICD_CONNECT_TIMEOUT_S", "0.5")
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    without = ("--bootstrap-servers", no_broker.bootstrap_servers)
    done = CliRunner().invoke(app, ["view", "--port", "0", *without])
    assert done.exit_code == 0
    assert "open http" in done.output
    assert "the page waits for one" in done.output
    archive = ("--history", str(tmp_path), "--token", "a+b&c")
    done = CliRunner().invoke(app, ["view", "--port", "0", *archive])
    assert "/?token=a%2Bb%26c   (" in done.output


def test_a_broker_that_is_away_is_named_until_it_is_back_and_no_end_waits_for_it(
    no_broker: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_icd.interfaces.view.feeds.live._LOOK_EVERY_S", 0.05)
    live = Live(no_broker, Topics(), AllSeries())
    with memory_broker() as back:
        with live.reading(lambda _: None):
            wait_until(lambda: "no broker listens" in live.troubles().get(Topics().snapshots, ""))
            there = connect(KafkaSettings(bootstrap_servers=back.bootstrap_servers))
            monkeypatch.setattr("stream_icd.interfaces.view.feeds.live.connect", lambda _: there)
            wait_until(lambda: Topics().snapshots not in live.troubles())
            began = time.monotonic()  # other topics still look for theirs
        assert time.monotonic() - began < 5


def test_what_each_topic_says_is_seen_once_and_nonsense_is_passed_over(
    broker: Broker, topics: Topics
) -> None:
    found = WINDOWS[0]
    truth = Labels("g", "g/0", found.window, found.nodes, found.labels)
    refused = Record(topics.snapshots, 0, 7, 0, b"g", b"?", ())
    decision = Announcement("promoted", "models/", "better on 10 windows", "retrain", START, "as@2")
    decided = outgoing(topics.models, encode_announcement(decision))
    nonsense = [
        OutgoingRecord(topic, b"nonsense", b"g")
        for topic in (topics.communities, topics.events, topics.labels, topics.models)
    ]
    deleted = OutgoingRecord(topics.communities, None, b"g")
    known = outgoing(topics.labels, encode_labels(truth))
    letter = dead_letter(refused, "decode", BadSnapshot("not a table"))
    tracked = [outgoing(topics.events, encode_events(one)) for one in tracked_elsewhere(4)[1][1:]]
    publish(broker, [*nonsense, deleted, known, letter, decided, decided, *tracked])
    publish(broker, results(topics, (*WINDOWS[:4], *WINDOWS)))
    with viewed(broker, topics, graph="g") as (seen, address):
        wait_until(lambda: kept(seen) == 5 and seen.dead_letters()[0] == 1)
        wait_until(lambda: len(seen.announcements()) == 1)
        overview = get(address, "/api/overview").json()
        (summary,) = seen.summaries()
        assert summary.late == 0
        first, *others = seen.windows(summary.name, 9)
        assert first.nmi == 1
        assert first.ids.max() < 100
        assert all(one.ids.min() >= 100 for one in others), "ids are those of the tracker"
    assert overview["troubles"] == {}
    (buried,), (announced,) = overview["dead_letter_list"], overview["announcements"]
    assert {**buried, "stage": "decode", "exception": "BadSnapshot"} == buried
    assert buried["message"] == "not a table"
    assert {**announced, "kind": "promoted", "version": "as@2"} == announced
    assert announced["reason"] == "better on 10 windows"
    with viewed(broker, topics, graph="other") as (seen, address):
        wait_until(lambda: get(address, "/api/overview").json()["caught_up"])
        assert kept(seen) == 0


def test_a_missing_topic_is_said_and_read_once_it_is_there(
    broker: Broker, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_icd.kafka.reader._RETRY_S", 0.05)
    names = Topics(*(f"{topic_name}.{part}" for part in ("found", "events", "labels", "snaps")))
    with viewed(broker, names) as (seen, address):

        def missing() -> set[str]:
            return set(get(address, "/api/overview").json()["troubles"])

        wait_until(lambda: {names.communities, names.events} <= missing())
        create_topics(broker.settings(), [TopicSpec(names.communities)])
        publish(broker, results(names, WINDOWS[:2]))
        wait_until(lambda: kept(seen) == 2)
        assert (names.communities in missing(), names.events in missing()) == (False, True)


def test_the_map_reads_the_snapshot_that_the_result_names_and_nothing_else(
    broker: Broker, topics: Topics, snapshot: Callable[..., Snapshot]
) -> None:
    graphs = [snapshot(0, graph="g"), snapshot(1, graph="g")]
    publish(broker, [outgoing(topics.snapshots, encode_snapshot(one)) for one in graphs])
    found = [
        replace(
            window(at, np.arange(graph.n_nodes) // 8, graph.nodes),
            snapshot_id=graph.id,
            window=graph.window,
            snapshot_place=f"0@{at}",
        )
        for at, graph in enumerate(graphs)
    ]
    not_digits = "\N{SUPERSCRIPT TWO}@7", "0@\N{ARABIC-INDIC DIGIT SEVEN}", "@"
    places = ["0@1", "", "0@99999", "7@0", "x@y", "0@-1", "0@1@2", *not_digits]
    wrong = [replace(window(at, [0, 1]), snapshot_place=one) for at, one in enumerate(places, 9)]
    publish(broker, results(topics, (*found, *wrong)))
    with viewed(broker, topics) as (seen, address):
        wait_until(lambda: kept(seen) == 2 + len(places))
        for graph in graphs:
            at = graph.window.start.isoformat()
            opened = get(address, "/api/members", {"community": "all", "at": at})
            assert len(opened.json()["nodes"]) == graph.n_nodes
            assert len(opened.json()["edges"]) == 2 * graph.n_edges
        for one in wrong:
            at = one.window.start.isoformat()
            drawn = get(address, "/api/map", {"at": at}).json()
            assert ("another snapshot" in drawn["trouble"]) == (one.snapshot_place == "0@1")
            assert drawn["trouble"]
            assert len(drawn["communities"]) == 2
            refused = get(address, "/api/members", {"community": "all", "at": at})
            assert refused.status == 409


def test_snapshots_are_seen_where_the_broker_does_not_count_them(
    embedded: Broker, snapshot: Callable[..., Snapshot], outgoing: Any
) -> None:
    create_topics(embedded.settings())
    publish(embedded, [outgoing(snapshot(0), Topics().snapshots)])
    live = Live(embedded.settings(), Topics(), AllSeries())
    assert not live.snapshots_there()
    with live.reading(lambda _: None):
        wait_until(live.snapshots_there)
    assert live.lag() is None


def test_snapshots_that_wait_are_counted_also_in_a_topic_that_was_created_again(
    broker: Broker, topics: Topics, snapshot: Callable[..., Snapshot], outgoing: Any
) -> None:
    publish(broker, [outgoing(snapshot(at), topics.snapshots) for at in range(3)])
    with viewed(broker, topics) as (_, address):
        wait_until(lambda: get(address, "/api/overview").json()["lag"] == 3)
    lag = _SnapshotLag()
    with connect(broker.settings()).admin() as admin:
        for place, waiting in (("0@99", 3), ("0@1", 1)):
            lag.detected(place)
            lag._look(admin, topics.snapshots)
            assert lag.waiting == waiting
        admin.delete_topic(topics.snapshots)
        lag._look(admin, topics.snapshots)  # where it is not there, the Kafka client waits for ever
        assert lag.waiting is None


HALVES = [0, 0, 0, 1, 1, 1]


class Page:
    """What a page knows of an archive, and the files that it opened."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen, self.news = AllSeries(), list[News]()
        (self.archive,) = Archives.of([store], self.seen).archives.values()
        self.to = Archive(store)
        self.opened: list[str] = []
        read_footer = archive.read_footer  # type: ignore[attr-defined]

        def noting(store: Store, path: str) -> object:
            self.opened.append(path)
            return read_footer(store, path)

        monkeypatch.setattr(archive, "read_footer", noting)

    def add(self, *hours: int, revision: str = "", received: int = 0) -> None:
        for hour in hours:
            message = encode_communities(window(hour, HALVES, revision=revision))
            self.to.add("communities", message, (received, 0))

    def look(self) -> int:
        return self.archive.read(self.seen, self.news.append, lambda: False)

    def hours(self) -> list[str]:
        (summary,) = self.seen.summaries()
        return [w.result.snapshot_id for w in self.seen.windows(summary.name, 100)]


@pytest.fixture
def page(disk: Store, monkeypatch: pytest.MonkeyPatch) -> Page:
    return Page(disk, monkeypatch)


def test_what_is_added_is_seen_once_and_only_new_files_are_opened(page: Page) -> None:
    page.add(0, 1, 30)
    assert page.look() == 3
    assert page.look() == 0
    page.add(31, 60)
    page.opened.clear()
    assert page.look() == 2
    assert page.look() == 0
    assert len(page.opened) == 2
    assert len(list(compact_archive(page.archive.archive.store, date(2026, 2, 1)))) > 0
    page.add(61)
    assert page.look() == 1, "files that are merged are not seen twice"
    assert page.hours() == ["g/0", "g/1", "g/30", "g/31", "g/60", "g/61"]
    assert page.seen.summaries()[0].late == 0


def test_days_that_are_over_are_not_listed_again(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = (datetime(1, 1, 1, tzinfo=UTC) - START) // HOUR  # as of an unset time
    page.add(first, *range(0, 240, 24))
    assert page.look() == 11
    assert page.look() == 0
    listed, files = list[str](), Store.files

    def noting(store: Store, folder: str = "") -> list[str]:
        listed.append(folder)
        return files(store, folder)

    monkeypatch.setattr(Store, "files", noting)
    page.look()
    assert [folder[-10:] for folder in listed] == ["2026-01-09", "2026-01-10"]


def test_a_correction_replaces_the_newest_window_and_older_revisions_do_not(page: Page) -> None:
    page.add(0)
    page.add(1, revision="old", received=5)
    page.add(1, revision="new", received=9)
    assert page.look() == 2
    assert page.look() == 0
    page.add(1, revision="newer", received=10)
    assert page.look() == 1
    (summary,) = page.seen.summaries()
    assert (summary.newest.result.revision, summary.newest.number) == ("newer", 1)


@pytest.mark.parametrize(
    ("before", "added", "failing", "merged"),
    [
        ([0], [1, 2, 3], (1,), False),
        ([0], [1, 2, 3], (1,), True),
        ([], [0, 30, 60, 90, 120], (3, 4), False),
    ],
)
def test_what_a_store_failed_to_give_is_read_at_the_next_look(
    before: list[int],
    added: list[int],
    failing: tuple[int, ...],
    merged: bool,
    page: Page,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page.add(*before)
    assert page.archive.archive.store.is_there() == bool(before)
    if before:
        page.look()
    page.add(*added)
    if merged:
        list(compact_archive(page.archive.archive.store, date(2026, 2, 1)))
    read_message, n_reads = Archive.read_message, count()

    def unreliable(*asked: Any) -> object:
        if next(n_reads) in failing:
            raise StoreUnreachable("the store does not answer")
        return read_message(*asked)

    monkeypatch.setattr(Archive, "read_message", unreliable)
    for _ in failing:
        with pytest.raises(StoreUnreachable):
            page.look()
    assert page.look() == 2
    assert page.look() == 0
    assert page.hours() == [f"g/{hour}" for hour in (*before, *added)]
    assert page.seen.summaries()[0].late == 0


def test_known_communities_that_come_later_are_noted(page: Page) -> None:
    page.add(0)
    page.look()
    found = window(0, HALVES)
    labels = Labels("g", "g/0", found.window, found.nodes, found.labels, source="s")
    page.to.add("labels", encode_labels(labels))
    page.look()
    assert page.news[-1].window.nmi == 1
    page.to.add("labels", encode_labels(replace(labels, snapshot_id="g/1")))
    page.look()  # of a window that is not there
    assert len(page.news) == 2


def test_a_page_of_an_archive_waits_for_it_grows_and_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "_LOOK_EVERY_S", 0.02)
    disk = open_store(str(tmp_path / "later"))
    to, seen, news = Archive(disk), AllSeries(), list[News]()
    page = Archives.of([disk], seen)
    with page.reading(news.append):
        wait_until(lambda: "there is no archive at" in "".join(page.troubles().values()))
        assert not page.caught_up()
        for hour in (0, 1):
            to.add("communities", encode_communities(window(hour, HALVES)))
            wait_until(lambda expected=hour + 1: len(news) == expected)
            assert page.caught_up()
        folder = to.store.files("communities")[0].rpartition("/")[0]
        (Path(disk.root) / folder / "w-bad.parquet").write_bytes(b"no parquet")
        wait_until(lambda: "w-bad.parquet" in "".join(page.troubles().values()))
        disk.delete(f"{folder}/w-bad.parquet")
        wait_until(lambda: not page.troubles())
