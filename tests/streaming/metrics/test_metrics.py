"""What is counted; when a program counts as alive and as ready; what an operator sees of it."""

from __future__ import annotations

import re
import socket
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
from stream_icd.core.errors import BadSettings, BadSnapshot, BrokerUnavailable
from stream_icd.kafka.delivery.handler import BatchDone
from stream_icd.kafka.messages.records import outgoing
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.topics import COMMUNITIES, SNAPSHOTS, create_topics
from stream_icd.kafka.waiting import Clock as OutageClock
from stream_icd.kafka.waiting import Outage
from stream_icd.methods.synthetic.lfr import LfrSettings
from stream_icd.registry.find import open_model
from stream_icd.sources.generated import independent_lfr
from stream_icd.streaming.dead_letters.letters import dead_letter
from stream_icd.streaming.execution.processes import InHand
from stream_icd.streaming.metrics import probe
from stream_icd.streaming.metrics.metrics import Metrics
from stream_icd.streaming.metrics.programs import SendingMetrics
from stream_icd.streaming.metrics.server import serving
from stream_icd.wire.snapshots import encode_snapshot
from tests.testbed.brokers import Broker, timeouts, wait_until
from tests.testbed.scraping import asked, lines, scraped, value
from tests.testbed.starting import start_forked
from tests.testbed.streams import publish

SENT_MS = 1_000_000
MOST_GRAPHS, MOST_CONNECTIONS = 100, 50


def result(graph: str = "g", **headers: bytes) -> OutgoingRecord:
    of_result = tuple((f"icd_{name}", value) for name, value in headers.items())
    return OutgoingRecord("out", b"", graph.encode(), of_result)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metrics(clock: Clock) -> Metrics:
    return Metrics(300, session_timeout_s=10, clock=clock, now=lambda: SENT_MS / 1000 + 2.5)


def record(offset: int, graph: str = "g", *headers: tuple[str, bytes]) -> Record:
    return Record("in", 0, offset, SENT_MS, graph.encode(), b"", headers)


def sample(metrics: Metrics, name: str, **labels: str) -> float | None:
    of = {"group": "group"} if "topic" in labels else {}
    return metrics.registry.get_sample_value(f"stream_icd_{name}", labels | of)


def test_what_a_batch_published_is_counted_by_topic_graph_and_stage(metrics: Metrics) -> None:
    of_result = (("icd_ms_decode", b"7"), ("icd_evidence", b"sure"), ("icd_horizon", b"7"))
    bad = record(2, "g", *of_result, ("icd_dlq_stage", b"lie"))
    letter = dead_letter(bad, "decode", BadSnapshot("no such column"))
    records = (record(0), record(1), bad, record(3, "other"))
    loop = metrics.watch("in", "group", graph="g")
    by_bp = result(ms_decode=b"4.000", ms_cluster=b"30.000", ms_encode=b"0.000", evidence=b"weak")
    by_icd = result(ms_decode=b"4.000", ms_cluster=b"30.000", ms_encode=b"2.000", evidence=b"weak")
    loop.done(BatchDone(records, (by_bp, by_icd, letter), 0.02))
    assert sample(metrics, "snapshots_total", topic="in", graph="g") == 2
    assert sample(metrics, "snapshots_total", topic="in", graph="other") is None
    assert sample(metrics, "skipped_total", topic="in") == 1
    why = {"topic": "in", "stage": "decode", "exception": "BadSnapshot"}
    assert sample(metrics, "dead_letters_total", **why) == 1
    served = [sample(metrics, "stage_seconds_count", stage=of) for of in ("decode", "encode")]
    assert served == [2, 1], "a stage that a method does not have takes no time"
    assert sample(metrics, "stage_seconds_sum", stage="cluster") == pytest.approx(0.06)
    assert sample(metrics, "stage_seconds_sum", stage="publish") == 0.02
    assert sample(metrics, "evidence_total", evidence="weak") == 2
    assert sample(metrics, "evidence_total", evidence="sure") is None
    assert sample(metrics, "horizon_windows", graph="g") is None
    assert sample(metrics, "age_seconds_sum", topic="in") == pytest.approx(5.0)


