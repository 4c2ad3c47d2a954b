"""A worker at work, as an operator sees it: scraped, asked for its health, read in its log."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from stream_icd.core.child_process import stop_children
from stream_icd.kafka.messages.records import outgoing
from stream_icd.kafka.topics import COMMUNITIES, SNAPSHOTS, create_topics
from stream_icd.methods.synthetic.lfr import LfrSettings
from stream_icd.registry.find import open_model
from stream_icd.sources.generated import independent_lfr
from stream_icd.wire.snapshots import encode_snapshot
from tests.testbed.brokers import Broker, timeouts, wait_until
from tests.testbed.scraping import asked, lines, scraped, value
from tests.testbed.starting import start_forked
from tests.testbed.streams import publish

N_GOOD, N_BAD = 6, 2


@dataclass(frozen=True)
class Worker:
    """A program of ours, its log and its metrics port."""

    log: Path
    port: int

    def count(self, name: str, **labels: str) -> float:
        return value(scraped(self.port), f"stream_icd_{name}", **labels)

    @property
    def lags(self) -> list[float]:
        samples = scraped(self.port).items()
        return [lag for (name, _), lag in samples if name == "stream_icd_lag_records"]

    @property
    def is_ready(self) -> bool:
        return asked(self.port, "/readyz")[0] == 200

    def logged(self, event: str) -> list[dict[str, Any]]:
        return [line for line in lines(self.log) if line["event"] == event]


@contextmanager
def started(broker: Broker, folder: Path, *command: str) -> Iterator[Worker]:
    """The program, once it answers on its port."""
    log = folder / f"{command[1]}-{time.monotonic_ns()}.log"
    options = ("--metrics-port", "0", "--bootstrap-servers", broker.bootstrap_servers)
    process = start_forked((*command, *options), log)

    def ports() -> list[int]:
        return [line["port"] for line in lines(log, ended=False) if line["event"] == "metrics"]

    try:
        wait_until(ports, timeout_s=60)
        yield Worker(log, *ports())
    finally:
        stop_children([process], 20)


@pytest.fixture
def graph(broker: Broker, topic_name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A graph of this test's own in the live topics: good snapshots and bad ones."""
    # Not thrown out of its group, a detector does nothing twice, and each line is there once.
    for name, seconds in timeouts(broker.steady()).items():
        monkeypatch.setenv(name, seconds)
    create_topics(broker.settings())
    settings = LfrSettings(n_nodes=200, max_degree=30, max_community=60)
    stream = independent_lfr(0, N_GOOD, settings, graph=topic_name).snapshots
    good = [outgoing(SNAPSHOTS, encode_snapshot(snapshot)) for snapshot, _ in stream]
    bad = [replace(record, value=b"garbage") for record in good[:N_BAD]]
    publish(broker, [*good, *bad])
    return topic_name


