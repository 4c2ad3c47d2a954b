"""`stream-icd consume detect`: options that contradict each other, and levels."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from consumers.detect import batch_limits
from stream_icd.commands.programs.options import DetectionOptions
from stream_icd.core.child_process import stop_children
from stream_icd.kafka.topics import SNAPSHOTS, create_topics
from tests.run_here import run_here
from tests.streaming.workers.test_detect_stream import N_SMALL, OF_LARGE, windows
from tests.testbed.brokers import Broker
from tests.testbed.drifting import outgoing
from tests.testbed.starting import consuming
from tests.testbed.streams import publish


@pytest.mark.parametrize(
    ("cores", "processes", "threads"), [(1, 1, 1), (2, 1, 2), (8, 2, 4), (16, 1, 4), (2, 3, 1)]
)
def test_threads_and_processes_together_use_no_more_than_the_cores(
    monkeypatch: pytest.MonkeyPatch, cores: int, processes: int, threads: int
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert DetectionOptions().settings(processes).threads == threads
    assert DetectionOptions(threads=3).settings(processes).threads == 3


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--horizon", "soon"], "BadSettings: horizon 'soon': give auto, off, or a number"),
        (["--horizon", "0.5", "--method", "icd"], "BadSettings: horizon 0.5: give auto"),
        (["--horizon", "5", "--memory", "off"], "--horizon 5 has no effect with --memory off"),
        (["--model", "nosuch"], "ModelNotFound: no model 'nosuch'"),
        (["--model", "champion"], "--registry"),
        (["--model", "previous"], "--registry"),
    ],
)
def test_wrong_options_are_named_before_a_broker_that_is_not_there(
    options: list[str], reason: str
) -> None:
    done = run_here("consume", "detect", *options, "-b", "127.0.0.1:1")
    assert (done.returncode, reason in done.stderr) == (78, True)


def test_batches_are_limited_by_time_but_have_several_graphs_for_several_processes() -> None:
    assert batch_limits(1, remembers=True) == (16, 1)
    assert batch_limits(4, remembers=False) == (64, 4)
    assert batch_limits(4, remembers=True) == (128, None)


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
