"""What is counted, under which labels; when a program counts as alive and as ready; the port."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack

import pytest

from stream_icd.core.errors import BadSettings, BadSnapshot, BrokerUnavailable
from stream_icd.kafka.delivery.handler import BatchDone
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.waiting import Clock as OutageClock
from stream_icd.kafka.waiting import Outage
from stream_icd.streaming.dead_letters.letters import dead_letter
from stream_icd.streaming.execution.processes import InHand
from stream_icd.streaming.metrics import probe
from stream_icd.streaming.metrics.metrics import Metrics
from stream_icd.streaming.metrics.programs import SendingMetrics
from stream_icd.streaming.metrics.server import serving
from tests.testbed.scraping import asked

SENT_MS = 1_000_000
MOST_GRAPHS, MOST_CONNECTIONS = 100, 50


def result(graph: str = "g", **headers: bytes) -> OutgoingRecord:
    of_result = tuple((f"icd_{name}", value) for name, value in headers.items())
    return OutgoingRecord("out", b"", graph.encode(), of_result)


RESULT = result(ms_decode=b"4.000", ms_cluster=b"30.000", evidence=b"weak")


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
    loop.done(BatchDone(records, (RESULT, RESULT, letter), 0.02))
    assert sample(metrics, "snapshots_total", topic="in", graph="g") == 2
    assert sample(metrics, "snapshots_total", topic="in", graph="other") is None
    assert sample(metrics, "skipped_total", topic="in") == 1
    why = {"topic": "in", "stage": "decode", "exception": "BadSnapshot"}
    assert sample(metrics, "dead_letters_total", **why) == 1
    assert sample(metrics, "stage_seconds_count", stage="decode") == 2
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


def test_stages_that_a_method_does_not_have_are_not_served(metrics: Metrics) -> None:
    for spent, count in ((b"0.000", None), (b"2.000", 1)):  # of bp, which has none, and of icd
        published = result(ms_features=spent, ms_encode=spent)
        metrics.watch("in", "group").done(BatchDone((record(0),), (published,), 0.02))
        for stage in ("features", "encode"):
            assert sample(metrics, "stage_seconds_count", stage=stage) == count


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
