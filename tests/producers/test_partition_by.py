"""Producers may spread a graph's snapshots over partitions: more detectors, no order."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from typer.testing import CliRunner

from stream_icd.commands.cli.main import app
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.record import Record
from stream_icd.kafka.topics import COMMUNITIES, LABELS, SNAPSHOTS
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Model
from stream_icd.registry.model import VersionedModel
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.runner import Runner
from tests.producers.sent import records
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.handlers import Calls
from tests.testbed.streams import beside

N_PARTITIONS = 6
N_SNAPSHOTS = 100  # a partition has none of them once in ten million graphs
pytestmark = pytest.mark.brokers("memory")
RECIPE = Recipe(name="test", encoder={"widths": (16, 8)}, discriminator_widths=(8, 1))


def produce(broker: Broker, graph: str, *options: str) -> dict[str, object]:
    """`stream-icd produce gn` of small graphs; its summary."""
    command = ["produce", "gn", "--graph", graph, "--nodes", "60", "--communities", "4"]
    command += ["--p-in", "0.8", "--bootstrap-servers", broker.bootstrap_servers, *options]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    lines = [line for line in done.stderr.splitlines() if '"snapshots"' in line]
    found: dict[str, object] = json.loads(lines[-1])
    return found


def header(record: Record, name: str) -> str:
    return dict(record.headers)[name].decode()


@contextmanager
def detector(broker: Broker, graph: str) -> Iterator[None]:
    """One of a group of detectors of this graph."""
    settings = DetectSettings(threads=1)
    model = VersionedModel("test@0", Model(RECIPE))
    runner = Runner(Detector(lambda: model, settings), DeadLetterLimit(), graph=graph)
    handler = Calls(runner.handle)
    with beside(partial(run_consumer, broker.settings(), SNAPSHOTS, graph, handler)) as errors:
        yield
    assert not errors


def test_a_graph_is_spread_evenly_goes_on_and_lands_in_the_same_places_again(
    broker: Broker, topic_name: str
) -> None:
    spread = ("--partition-by", "snapshot")
    limit = ("--limit", str(N_SNAPSHOTS))
    assert produce(broker, topic_name, *spread, "--limit", "20")["snapshots"] == 20
    rest = produce(broker, topic_name, *spread, *limit)
    assert (rest["snapshots"], rest["already_sent"]) == (N_SNAPSHOTS - 20, 20)
    sent = records(broker, topic_name)
    assert len({header(record, "ce_id") for record in sent}) == len(sent) == N_SNAPSHOTS
    shares = Counter(record.partition for record in sent)
    assert set(shares) == set(range(N_PARTITIONS))
    assert max(shares.values()) < N_SNAPSHOTS / 2
    assert len({record.partition for record in records(broker, topic_name, LABELS)}) == 1

    with detector(broker, topic_name), detector(broker, topic_name):
        wait_until(lambda: len(records(broker, topic_name, COMMUNITIES)) >= N_SNAPSHOTS, 120)
    results = Counter(
        header(record, "icd_snapshot_id") for record in records(broker, topic_name, COMMUNITIES)
    )
    assert results == Counter(header(record, "ce_id") for record in sent)

    assert produce(broker, topic_name, *spread, *limit, "--again")["already_sent"] == 0
    places = {(header(r, "ce_id"), r.partition) for r in records(broker, topic_name)}
    assert len(places) == N_SNAPSHOTS
    assert len(records(broker, topic_name)) == 2 * N_SNAPSHOTS


def test_by_default_a_graph_has_one_partition_in_order(memory: Broker, topic_name: str) -> None:
    produce(memory, topic_name, "--limit", "12")
    sent = records(memory, topic_name)
    assert len({record.partition for record in sent}) == 1
    ends = [header(record, "icd_window_end") for record in sent]
    assert ends == sorted(ends)
    # Sent again in the other way, what is there is known in whatever partition it is.
    done = produce(memory, topic_name, "--limit", "20", "--partition-by", "snapshot")
    assert (done["snapshots"], done["already_sent"]) == (8, 12)
