"""What goes over the topics is in the archive, each once, whatever happens."""

from __future__ import annotations

import errno
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from stream_icd.core.child_process import start_child, stop_children
from stream_icd.core.errors import StoreUnwritable
from stream_icd.core.store.store import Store, open_store
from stream_icd.history.archive import Archive, Selection
from stream_icd.history.archiver import Archiver
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.messages.records import outgoing
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.topics import SNAPSHOTS, create_topics, messages_topic
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit
from stream_icd.streaming.workers.runner import Runner, run_together
from stream_icd.wire.communities import encode_communities
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import encode_snapshot
from tests.history.conftest import archived, make_communities, make_snapshot
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.object_store import new_folder
from tests.testbed.streams import beside

N_KILLED = 20
N_LATE = 5  # sent after the kill: work for the second, however much the first had done by then


@pytest.fixture
def topics(broker: Broker, topic_name: str) -> tuple[str, str]:
    """Topics of snapshots and of communities, with their dead letters."""
    specs = messages_topic(topic_name), messages_topic(f"{topic_name}.found")
    create_topics(broker.settings())
    create_topics(broker.settings(), [letter for s in specs for letter in s.with_dead_letters()])
    return specs[0].name, specs[1].name


@contextmanager
def archiving(
    broker: Broker, topics: tuple[str, str], store: Store
) -> Iterator[list[BaseException]]:
    """An archive at work in the background; yields the errors that ended it."""
    archive = Archive(store)
    archivers = (Archiver(archive, "snapshots"), Archiver(archive, "communities"))
    consume = partial(run_consumer, broker.settings(), delivery="at-least-once")

    def work(stop: threading.Event) -> None:
        loops = {
            topic: partial(
                consume, topic, f"archive-{topic}", Runner(archiver, DeadLetterLimit()), stop
            )
            for topic, archiver in zip(topics, archivers, strict=True)
        }
        run_together(loops, stop)

    with beside(work) as errors:
        yield errors


def publish(broker: Broker, topic: str, messages: list[Message]) -> None:
    with Publisher(broker.settings()) as publisher:
        for message in messages:
            publisher.send(outgoing(topic, message))


@pytest.mark.brokers("memory")
def test_each_message_is_kept_once_and_bad_ones_are_dead_lettered(
    broker: Broker, topics: tuple[str, str], store: Store
) -> None:
    sent = [encode_snapshot(make_snapshot(i)) for i in range(5)]
    found = [encode_communities(make_communities(make_snapshot(i))) for i in range(5)]
    bad = Message(sent[0].key, b"garbage", sent[0].headers)
    publish(broker, topics[0], [*sent[:3], bad, *sent])
    publish(broker, topics[1], [*found, *found])
    both = Selection("snapshots"), Selection("communities")
    with archiving(broker, topics, store) as errors:
        wait_until(
            lambda: errors or [len(archived(store, selection)) for selection in both] == [5, 5]
        )
        with open_reader(broker.settings(), f"{topics[0]}.dlq", limit=1) as records:
            (dead,) = list(records)
    assert errors == []
    assert dead.value == b"garbage"
    assert dict(dead.headers)["icd_dlq_stage"] == b"archive"
    assert archived(store) == sent
    assert archived(store, both[1]) == found
    assert len(store.files()) == 10


@pytest.mark.brokers("kafka")  # whose own clock decides
def test_the_correction_that_came_last_counts_whatever_the_clock_of_its_producer(
    broker: Broker, topics: tuple[str, str], disk: Store
) -> None:
    sent = [encode_snapshot(make_snapshot(0)), encode_snapshot(make_snapshot(0, weighted=True))]
    with Publisher(broker.settings()) as publisher:
        for message, late_ms in zip(sent, (0, 600_000), strict=True):
            at_ms = round(1000 * time.time()) - late_ms
            publisher.send(replace(outgoing(topics[0], message), timestamp_ms=at_ms))
    both = Selection(revisions="all")
    with archiving(broker, topics, disk) as errors:
        wait_until(lambda: errors or len(archived(disk, both)) == 2)
    assert errors == []
    assert archived(disk, both) == sent
    assert archived(disk) == sent[1:]


@pytest.mark.brokers("memory")
def test_a_second_place_with_the_same_group_is_logged(
    broker: Broker, topics: tuple[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    create_topics(broker.settings())
    for name in "ab":
        with archiving(broker, topics, open_store(str(tmp_path / name))) as errors:
            pass
        assert errors == []
    assert f"in {tmp_path}/a before" in caplog.text
    assert "another --group" in caplog.text


@pytest.mark.brokers("memory")
def test_a_full_disk_stops_it_and_with_room_again_nothing_is_missing(
    broker: Broker, topics: tuple[str, str], disk: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = [encode_snapshot(make_snapshot(i)) for i in range(3)]
    publish(broker, topics[0], sent)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", MagicMock(side_effect=full))
        with archiving(broker, topics, disk) as errors:
            wait_until(lambda: errors)
    assert isinstance(errors[0], StoreUnwritable)
    assert re.search("No space left on device.*start again", str(errors[0]))
    assert disk.files() == []
    with archiving(broker, topics, disk):
        wait_until(lambda: len(archived(disk)) == 3)
    assert archived(disk) == sent


@pytest.mark.brokers("kafka")
def test_kill_9_of_an_archive(broker: Broker, topic_name: str, tmp_path: Path, s3: str) -> None:
    store = open_store(new_folder(s3))
    graph = topic_name  # a graph of this test's own in the live topics
    create_topics(broker.settings())
    sent = [encode_snapshot(make_snapshot(i, graph)) for i in range(N_KILLED)]
    publish(broker, SNAPSHOTS, sent[:-N_LATE])
    quick = broker.settings()
    env = os.environ | {
        "STREAM_ICD_SESSION_TIMEOUT_S": str(quick.session_timeout_s),
        "STREAM_ICD_HEARTBEAT_INTERVAL_S": str(quick.heartbeat_interval_s),
    }
    program = (sys.executable, "-m", "stream_icd.commands.cli", "consume", "archive", store.uri)
    options = ("--kind", "snapshots", "--graph", graph, "--group", graph)
    command = (*program, *options, "--bootstrap-servers", broker.bootstrap_servers)
    first = start_child(command, tmp_path / "first.log", env=env)
    try:
        wait_until(lambda: len(archived(store)) >= 5)
    finally:
        first.kill()
        first.wait()
    early = {noted.path: store.open(noted.path).read() for noted in Archive(store).windows()}
    publish(broker, SNAPSHOTS, sent[-N_LATE:])
    second = start_child(command, tmp_path / "second.log", env=env)
    try:
        wait_until(lambda: len(archived(store)) == N_KILLED)
    finally:
        status = stop_children([second], 20)[0]
    assert status == 0, (tmp_path / "second.log").read_text()
    assert archived(store) == sent
    assert all(store.open(path).read() == content for path, content in early.items())
    assert len([path for path in store.files() if path.endswith(".parquet")]) == N_KILLED
