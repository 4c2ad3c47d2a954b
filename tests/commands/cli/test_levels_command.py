"""`stream-icd consume detect --levels`, then `subscribe`: what a reader sees of the levels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stream_icd.core.child_process import stop_children
from stream_icd.kafka.topics import SNAPSHOTS, create_topics
from tests.run_here import run_here
from tests.streaming.workers.test_detect_levels import N_SMALL, OF_LARGE, windows
from tests.testbed.brokers import Broker
from tests.testbed.drifting import outgoing
from tests.testbed.starting import consuming
from tests.testbed.streams import publish


@pytest.mark.brokers("embedded")
def test_a_detector_publishes_levels_and_subscribers_show_them(
    broker: Broker, topic_name: str, tmp_path: Path
) -> None:
    create_topics(broker.settings())
    publish(broker, [outgoing(one, SNAPSHOTS) for one in windows(2, topic_name)])
    with consuming(broker, topic_name, tmp_path / "log", "detect", "--levels") as detector:
        options = ("--from", "beginning", "--limit", "2", "--format", "json")
        where = ("-b", broker.bootstrap_servers, "--graph", topic_name)
        done = run_here("subscribe", *options, *where)
        assert stop_children([detector], 30)[0] == 0
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == 2, done.stderr
    for result in found:
        (level,) = result["levels"]
        assert len(level) == N_SMALL
        assert len(set(level)) == N_SMALL // OF_LARGE
    assert set(found[0]["levels"][0]) == set(found[1]["levels"][0])
