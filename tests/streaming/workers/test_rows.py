"""What rows of members promise: only what changed, nothing twice, and the topic is the state."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from stream_icd.core.communities import Communities
from stream_icd.core.snapshot import Window
from stream_icd.core.times import utc_now
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.topics import COMMUNITIES, MEMBERS, create_topics
from stream_icd.methods.names.attributes import attributes_of
from stream_icd.methods.names.names import Naming
from stream_icd.streaming.execution.budget import MemorySettings
from stream_icd.streaming.workers.rows import RowWriter
from stream_icd.streaming.workers.runner import Runner
from stream_icd.wire.nodes import MemberRow, decode_member
from tests.streaming.workers.tracked import Bench, outgoing, stream
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.starting import kill_and_restart
from tests.testbed.streams import held, publish

Table = dict[int | str, tuple[int, str]]
"""Of each node, the id of its community and since when."""


def with_ids(graph: str, n: int, seed: int = 3) -> list[Communities]:
    """`n` hours of communities with ids; from hour to hour, the first nodes go and come back."""
    windows = []
    for hour, window in enumerate(stream(graph, n, seed)):
        nodes, labels = window.nodes[hour % 3 :], window.labels[hour % 3 :]
        ids, labels = np.unique(labels, return_inverse=True)
        found = {"labels": labels.astype(np.int32), "community_ids": ids.astype(np.int64)}
        replaced, probabilities = np.empty((0, 2), np.int64), np.full(len(nodes), 0.75, np.float32)
        found |= {"nodes": nodes, "replaced": replaced, "probabilities": probabilities}
        windows.append(replace(window, memory="continued", **found))
    return windows


def table_after(windows: Iterable[Communities]) -> Table:
    """What a table of rows says after the windows."""
    table: Table = {}
    for window in windows:
        ids = window.ids_of_nodes
        now = dict(zip(window.nodes.to_pylist(), ids.tolist(), strict=True))
        start = window.window.start.isoformat()
        table = {
            node: table[node] if table.get(node, (-1,))[0] == one else (one, start)
            for node, one in now.items()
        }
    return table


def rows_in(records: Iterable[Record | OutgoingRecord]) -> Iterator[MemberRow | None]:
    """Each row, None for a deletion."""
    for one in records:
        yield None if one.value is None else decode_member(one.key, one.value, one.headers)


def folded(broker: Broker, topic: str, graph: str) -> Table:
    """The newest row of each node of a graph, as a reader of the topic folds it."""
    newest = {record.key: record for record in held(broker, topic)}
    rows = (row for row in rows_in(newest.values()) if row is not None and row.graph == graph)
    return {row.node: (row.community_id, row.since.isoformat()) for row in rows}


@pytest.fixture
def bench(memory: Broker, topic_name: str) -> Bench:
    """A topic of communities and one of rows."""
    return Bench.opened(memory, topic_name)


def writer(bench: Bench, **options: object) -> Runner:
    rows = RowWriter(bench.broker.settings(), topic=bench.target, **options)  # type: ignore[arg-type]
    runner = Runner(rows)
    runner.assigned([0])
    return runner


def later(window: Communities, hour: int, **changed: Any) -> Communities:
    """The same communities in another hour."""
    moved = timedelta(hours=hour)
    start, end = window.window.start + moved, window.window.end + moved
    return replace(window, snapshot_id=f"g/+{hour}", window=Window(start, end), **changed)


def test_rows_are_a_table_of_all_nodes_and_only_changes_are_written(bench: Bench) -> None:
    windows, runner, before = with_ids("g", 8), writer(bench), Table()
    windows.append(later(windows[-1], 1))
    for at, record in enumerate(bench.sent(windows)):
        rows, after = list(rows_in(bench.work(runner, [record]))), table_after(windows[: at + 1])
        assert folded(bench.broker, bench.target, "g") == after
        changed = {node for node, row in after.items() if before.get(node) != row}
        assert {row.node for row in rows if row is not None} == changed
        assert rows.count(None) == len(before.keys() - after.keys())
        before = after
    assert rows == []


@pytest.mark.parametrize("cache_bytes", [1 << 30, 1])
def test_a_new_worker_continues_from_the_topic(bench: Bench, cache_bytes: int) -> None:
    """Also if the rows of two graphs are too many to be kept at once."""
    pairs = zip(with_ids("a", 9), with_ids("b", 9, seed=4), strict=True)
    kept = MemorySettings(cache_bytes=cache_bytes)
    unbroken, other = writer(bench), Bench.opened(bench.broker, f"{bench.source}.other")
    records = bench.sent(one for pair in pairs for one in pair)
    expected = [row for record in records for row in bench.work(unbroken, [record])]
    written: list[OutgoingRecord] = []
    for start in range(0, len(records), 5):
        runner, batch = writer(other, memory=kept), records[start : start + 5]
        written += other.work(runner, batch[:2]) + other.work(runner, batch[2:])
    assert [(r.key, r.value) for r in written] == [(r.key, r.value) for r in expected]


def test_a_batch_that_failed_is_written_again(bench: Bench) -> None:
    records, runner = bench.sent(with_ids("g", 4)), writer(bench)
    bench.work(runner, records[:1])
    lost = tuple(runner.handle(records[1:3]))
    runner.assigned([0])
    assert tuple(runner.handle(records[1:3])) == lost


def test_late_and_damaged_windows_change_nothing(bench: Bench) -> None:
    first, second, third = with_ids("g", 3)
    day = utc_now() + timedelta(days=40)
    ahead = replace(third, window=Window(day, day))
    marked = [replace(third, memory="damaged"), replace(first, memory="late"), first, ahead]
    written = [bench.work(writer(bench), [record]) for record in bench.sent([second, *marked])]
    assert [len(rows) > 0 for rows in written] == [True, False, False, False, False]


def test_results_without_ids_or_of_another_model_have_no_rows(bench: Bench) -> None:
    of_m, of_other = with_ids("g", 2)
    of_other = replace(of_other, model="other@2")
    alone = replace(of_m, community_ids=None, replaced=None)
    with capture_logs() as logs:
        records = bench.sent([alone, replace(alone, snapshot_id="g/again")])
        assert bench.work(writer(bench), records) == ()
    (warning,) = [log["event"] for log in logs if log["log_level"] == "warning"]
    assert "detect with memory" in warning
    records = bench.sent([of_m, of_other])
    for model, written in ((None, [True, True]), ("m", [True, False]), ("other@2", [False, True])):
        runner = writer(bench, model=model)
        assert [bool(list(runner.handle([record]))) for record in records] == written


def test_a_probability_is_written_again_once_it_differs(bench: Bench) -> None:
    """The difference is that from the last row, not from the last window."""
    (first,), runner = with_ids("g", 1), writer(bench)
    windows = [
        later(first, hour, probabilities=np.full(first.n_nodes, probability, np.float32))
        for hour, probability in enumerate((0.8, 0.74, 0.7, 0.65))
    ]
    counts = [len(bench.work(runner, [record])) for record in bench.sent(windows)]
    assert counts == [first.n_nodes, 0, first.n_nodes, 0]
    value = json.loads(held(bench.broker, bench.target)[-1].value or b"")
    assert value["probability"] == 0.7
    assert value["since"] == "2020-01-01T00:00:00Z"
    assert value["as_of"] == "2020-01-01T03:00:00Z"


def test_a_community_with_another_name_is_written_again(bench: Bench) -> None:
    (window,) = with_ids("g", 1)
    countries = ["US" if label == 0 else f"C{at}" for at, label in enumerate(window.labels)]

    def named(countries: list[str]) -> Runner:
        table = attributes_of(window.nodes, {"country": countries})
        return writer(bench, naming=Naming({"g": table}))

    first, second = bench.sent([window, later(window, 1)])
    rows = rows_in(bench.work(named(countries), [first]))
    assert {row.name for row in rows if row and row.community_id == 0} == {"US"}
    moved = ["FR" if country == "US" else country for country in countries]
    renamed = bench.work(named(moved), [second])  # it was started anew with another table
    assert len(renamed) == int((window.labels == 0).sum())
    assert {json.loads(row.value or b"")["name"] for row in renamed} == {"FR"}


def test_node_ids_may_be_text(bench: Bench) -> None:
    (one,) = with_ids("a/b", 1)
    text = replace(one, nodes=pa.array([f"n/{at:03}" for at in range(one.n_nodes)]))
    records = bench.sent([text])
    rows = bench.work(writer(bench), records)
    assert rows[0].key == b"a%2Fb/n/000"
    assert json.loads(rows[0].value or b"")["node"] == "n/000"
    assert bench.work(writer(bench), records) == ()


def test_rows_that_are_none_are_left_out(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    wrong = (b"no row", b"g/7"), (b"", None)
    publish(bench.broker, [OutgoingRecord(bench.target, *one) for one in wrong])
    windows = with_ids("g", 1)
    assert len(bench.work(writer(bench), bench.sent(windows))) == windows[0].n_nodes
    assert caplog.text.count("skipped") == 2


def test_rows_that_are_refused_are_written_when_the_window_comes_again(bench: Bench) -> None:
    records = bench.sent(with_ids("g", 1))
    rows = RowWriter(bench.broker.settings(), topic=bench.target)
    runner = Runner(rows, claim_check=bench.refusing(True))
    runner.assigned([0])
    (letter,) = bench.work(runner, records)
    assert letter.topic.endswith(".dlq")
    assert len(bench.work(runner, records)) == 300


@pytest.mark.brokers("kafka")
def test_kill_9_loses_and_repeats_nothing(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    create_topics(broker.settings())
    windows, options = with_ids(topic_name, 20), ["--batch", "2"]
    sent = [outgoing(window, COMMUNITIES) for window in windows]

    def table() -> Table:
        return folded(broker, MEMBERS, topic_name)

    def began() -> None:
        wait_until(lambda: len(table()) > 0, 60)

    def ended() -> None:
        wait_until(lambda: table() == table_after(windows), 90)

    kill_and_restart(broker, topic_name, tmp_path, sent, 6, "rows", options, began, ended)
    newest: dict[bytes | None, bytes | None] = {}  # exactly once: no row is that before it
    for record in held(broker, MEMBERS):
        if (record.key or b"").startswith(f"{topic_name}/".encode()):
            assert newest.get(record.key) != record.value
            newest[record.key] = record.value