@pytest.mark.brokers("kafka")
def test_numbers_health_and_logs_tell_what_happened(
    broker: Broker, graph: str, model_folder: Path, tmp_path: Path
) -> None:
    version = open_model(str(model_folder)).version
    detect = ("consume", "detect", "--graph", graph, "--group", graph, "--model", str(model_folder))
    with ExitStack() as until_the_end:
        start = until_the_end.enter_context
        detector = start(started(broker, tmp_path, *detect, "--processes", "2"))
        assert asked(detector.port, "/healthz")[0] == 200
        wait_until(lambda: detector.is_ready, timeout_s=60)
        assert detector.logged("started")  # it was warm by then
        assert detector.count("ready") == 1
        in_rules = {name for name in series_of_alerts() if "_retrain_" not in name}
        absent = in_rules - {name for name, _ in scraped(detector.port)}
        # The lag comes with the partitions, and this model is no champion.
        assert absent <= {"stream_icd_lag_records", "stream_icd_champion_in_use"}
        of_group = {"group": graph, "topic": SNAPSHOTS}
        wait_until(
            lambda: detector.count("snapshots_total", graph=graph, **of_group) == N_GOOD,
            timeout_s=60,
        )
        why = {"stage": "decode", "exception": "BadSnapshot"}
        wait_until(lambda: detector.count("dead_letters_total", **why, **of_group) == N_BAD)
        wait_until(lambda: len(detector.lags) == 6 and not any(detector.lags))
        counts = {"decode": N_GOOD, "cluster": N_GOOD, "features": 0, "encode": 0}
        assert counts == {s: detector.count("stage_seconds_count", stage=s) for s in counts}
        for stage in ("cluster", "publish"):
            assert detector.count("stage_seconds_sum", stage=stage) > 0
        assert detector.count("age_seconds_count", **of_group) == N_GOOD
        assert detector.count("model_info", group=graph, version=version) == 1
        assert detector.count("processes") == 2
        assert detector.count("processes_resident_memory_bytes") > 2 * 50e6
        joined = detector.count("rebalances_total", **of_group)
        assert joined >= 1

        other = start(started(broker, tmp_path, *detect))
        wait_until(lambda: other.is_ready and len(detector.lags + other.lags) == 6, timeout_s=60)
        wait_until(lambda: detector.count("rebalances_total", **of_group) > joined)
        assert other.count("processes") == 1

        archive = ("archive", str(tmp_path / "past"), "--kind", "communities", "--group", graph)
        for group, command in (
            (f"{graph}-track", ("track", "--group", f"{graph}-track")),
            (f"{graph}-{COMMUNITIES}", archive),
        ):
            follower = start(started(broker, tmp_path, "consume", *command, "--graph", graph))
            labels = {"group": group, "topic": COMMUNITIES, "graph": graph}
            count = partial(follower.count, "snapshots_total", **labels)
            wait_until(lambda count=count: count() == N_GOOD, timeout_s=60)
            wait_until(lambda f=follower: len(f.lags) == 6 and not any(f.lags))
    check_log_of(detector, graph, version)
    assert all(line["event"] for line in lines(follower.log))


def series_of_alerts() -> set[str]:
    """An alert sees a count that changes, not one that appears: all are there from the start."""
    file = Path(__file__).parents[3] / "deploy" / "monitoring" / "prometheus" / "alerts.yml"
    groups = yaml.safe_load(file.read_text("utf-8"))["groups"]
    rules = " ".join(rule["expr"] for group in groups for rule in group["rules"])
    return set(re.findall(r"\bstream_icd_\w+", rules))


def check_log_of(detector: Worker, graph: str, version: str) -> None:
    """Each line on a record says which record, and under which model it was worked on."""
    detected, dead = detector.logged("detected"), detector.logged("dead letter")
    assert (len(detected), len(dead)) == (N_GOOD, N_BAD)
    for line in (*detected, *dead):
        assert (line["topic"], line["graph"], line["model"]) == (SNAPSHOTS, graph, version)
        assert line["snapshot"]
        assert {"partition", "offset", "level", "timestamp"} <= line.keys()
    offsets = [line["offset"] for line in detected]
    assert [line["offset"] for line in dead] == [max(offsets) + 1, max(offsets) + 2]
    assert dead[0]["snapshot"] == detected[0]["snapshot"]


@pytest.mark.kafka
def test_while_the_broker_does_not_answer_it_is_alive_but_not_ready(
    kafka: Broker,
    model_folder: Path,
    topic_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if kafka.node is None:
        pytest.skip("it pauses the broker: unset STREAM_ICD_TEST_KAFKA, so that it is one of ours")
    monkeypatch.setenv("STREAM_ICD_SESSION_TIMEOUT_S", "3")
    create_topics(kafka.settings())
    detect = ("consume", "detect", "--graph", topic_name, "--group", topic_name)
    with started(kafka, tmp_path, *detect, "--model", str(model_folder)) as detector:
        wait_until(lambda: detector.is_ready, timeout_s=60)
        with kafka.node.paused():
            why = "the broker has not answered for"
            wait_until(lambda: why in asked(detector.port, "/readyz")[1])
            assert not detector.is_ready
            assert asked(detector.port, "/healthz") == (200, "ok\n")
        wait_until(lambda: detector.is_ready, timeout_s=60)