def test_how_far_back_each_graph_looks_is_served_until_a_rebalance(metrics: Metrics) -> None:
    loop = metrics.watch("in", "group")
    loop.polled(1, 0.0)
    first = result(horizon=b"2", predicted_bits=b"0.5")
    results = first, result(horizon=b"4.5"), result("h", horizon=b"1")
    loop.done(BatchDone((record(0),), results, 0.02))
    assert [sample(metrics, "horizon_windows", graph=graph) for graph in "gh"] == [4.5, 1]
    assert [sample(metrics, "predicted_bits", graph=graph) for graph in "gh"] == [0.5, None]
    many = tuple(result(f"n{i}", horizon=b"3") for i in range(MOST_GRAPHS))
    loop.done(BatchDone((record(1),), many, 0.02))
    assert sample(metrics, "horizon_windows", graph=f"n{MOST_GRAPHS - 3}") == 3
    assert sample(metrics, "horizon_windows", graph="other") is None
    loop.polled(2, 0.0)
    assert sample(metrics, "horizon_windows", graph="g") is None


def test_a_thousand_graphs_do_not_make_a_thousand_series(metrics: Metrics) -> None:
    records = tuple(record(i, f"graph-{i}") for i in range(1000))
    metrics.watch("in", "group").done(BatchDone(records, (), 0.02))
    assert sample(metrics, "snapshots_total", topic="in", graph="graph-0") == 1
    assert sample(metrics, "snapshots_total", topic="in", graph="other") == 1000 - MOST_GRAPHS


def test_rebalances_are_counted_and_a_partition_that_went_away_has_no_lag(metrics: Metrics) -> None:
    loop = metrics.watch("in", "group")
    for generation in (None, 4, 4, None, 5, 5):
        loop.polled(generation, 0.1)
    assert sample(metrics, "rebalances_total", topic="in") == 2
    loop.lagged({0: 5, 1: 7})
    loop.lagged({1: 6})
    assert [sample(metrics, "lag_records", topic="in", partition=p) for p in "01"] == [None, 6]


def test_the_port_answers(metrics: Metrics) -> None:
    with serving(metrics, port=0) as port:
        assert asked(port, "/healthz") == (200, "ok\n")
        assert asked(port, "/readyz") == (503, "starting: opening the model and warming up\n")
        assert "stream_icd_ready 0.0" in asked(port, "/metrics")[1]
        metrics.watch("in", "group").polled(1, silence_s=0)
        assert asked(port, "/readyz") == (200, "ok\n")
        assert "stream_icd_ready 1.0" in asked(port, "/metrics")[1]
        assert asked(port, "/")[0] == 404
        metrics.model("as@1", "group")
        model = 'stream_icd_model_info{group="group",version="as@1"} 1.0'
        assert model in asked(port, "/metrics")[1]
        assert sample(metrics, "in_hand_seconds") == 0
        metrics.in_hand(lambda: [InHand("snapshot a/7", 12.3, 300.0), InHand("b", 0.1, 300.0)])
        assert sample(metrics, "in_hand_seconds") == 12.3
        ok, first, _ = asked(port, "/healthz")[1].splitlines()
        assert (ok, first) == ("ok", "in hand for 12 s, at most 300 s: snapshot a/7")
        metrics.in_hand(lambda: [InHand("snapshot a/7", 41.2, 30.0), InHand("b", 2.0, 30.0)])
        too_long = "in hand for 41 s, at most 30 s: snapshot a/7\n"
        assert asked(port, "/healthz") == (503, too_long)
        with (
            pytest.raises(BadSettings, match=f"port {port}.*--metrics-port"),
            serving(metrics, port=port),
        ):
            pass
    assert asked(port, "/healthz")[0] == 0
    with pytest.raises(BadSettings, match="--metrics-host is empty"), serving(metrics, 0, host=""):
        pass


