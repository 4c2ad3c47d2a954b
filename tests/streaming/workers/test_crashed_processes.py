"""A record that ends the processes of its worker is given up as one that ends its workers."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from stream_icd.core.communities import Communities
from stream_icd.core.snapshot import Snapshot
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.delivery.handler import BatchDone
from stream_icd.kafka.messages.records import Outcome
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import Record
from stream_icd.kafka.topics import create_topics
from stream_icd.methods.memory.encoding import decode_memory
from stream_icd.registry.find import open_model
from stream_icd.registry.model import save_model
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.processes import Processes
from stream_icd.streaming.execution.work import Relay
from stream_icd.streaming.subscribers.subscribe import subscribe
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.memories import Memories
from stream_icd.streaming.workers.runner import Runner
from tests.streaming.workers.remembered import said, uninterrupted
from tests.testbed.brokers import Broker
from tests.testbed.drifting import outgoing, remembering_model, stream
from tests.testbed.handlers import WhenDone
from tests.testbed.streams import publish

MARKS = "ICD_TEST_MARKS"


class Deadly(RecordDetection):
    """Some snapshots end the process that works on them, as where memory is short."""

    def __call__(self, record: Record, relay: Relay | None = None) -> Outcome:
        _, _, way = dict(record.headers)["ce_id"].rpartition(b"/")
        taken = b"" if relay is None else relay.memory or b""
        remembers = bool(taken and decode_memory(taken).n_nodes)
        if way == b"kills" or (way == b"kills-with-memory" and remembers):
            (Path(os.environ[MARKS]) / f"{way.decode()}-{os.getpid()}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(record, relay)


def sent_windows() -> list[Snapshot]:
    """Windows of two graphs in turn; some of the first one end their processes."""
    bad = stream("g", 5)
    for at, way in ((1, "kills"), (3, "kills-with-memory")):
        bad[at] = replace(bad[at], id=f"g/{way}")
    return [snapshot for pair in zip(bad, stream("h", 5), strict=True) for snapshot in pair]


def detect(broker: Broker, topic: str, place: Path, count: int) -> None:
    """Detect that many snapshots of a topic in two processes, with memory."""
    kafka, stop, done = broker.settings(), threading.Event(), 0
    found, memory = f"{topic}.found", f"{topic}.memory"
    settings = DetectSettings(
        topic=found, memory="auto", memory_topic=memory, group=topic, threads=1
    )

    def on_done(batch: BatchDone) -> None:
        nonlocal done
        done += len(batch.records)
        if done == count:
            stop.set()

    model = open_model(str(place))
    with Processes(Deadly(model, settings), str(place), 2, again=False) as engine:
        memories = Memories.open(kafka, topic, memory)
        runner = Runner(Detector(lambda: model, settings, engine, memories), DeadLetterLimit(1.0))
        watchers = [WhenDone(on_done)]
        run_consumer(kafka, topic, topic, runner, stop, max_records=4, watchers=watchers)


@pytest.mark.brokers("memory")
def test_three_ends_of_a_process_are_a_dead_letter_and_neighbours_are_detected(
    broker: Broker, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, marks, topic = tmp_path / "model", tmp_path / "marks", topic_name
    marks.mkdir()
    monkeypatch.setenv(MARKS, str(marks))
    save_model(remembering_model().model, place)
    targets = TopicSpec(f"{topic}.found"), TopicSpec(f"{topic}.memory", cleanup_policy="compact")
    create_topics(broker.settings())
    create_topics(broker.settings(), [*TopicSpec(topic).with_dead_letters(), *targets])
    windows = sent_windows()
    publish(broker, [outgoing(window, topic) for window in windows])
    detect(broker, topic, place, len(windows))

    names = [name.rpartition("-")[0] for name in sorted(os.listdir(marks))]
    assert {name: names.count(name) for name in names} == {
        "kills": 4,  # the last time without memory
        "kills-with-memory": 3,
    }
    found = list(
        subscribe(
            start="beginning", until="end", settings=broker.settings(), topic=f"{topic}.found"
        )
    )
    assert [
        said(communities) for communities in found if communities.graph == "h"
    ] == uninterrupted(
        [window for window in windows if window.graph == "h"], open_model(str(place))
    )[0]
    assert uses([communities for communities in found if communities.graph == "g"]) == {
        "g/0": "first",
        "g/2": "continued",
        "g/kills-with-memory": "anew",
        "g/4": "continued",
    }
    with open_reader(broker.settings(), f"{topic}.dlq", until="settled") as read:
        (letter,) = [{name: text.decode() for name, text in record.headers} for record in read]
    assert letter["ce_id"] == "g/kills"
    assert (letter["icd_dlq_stage"], letter["icd_dlq_exception"]) == ("crashed", "CrashedWorker")
    last = (
        "it ended 3 workers in a row, the last time like this: the process died: a worker process"
    )
    assert letter["icd_dlq_message"].startswith(last)


def uses(results: list[Communities]) -> dict[str, str | None]:
    """What memory contributed to each result."""
    return {result.snapshot_id: result.memory for result in results}
