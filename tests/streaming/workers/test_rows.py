"""What rows of members promise: only what changed, nothing twice, and the topic is the state."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from stream_icd.core.communities import Communities
from stream_icd.core.errors import RecordTooLarge
from stream_icd.core.members import MemberRow
from stream_icd.core.snapshot import Window
from stream_icd.core.times import utc_now
from stream_icd.kafka.delivery.handler import BatchDone
from stream_icd.kafka.messages.claims import ClaimCheck
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.topics import COMMUNITIES, MEMBERS, create_topics
from stream_icd.methods.names.attributes import attributes_of
from stream_icd.methods.names.names import Naming
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit
from stream_icd.streaming.execution.budget import MemorySettings
from stream_icd.streaming.workers.rows import RowWriter
from stream_icd.streaming.workers.runner import Runner
from tests.streaming.workers.rows_of_members import folded, rows_in, table_after, with_ids
from tests.streaming.workers.tracked import outgoing
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.starting import consuming
from tests.testbed.streams import held, publish

Topics = tuple[str, str]


@pytest.fixture
def topics(memory: Broker, topic_name: str) -> Topics:
    found, rows = TopicSpec(topic_name), TopicSpec(f"{topic_name}.rows", partitions=3)
    create_topics(memory.settings(), [*found.with_dead_letters(), rows])
    return found.name, rows.name


def writer(broker: Broker, topic: str, **options: object) -> Runner:
    rows = RowWriter(broker.settings(), topic=topic, **options)  # type: ignore[arg-type]
    runner = Runner(rows, DeadLetterLimit())
    runner.assigned([0])
    return runner


def sent(broker: Broker, topic: str, windows: Sequence[Communities]) -> list[Record]:
    """Publish windows, and return their records."""
    before = len(held(broker, topic))
    publish(broker, [outgoing(window, topic) for window in windows])
    return held(broker, topic)[before:]


def work(broker: Broker, runner: Runner, records: Sequence[Record]) -> tuple[OutgoingRecord, ...]:
    """A batch that succeeds: handled, published, committed."""
    rows = tuple(runner.handle(records))
    publish(broker, rows)
    runner.done(BatchDone(tuple(records), rows, 0.0))
    return rows


def test_rows_are_a_table_of_all_nodes_as_they_are_now(memory: Broker, topics: Topics) -> None:
    windows = with_ids("g", 8)
    runner = writer(memory, topics[1])
    for at, record in enumerate(sent(memory, topics[0], windows)):
        work(memory, runner, [record])
        assert folded(memory, topics[1], "g") == table_after(windows[: at + 1])


def test_only_nodes_that_changed_are_written(memory: Broker, topics: Topics) -> None:
    windows = with_ids("g", 2)
    same = replace(windows[1], snapshot_id="g/2", window=with_ids("g", 3)[2].window)
    runner = writer(memory, topics[1])
    records = sent(memory, topics[0], [*windows, same])
    first, second, third = (work(memory, runner, [record]) for record in records)
    assert len(first) == windows[0].n_nodes
    before, after = table_after(windows[:1]), table_after(windows)
    changed = {node for node, row in after.items() if before.get(node) != row}
    assert {row.node for row in rows_in_outgoing(second) if row is not None} == changed
    assert sum(row is None for row in rows_in_outgoing(second)) == len(before.keys() - after.keys())
    assert third == ()


def rows_in_outgoing(rows: Sequence[OutgoingRecord]) -> list[MemberRow | None]:
    return list(rows_in(Record(r.topic, 0, 0, 0, r.key, r.value, r.headers) for r in rows))


@pytest.mark.parametrize("cache_bytes", [1 << 30, 1])
def test_a_new_worker_continues_from_the_topic(
    memory: Broker, topics: Topics, cache_bytes: int
) -> None:
    """Also if the rows of two graphs are too many to be kept at once."""
    pairs = list(zip(with_ids("a", 9), with_ids("b", 9, seed=4), strict=True))
    kept = MemorySettings(cache_bytes=cache_bytes)
    unbroken = writer(memory, topics[1])
    other = TopicSpec(f"{topics[1]}.other")
    create_topics(memory.settings(), [other])
    records = sent(memory, topics[0], [one for pair in pairs for one in pair])
    expected = [row for record in records for row in work(memory, unbroken, [record])]
    written: list[OutgoingRecord] = []
    for start in range(0, len(records), 5):
        runner = writer(memory, other.name, memory=kept)
        batch = records[start : start + 5]
        written += work(memory, runner, batch[:2]) + work(memory, runner, batch[2:])
    assert [(r.key, r.value) for r in written] == [(r.key, r.value) for r in expected]


def test_a_batch_that_failed_is_written_again(memory: Broker, topics: Topics) -> None:
    windows = with_ids("g", 4)
    records = sent(memory, topics[0], windows)
    runner = writer(memory, topics[1])
    work(memory, runner, records[:1])
    lost = tuple(runner.handle(records[1:3]))
    runner.assigned([0])
    assert tuple(runner.handle(records[1:3])) == lost


def test_late_and_damaged_windows_change_nothing(memory: Broker, topics: Topics) -> None:
    first, second, third = with_ids("g", 3)
    day = utc_now() + timedelta(days=40)
    ahead = replace(third, window=Window(day, day))
    marked = [replace(third, memory="damaged"), replace(first, memory="late"), first, ahead]
    records = sent(memory, topics[0], [second, *marked])
    assert [len(work(memory, writer(memory, topics[1]), [r])) > 0 for r in records] == [
        True,
        False,
        False,
        False,
        False,
    ]


def test_results_without_ids_have_no_rows(memory: Broker, topics: Topics) -> None:
    (one,) = with_ids("g", 1)
    alone = replace(one, community_ids=None, replaced=None)
    with capture_logs() as logs:
        records = sent(memory, topics[0], [alone, replace(alone, snapshot_id="g/again")])
        assert work(memory, writer(memory, topics[1]), records) == ()
    warnings = [log["event"] for log in logs if log["log_level"] == "warning"]
    assert len(warnings) == 1
    assert "detect with memory" in warnings[0]


def test_results_of_another_model_have_no_rows(memory: Broker, topics: Topics) -> None:
    one, other = with_ids("g", 2)
    records = sent(memory, topics[0], [one, replace(other, model="other@2")])
    for model, written in ((None, [True, True]), ("m", [True, False]), ("other@2", [False, True])):
        runner = writer(memory, topics[1], model=model)
        assert [bool(list(runner.handle([record]))) for record in records] == written


def test_a_probability_is_written_again_once_it_differs(memory: Broker, topics: Topics) -> None:
    """The difference is that from the last row, not from the last window."""
    (one,) = with_ids("g", 1)
    hours = with_ids("h", 4)
    windows = [
        replace(
            one,
            snapshot_id=f"g/{at}",
            window=hours[at].window,
            probabilities=np.full(one.n_nodes, own, np.float32),
        )
        for at, own in enumerate((0.8, 0.74, 0.7, 0.65))
    ]
    runner = writer(memory, topics[1])
    records = sent(memory, topics[0], windows)
    counts = [len(work(memory, runner, [record])) for record in records]
    assert counts == [one.n_nodes, 0, one.n_nodes, 0]
    value = json.loads(held(memory, topics[1])[-1].value or b"")
    assert value["probability"] == 0.7
    assert value["since"] == "2020-01-01T00:00:00Z"
    assert value["as_of"] == "2020-01-01T03:00:00Z"


def test_a_community_with_another_name_is_written_again(memory: Broker, topics: Topics) -> None:
    (one,) = with_ids("g", 1)
    again = replace(one, snapshot_id="g/1", window=with_ids("g", 2)[1].window)
    countries = ["US" if label == 0 else f"C{at}" for at, label in enumerate(one.labels)]
    moved = ["FR" if country == "US" else country for country in countries]
    before, after = (
        writer(memory, topics[1], naming=naming_of(one, values)) for values in (countries, moved)
    )
    first, second = sent(memory, topics[0], [one, again])
    work(memory, before, [first])
    named = {row.name for row in rows_in(held(memory, topics[1])) if row and row.community_id == 0}
    assert named == {"US"}
    rows = work(memory, after, [second])  # it was started anew with another table
    assert len(rows) == int((one.labels == 0).sum())
    assert {json.loads(row.value or b"")["name"] for row in rows} == {"FR"}


def naming_of(result: Communities, countries: list[str]) -> Naming:
    return Naming({"g": attributes_of(result.nodes, {"country": countries})})


def test_node_ids_may_be_text(memory: Broker, topics: Topics) -> None:
    (one,) = with_ids("a/b", 1)
    text = replace(one, nodes=pa.array([f"n/{at:03}" for at in range(one.n_nodes)]))
    (record,) = sent(memory, topics[0], [text])
    rows = work(memory, writer(memory, topics[1]), [record])
    assert rows[0].key == b"a%2Fb/n/000"
    assert json.loads(rows[0].value or b"")["node"] == "n/000"
    assert work(memory, writer(memory, topics[1]), [record]) == ()


def test_rows_that_break_the_contract_are_left_out(
    memory: Broker, topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    publish(memory, [OutgoingRecord(topics[1], b"no row", b"g/7"), OutgoingRecord(topics[1], b"")])
    windows = with_ids("g", 1)
    rows = work(memory, writer(memory, topics[1]), sent(memory, topics[0], windows))
    assert len(rows) == windows[0].n_nodes
    assert caplog.text.count("skipped") == 2


def test_rows_that_are_refused_are_written_when_the_window_comes_again(
    memory: Broker, topics: Topics
) -> None:
    refused = iter([True])

    class Refusing(ClaimCheck):
        def __call__(self, record: OutgoingRecord) -> OutgoingRecord:
            if record.topic == topics[1] and next(refused, False):
                raise RecordTooLarge("5 bytes are above 4", record.topic, 5)
            return record

    records = sent(memory, topics[0], with_ids("g", 1))
    rows = RowWriter(memory.settings(), topic=topics[1])
    runner = Runner(rows, DeadLetterLimit(), claim_check=Refusing(memory.settings()))
    runner.assigned([0])
    (letter,) = work(memory, runner, records)
    assert letter.topic.endswith(".dlq")
    assert len(work(memory, runner, records)) == 300


N_WINDOWS, N_LATE = 20, 6


@pytest.mark.brokers("kafka")
def test_kill_9_loses_and_repeats_nothing(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    graph = topic_name
    create_topics(broker.settings())
    windows = with_ids(graph, N_WINDOWS)
    messages = [outgoing(window, COMMUNITIES) for window in windows]
    publish(broker, messages[:-N_LATE])
    with consuming(broker, graph, tmp_path / "first.log", "rows", "--batch", "2"):
        wait_until(lambda: len(folded(broker, MEMBERS, graph)) > 0, 60)
    publish(broker, messages[-N_LATE:])
    with consuming(broker, graph, tmp_path / "second.log", "rows", "--batch", "2") as second:
        wait_until(lambda: folded(broker, MEMBERS, graph) == table_after(windows), 90)
        second.terminate()
        assert second.wait(30) == 0, (tmp_path / "second.log").read_text()
    newest: dict[bytes | None, bytes | None] = {}  # exactly once: no row is that before it
    for record in held(broker, MEMBERS):
        if (record.key or b"").startswith(f"{graph}/".encode()):
            assert newest.get(record.key) != record.value
            newest[record.key] = record.value