def test_who_opens_many_connections_keeps_no_probe_out_and_fills_no_log(
    metrics: Metrics, capfd: pytest.CaptureFixture[str]
) -> None:
    with serving(metrics, port=0) as port, ExitStack() as until_the_end:
        began = time.monotonic()
        silent = [
            until_the_end.enter_context(socket.create_connection(("127.0.0.1", port), 10))
            for _ in range(MOST_CONNECTIONS + 5)
        ]
        assert time.monotonic() - began < 3
        assert asked(port, "/healthz") == (200, "ok\n")
        assert [connection.recv(1) for connection in silent[:5]] == [b""] * 5
        unknown = b"GET /metrics HTTP/1.0\r\nAccept: text/plain;version=a\r\n\r\n"
        silent[-1].sendall(unknown)
        assert silent[-1].recv(100).startswith(b"HTTP/1.0 200 OK")
    assert "Traceback" not in capfd.readouterr().err


def test_it_can_be_served_on_ipv6(metrics: Metrics) -> None:
    with socket.socket(socket.AF_INET6) as free:
        try:
            free.bind(("::1", 0))
        except OSError as error:
            pytest.skip(f"this machine has no IPv6 ({error}): run it on one that has")
    with serving(metrics, port=0, host="::1") as port:
        assert port > 0


def test_a_worker_is_ready_while_it_is_a_member_whose_broker_answers(
    metrics: Metrics, clock: Clock
) -> None:
    health = metrics.health
    starting, unsettled = "starting: opening the model and warming up", "not a settled member"
    assert (health.not_alive(), health.not_ready()) == ([], [starting])
    health.start.failed(BrokerUnavailable("away"))
    assert health.not_alive() == []
    assert health.not_ready() == ["starting: the broker has not answered for 0 s"]
    health.start.answered()
    assert health.not_ready() == [starting]
    health.polled("t")
    assert health.not_ready() == [f"t: {unsettled} of its group"]
    health.polled("t", generation=7, silence_s=9)
    assert (health.not_alive(), health.not_ready()) == ([], [])
    clock.now += 2  # a loop that does not tell any more counts as silence, too
    assert health.not_ready() == ["t: the broker has not answered for 11 s"]
    assert health.not_alive() == []
    health.polled("t", generation=None, silence_s=0)  # it was thrown out of the group
    assert health.not_ready() == [f"t: {unsettled} of its group"]
    health.polled("t", generation=8)
    health.polled("other")  # all loops of a process count
    assert health.not_ready() == [f"other: {unsettled} of its group"]
    clock.now += 299
    assert health.not_alive() == []
    clock.now += 2  # whether a loop hangs or never began
    hanging = "has not polled for 301 s, the limit is 300"
    assert health.not_alive() == [f"t: {hanging}", f"other: {hanging}"]


def test_a_producer_is_ready_while_its_broker_answers(clock: Clock) -> None:
    outage = Outage(clock=OutageClock(now=clock))
    metrics = SendingMetrics(outage)

    def served() -> list[float | None]:
        names = "stream_icd_ready", "stream_icd_outage_seconds"
        return [metrics.registry.get_sample_value(name) for name in names]

    assert not metrics.health.not_ready()
    outage.failed(BrokerUnavailable("away"))
    clock.now += 20
    assert metrics.health.not_ready() == ["the broker has not answered for 20 s"]
    assert served() == [0, 20]
    outage.answered()
    assert not metrics.health.not_ready()
    assert served() == [1, 0]


def test_the_images_healthcheck_says_what_the_worker_says(
    metrics: Metrics, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics.watch("in", "group")
    with serving(metrics, port=0) as port:
        assert probe.complaint(port) is None
        clock.now += 301
        assert "has not polled for 301 s" in (probe.complaint(port) or "")
    assert probe.complaint(port) is None, "a program that serves no metrics is not asked"
    monkeypatch.setattr(probe, "_TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it listens, and says nothing
        assert "does not answer" in (probe.complaint(silent.getsockname()[1]) or "")


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
