"""Replays of a graph that an operator made start anew: each window as the stream detected it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from stream_icd.commands.cli.replay import PastOfArchive
from stream_icd.core.snapshot import Snapshot
from stream_icd.core.store.store import open_store
from stream_icd.history.archive import Archive, Selection
from stream_icd.history.archiver import Archiver
from stream_icd.history.compaction import compact_archive
from stream_icd.history.export import export
from stream_icd.history.files import FileKind
from stream_icd.history.replay.redetect import Redetection
from stream_icd.history.replay.smooth import smoothing_engine
from stream_icd.kafka.connect import connect
from stream_icd.kafka.messages.records import Processed
from stream_icd.kafka.port import TopicPartition, TopicSpec
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import Record
from stream_icd.kafka.topics import SNAPSHOTS, create_topics
from stream_icd.methods.memory.smoothing import detect_smoothed
from stream_icd.streaming.execution.work import InProcess
from stream_icd.streaming.workers.memories import Memories
from tests.history.replay.conftest import replay_into
from tests.run_here import run_here
from tests.streaming.workers.remembered import Found, records, said
from tests.streaming.workers.test_detect_memory import Worker
from tests.testbed.brokers import Broker
from tests.testbed.drifting import MINUTE, START, stream

WINDOWS = stream("g", 8)
OTHERS = stream("h", 8)


class Stream:
    """A detector, an operator and an archive at work; and replays of the archive."""

    def __init__(self, broker: Broker, topic: str, folder: Path, redetection: Redetection) -> None:
        create_topics(broker.settings(), [TopicSpec(topic, partitions=3)])
        self.broker, self.topic, self.folder = broker, topic, folder
        self.store, self.redetection = open_store(str(folder / "history")), redetection
        self.found: dict[str, Found] = {}
        self.n_sent = 0

    def detect(self, *windows: Snapshot) -> None:
        """Detect windows with a detector that has just started, and archive all it reads."""
        batch = records(list(windows), first=self.n_sent)
        results = Worker(self.broker, self.topic, group=self.topic).work(batch)
        self.n_sent += len(batch)
        self.found |= {result.snapshot_id: said(result) for result in results}
        for record in batch:
            self.archive("snapshots", record)

    def start_anew(self) -> None:
        with connect(self.broker.settings()).admin() as admin:
            admin.move_group(self.topic, {TopicPartition(SNAPSHOTS, 0): self.n_sent})
        Memories(self.broker.settings(), self.topic, self.topic).forget("g")

    def archive(self, kind: FileKind, record: Record) -> None:
        assert isinstance(Archiver(Archive(self.store), kind).process(record), Processed)

    def archive_memory(self) -> None:
        with open_reader(self.broker.settings(), self.topic, until="end") as states:
            for state in states:
                self.archive("memory", state)

    def again(
        self, first: int = 0, redetection: Redetection | None = None, **options: Any
    ) -> dict[str, Found]:
        """What a replay from window number `first` on finds."""
        selection = Selection(start=START + first * MINUTE if first else None)
        past = PastOfArchive(self.store, selection)
        out = self.folder / f"from {first}"
        done = replay_into(out, past, redetection or self.redetection, **options)
        return {one[0]: one for of_graph in done.found.values() for one in of_graph}

    def check(self, *first: int) -> None:
        """A replay from each of these windows on finds what the stream found."""
        for number in first:
            later = {id: one for id, one in self.found.items() if int(id[2:]) >= number}
            assert self.again(number) == later


@pytest.fixture
def at_work(memory: Broker, topic_name: str, tmp_path: Path, remembering: Redetection) -> Stream:
    return Stream(memory, topic_name, tmp_path, remembering)


@pytest.mark.parametrize("order", ["later", "earlier"])
def test_windows_before_and_after_are_found_again_whatever_their_times(
    at_work: Stream, order: str
) -> None:
    halves = [(*WINDOWS[:4], *OTHERS[:4]), (*WINDOWS[4:], *OTHERS[4:])]
    if order == "earlier":
        halves = [half[:4] for half in reversed(halves)]  # windows of the other graph were late
    at_work.detect(*halves[0])
    at_work.start_anew()
    at_work.detect(*halves[1])
    at_work.archive_memory()
    at_work.check(0, 3, 4, 5)


def test_windows_that_were_late_before_do_not_belong_to_the_time_after(at_work: Stream) -> None:
    """The operator acts when the source has sent some windows again from the beginning."""
    at_work.detect(*WINDOWS[4:])
    at_work.detect(*WINDOWS[:2])
    at_work.start_anew()
    at_work.detect(*WINDOWS[2:4])
    at_work.archive_memory()
    uses = [at_work.found[f"g/{number}"][-1] for number in range(4)]
    assert uses == ["late", "late", "anew", "continued"]
    found = at_work.again()
    for name in ("g/2", "g/3"):
        assert found[name] == at_work.found[name]


def test_a_graph_may_start_anew_twice(at_work: Stream) -> None:
    at_work.detect(*WINDOWS[5:])
    at_work.start_anew()
    at_work.detect(*WINDOWS[2:5])
    at_work.start_anew()
    at_work.start_anew()
    at_work.detect(*WINDOWS[:2])
    at_work.archive_memory()
    at_work.check(0, 1, 4, 6)


def test_the_archive_of_such_a_graph_can_be_exported_and_compacted(
    at_work: Stream, tmp_path: Path
) -> None:
    at_work.detect(*WINDOWS[4:])
    at_work.start_anew()
    at_work.detect(*WINDOWS[:4])
    at_work.archive_memory()
    for kind in ("memory", "snapshots"):
        for form in ("parquet", "csv", "arrow"):
            assert export(at_work.store, Selection(kind), tmp_path / f"{kind}.{form}") > 0
    listed = run_here("history", "list", at_work.store.uri, "--kind", "memory").stdout
    assert "2026-01-01 00:00 2026-01-01 00:07 8 9 " in " ".join(listed.split())
    list(compact_archive(at_work.store, (START + timedelta(days=1)).date()))
    at_work.check(0)


def test_smoothing_uses_windows_after_each_one_up_to_where_the_graph_starts_anew(
    at_work: Stream,
) -> None:
    at_work.detect(*WINDOWS[:4])
    at_work.start_anew()
    at_work.detect(*WINDOWS[4:])
    at_work.archive_memory()
    smooth = replace(at_work.redetection, smooth=True)
    found = at_work.again(redetection=smooth, engine=smoothing_engine(smooth, InProcess))
    expected = detect_smoothed(WINDOWS[:4], smooth.model.model)
    assert [found[f"g/{number}"][1] for number in range(4)] == [
        one.communities.tolist() for one in expected
    ]


def test_a_memory_that_was_deleted_is_nothing_to_archive(at_work: Stream) -> None:
    """As `detect-anew` does if the memory cannot be read."""
    at_work.detect(*WINDOWS[:2])
    with open_reader(at_work.broker.settings(), at_work.topic, until="end") as states:
        last = list(states)[-1]
    at_work.archive("memory", Record(last.topic, 0, 9, 9, last.key, None, ()))
