"""Workers that want different graphs do not lose each other's records."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from stream_icd.core.child_process import stop_child
from stream_icd.core.errors import BadSettings
from stream_icd.core.snapshot import Snapshot
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.topics import COMMUNITIES, SNAPSHOTS, create_topics
from stream_icd.registry.model import VersionedModel, save_model
from stream_icd.streaming.subscribers.subscribe import subscribe
from stream_icd.streaming.workers.runner import Runner
from tests.streaming.workers.crashing import Copy
from tests.testbed.brokers import Broker, timeouts
from tests.testbed.starting import start_forked

Topics = tuple[str, str]


@pytest.mark.brokers("embedded")
def test_two_detectors_of_a_graph_each_find_all_of_it_in_their_default_groups(
    broker: Broker,
    topic_name: str,
    tmp_path: Path,
    model: VersionedModel,
    snapshot: Callable[..., Snapshot],
    outgoing: Callable[[Snapshot, str], OutgoingRecord],
) -> None:
    create_topics(broker.settings())
    save_model(model.model, tmp_path / "model")
    sizes = {f"{topic_name}-a": 20, f"{topic_name}-b": 12}
    with Publisher(broker.settings()) as publisher:
        for graph, size in sizes.items():
            for i in range(size):
                publisher.send(outgoing(snapshot(i, graph), SNAPSHOTS))
    options = ("--model", str(tmp_path / "model"), "-b", broker.bootstrap_servers)
    quick = os.environ | timeouts(broker.settings())
    detectors = [
        start_forked(("consume", "detect", *options, "--graph", graph), tmp_path / graph, env=quick)
        for graph in sizes
    ]
    try:
        for graph, size in sizes.items():
            results = subscribe(
                graph, start="beginning", limit=size, settings=broker.settings(), topic=COMMUNITIES
            )
            assert [result.snapshot_id for result in results] == [
                f"{graph}/{i}" for i in range(size)
            ]
    finally:
        statuses = [stop_child(detector, 30) for detector in detectors]
    assert statuses == [0, 0]
    for graph in sizes:
        assert f'"group": "stream-icd-detect-{graph}"' in (tmp_path / graph).read_text()


def run_briefly(broker: Broker, topics: Topics, graph: str | None) -> None:
    """A worker that is asked to stop when it starts."""
    stop = threading.Event()
    stop.set()
    runner = Runner(Copy(topics[1]), graph=graph)
    run_consumer(broker.settings(), topics[0], topics[0], runner, stop)


@pytest.mark.brokers("memory")
@pytest.mark.parametrize(("first", "other"), [("a", "b"), (None, "a"), ("a", None)])
def test_a_group_that_is_given_to_workers_of_different_graphs_is_refused(
    broker: Broker, topics: Topics, first: str | None, other: str | None
) -> None:
    create_topics(broker.settings())
    run_briefly(broker, topics, first)
    reads = "all graphs" if first is None else f"graph {first} only"
    with pytest.raises(BadSettings, match=f"reads {reads} of .* another --group"):
        run_briefly(broker, topics, other)
    run_briefly(broker, topics, first)
