"""Detectors with memory that are killed, or share graphs: the results of an uninterrupted run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.record import Record
from stream_icd.kafka.topics import COMMUNITIES, MEMORY, SNAPSHOTS, create_topics
from stream_icd.methods.memory.horizon import Horizon
from stream_icd.methods.model import Method
from stream_icd.registry.find import open_model
from stream_icd.registry.model import save_model
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.subscribers.subscribe import subscribe
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.memories import Memories
from stream_icd.streaming.workers.runner import Runner
from stream_icd.wire.states import state_key
from tests.streaming.workers.remembered import said, uninterrupted
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.drifting import outgoing, remembering_model, stream
from tests.testbed.handlers import WhenDone
from tests.testbed.starting import consuming
from tests.testbed.streams import beside, held, publish

N_WINDOWS = 24
N_LATER = 6  # sent after the kill: work for the second, however much the first had done by then
HOW: dict[str, tuple[Method, Horizon]] = {"kafka": ("bp", "auto"), "embedded": ("icd", 3)}
"""Method and horizon on each broker; test_methods_and_horizons.py has all of them, in process."""


def states_of(broker: Broker, graph: str) -> list[Record]:
    return [record for record in held(broker, MEMORY) if record.key == state_key(graph, graph)]


def snapshot_of(state: Record) -> str:
    return dict(state.headers)["icd_snapshot_id"].decode()


def test_kill_9_of_a_detector_changes_no_result_and_no_memory(
    broker: Broker, topic_name: str, tmp_path: Path
) -> None:
    graph = topic_name  # a graph of this test's own in the live topics
    create_topics(broker.settings())
    model = tmp_path / "model"
    save_model(remembering_model().model, model)
    windows = stream(graph, N_WINDOWS)
    sent = [outgoing(window, SNAPSHOTS) for window in windows]
    publish(broker, sent[:-N_LATER])
    results = subscribe(graph, start="beginning", limit=N_WINDOWS, settings=broker.settings())
    method, horizon = how = HOW[broker.name]
    options = ("--model", str(model), "--batch", "3", "--processes", "2")
    options += ("--method", method, "--horizon", str(horizon))
    with consuming(broker, graph, tmp_path / "first.log", "detect", *options):
        found = [next(results) for _ in range(N_WINDOWS // 3)]
    publish(broker, sent[-N_LATER:])
    with consuming(broker, graph, tmp_path / "second.log", "detect", *options) as second:
        found += list(results)
        # Without transactions, a state may come after its result.
        wait_until(lambda: snapshot_of(states_of(broker, graph)[-1]) == windows[-1].id)
        second.terminate()
        assert second.wait(30) == 0, (tmp_path / "second.log").read_text()
    expected, last = uninterrupted(windows, open_model(str(model)), None, *how)
    assert [said(communities) for communities in found] == expected
    states = states_of(broker, graph)
    assert states[-1].value == last
    if broker.name == "kafka":  # results and memory are one transaction: each is there once
        places = [dict(state.headers)["icd_snapshot_place"] for state in states]
        published = [record for record in held(broker, COMMUNITIES) if record.key == graph.encode()]
        assert places == [dict(record.headers)["icd_snapshot_place"] for record in published]
        assert len(places) == N_WINDOWS


GRAPHS = ("a", "b", "c", "d", "e")


@contextmanager
def detecting(broker: Broker, topics: tuple[str, str, str]) -> Iterator[set[str]]:
    """A detector in a thread; yields the graphs that it has worked on."""
    source, found, memory = topics
    kafka = broker.settings()
    settings = DetectSettings(
        topic=found, memory="auto", memory_topic=memory, group=source, threads=1
    )
    detector = Detector(remembering_model, settings, memories=Memories.open(kafka, source, memory))
    worked: set[str] = set()
    consume = partial(
        run_consumer,
        kafka,
        source,
        source,
        Runner(detector),
        max_records=4,
        watchers=[
            WhenDone(lambda batch: worked.update((r.key or b"").decode() for r in batch.records))
        ],
    )

    with beside(consume) as errors:
        yield worked
    assert not errors


@pytest.mark.brokers("kafka")
def test_graphs_move_between_detectors_with_their_memory(broker: Broker, topic_name: str) -> None:
    topics = topic_name, f"{topic_name}.found", f"{topic_name}.memory"
    create_topics(broker.settings())  # workers write notes
    create_topics(
        broker.settings(),
        [
            *TopicSpec(topics[0], partitions=3).with_dead_letters(),
            TopicSpec(topics[1], partitions=3),
            TopicSpec(topics[2], partitions=2, cleanup_policy="compact"),
        ],
    )
    n_windows = 16
    windows = {graph: stream(graph, n_windows) for graph in GRAPHS}
    sent = 0

    def send_one_more() -> None:
        nonlocal sent
        publish(broker, [outgoing(windows[graph][sent], topics[0]) for graph in GRAPHS])
        sent += 1
        wait_until(lambda: n_found() == sent * len(GRAPHS), timeout_s=90)

    def n_found() -> int:
        named = {
            (record.key, dict(record.headers)["icd_snapshot_id"])
            for record in held(broker, topics[1])
        }
        return len(named)

    with detecting(broker, topics) as first:
        send_one_more()
        with detecting(broker, topics) as second:
            while not second and sent < n_windows - 2:  # it takes a while to join
                send_one_more()
                time.sleep(1)
            send_one_more()
        send_one_more()  # what the second had comes back to the first
    assert first == set(GRAPHS)
    assert second, "no graph moved"
    results = list(
        subscribe(start="beginning", until="end", settings=broker.settings(), topic=topics[1])
    )
    for graph in GRAPHS:
        found = [said(result) for result in results if result.graph == graph]
        assert found == uninterrupted(windows[graph][:sent], remembering_model())[0]
