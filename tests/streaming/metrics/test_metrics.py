"""What is counted, under which labels."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack

import pytest

from stream_icd.core.errors import BadSettings, BadSnapshot
from stream_icd.kafka.delivery.handler import BatchDone
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.streaming.dead_letters.letters import dead_letter
from stream_icd.streaming.execution.processes import InHand
from stream_icd.streaming.metrics.metrics import MOST_GRAPHS, Health, Metrics
from stream_icd.streaming.metrics.server import MOST_CONNECTIONS, serving
from tests.testbed.scraping import asked

SENT_MS = 1_000_000
RESULT = OutgoingRecord(
    "out",
    b"",
    b"g",
    (("icd_ms_decode", b"4.000"), ("icd_ms_cluster", b"30.000"), ("icd_evidence", b"weak")),
)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(Health(300, 10), now=lambda: SENT_MS / 1000 + 2.5)


def record(offset: int, graph: str = "g", **fields: object) -> Record:
    return Record("in", 0, offset, SENT_MS, graph.encode(), b"", **fields)  # type: ignore[arg-type]


def sample(metrics: Metrics, name: str, **labels: str) -> float | None:
    of = {"group": "group"} if "topic" in labels else {}
    return metrics.registry.get_sample_value(name, labels | of)


def test_results_and_dead_letters_of_a_batch_are_counted(metrics: Metrics) -> None:
    bad = record(
        2, headers=(("icd_ms_decode", b"7"), ("icd_evidence", b"sure"), ("icd_dlq_stage", b"lie"))
    )
    outgoing = (RESULT, RESULT, dead_letter(bad, "decode", BadSnapshot("no such column")))
    metrics.watch("in", "group").done(BatchDone((record(0), record(1), bad), outgoing, 0.02))
    assert sample(metrics, "stream_icd_snapshots_total", topic="in", graph="g") == 2
    why = {"topic": "in", "stage": "decode", "exception": "BadSnapshot"}
    assert sample(metrics, "stream_icd_dead_letters_total", **why) == 1
    assert sample(metrics, "stream_icd_stage_seconds_count", stage="decode") == 2
    seconds = sample(metrics, "stream_icd_stage_seconds_sum", stage="cluster")
    assert seconds == pytest.approx(0.06)
    assert sample(metrics, "stream_icd_stage_seconds_sum", stage="publish") == 0.02
    assert sample(metrics, "stream_icd_evidence_total", evidence="weak") == 2
    assert sample(metrics, "stream_icd_evidence_total", evidence="sure") is None
    assert sample(metrics, "stream_icd_age_seconds_sum", topic="in") == pytest.approx(5.0)


def looking_back(graph: str, horizon: bytes, bits: bytes | None = None) -> OutgoingRecord:
    headers = (("icd_horizon", horizon), ("icd_predicted_bits", bits))
    said = tuple((name, value) for name, value in headers if value is not None)
    return OutgoingRecord("out", b"", graph.encode(), said)


def test_how_far_back_each_graph_looks_is_served_until_a_rebalance(metrics: Metrics) -> None:
    loop, bits = metrics.watch("in", "group"), "stream_icd_predicted_bits"
    loop.polled(1, 0.0)
    results = looking_back("g", b"2", b"0.5"), looking_back("g", b"4.5"), looking_back("h", b"1")
    lie = dead_letter(record(2, headers=(("icd_horizon", b"7"),)), "decode", BadSnapshot("no"))
    loop.done(BatchDone((record(0),), (*results, lie), 0.02))
    assert sample(metrics, "stream_icd_horizon_windows", graph="g") == 4.5
    assert sample(metrics, "stream_icd_horizon_windows", graph="h") == 1
    assert sample(metrics, bits, graph="g") == 0.5
    assert sample(metrics, bits, graph="h") is None
    many = tuple(looking_back(f"n{i}", b"3") for i in range(MOST_GRAPHS))
    loop.done(BatchDone((record(1),), many, 0.02))
    assert sample(metrics, "stream_icd_horizon_windows", graph=f"n{MOST_GRAPHS - 3}") == 3
    assert sample(metrics, "stream_icd_horizon_windows", graph="other") is None
    loop.polled(2, 0.0)
    assert sample(metrics, "stream_icd_horizon_windows", graph="g") is None


def test_stages_that_a_method_does_not_have_are_not_served(metrics: Metrics) -> None:
    bp = OutgoingRecord(
        "out", b"", b"g", (("icd_ms_features", b"0.000"), ("icd_ms_encode", b"0.000"))
    )
    icd = OutgoingRecord(
        "out", b"", b"g", (("icd_ms_features", b"2.000"), ("icd_ms_encode", b"3.0"))
    )
    metrics.watch("in", "group").done(BatchDone((record(0),), (bp,), 0.02))
    assert sample(metrics, "stream_icd_stage_seconds_count", stage="features") is None
    metrics.watch("in", "group").done(BatchDone((record(1),), (icd,), 0.02))
    for stage in ("features", "encode"):
        assert sample(metrics, "stream_icd_stage_seconds_count", stage=stage) == 1


def test_records_of_other_graphs_are_counted_as_skipped(metrics: Metrics) -> None:
    loop = metrics.watch("in", "group", graph="g")
    loop.done(BatchDone((record(0), record(1, "other")), (RESULT,), 0.02))
    assert sample(metrics, "stream_icd_snapshots_total", topic="in", graph="g") == 1
    assert sample(metrics, "stream_icd_snapshots_total", topic="in", graph="other") is None
    assert sample(metrics, "stream_icd_skipped_total", topic="in") == 1


def test_a_thousand_graphs_do_not_make_a_thousand_series(metrics: Metrics) -> None:
    records = tuple(record(i, f"graph-{i}") for i in range(1000))
    metrics.watch("in", "group").done(BatchDone(records, (), 0.02))
    assert sample(metrics, "stream_icd_snapshots_total", topic="in", graph="graph-0") == 1
    others = sample(metrics, "stream_icd_snapshots_total", topic="in", graph="other")
    assert others == 1000 - MOST_GRAPHS


def test_a_partition_that_went_to_somebody_else_has_no_lag_here(metrics: Metrics) -> None:
    loop = metrics.watch("in", "group")
    loop.lagged({0: 5, 1: 7})
    loop.lagged({1: 6})
    assert sample(metrics, "stream_icd_lag_records", topic="in", partition="0") is None
    assert sample(metrics, "stream_icd_lag_records", topic="in", partition="1") == 6


def test_each_generation_of_the_group_is_a_rebalance(metrics: Metrics) -> None:
    loop = metrics.watch("in", "group")
    for generation in (None, 4, 4, None, 5, 5):
        loop.polled(generation, 0.1)
    assert sample(metrics, "stream_icd_rebalances_total", topic="in") == 2


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
    assert asked(port, "/healthz")[0] == 0


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
        silent[-1].sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert silent[-1].recv(100).startswith(b"HTTP/1.0 200 OK")
    assert "Traceback" not in capfd.readouterr().err


def test_what_is_in_hand_is_shown(metrics: Metrics) -> None:
    assert sample(metrics, "stream_icd_in_hand_seconds") == 0
    metrics.watch("in", "group")
    metrics.in_hand(lambda: [InHand("snapshot a/7", 12.3, 300.0), InHand("b", 0.1, 300.0)])
    assert sample(metrics, "stream_icd_in_hand_seconds") == 12.3
    with serving(metrics, port=0) as port:
        ok, first, _ = asked(port, "/healthz")[1].splitlines()
    assert (ok, first) == ("ok", "in hand for 12 s, at most 300 s: snapshot a/7")


def test_a_port_that_is_taken_is_said(metrics: Metrics) -> None:
    with (
        serving(metrics, port=0) as port,
        pytest.raises(BadSettings, match=f"port {port}.*--metrics-port"),
        serving(metrics, port=port),
    ):
        pass


def test_an_empty_address_does_not_serve_every_machine(metrics: Metrics) -> None:
    with pytest.raises(BadSettings, match="--metrics-host is empty"), serving(metrics, 0, host=""):
        pass


def test_a_format_that_nobody_knows_fills_no_log(
    metrics: Metrics, capfd: pytest.CaptureFixture[str]
) -> None:
    with serving(metrics, port=0) as port, socket.create_connection(("127.0.0.1", port)) as asking:
        asking.sendall(b"GET /metrics HTTP/1.0\r\nAccept: text/plain;version=a\r\n\r\n")
        assert asking.recv(100).startswith(b"HTTP/1.0 200 OK")
    assert "Traceback" not in capfd.readouterr().err


def test_it_can_be_served_on_ipv6(metrics: Metrics) -> None:
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError as error:
            pytest.skip(f"this machine has no IPv6 ({error}): run it on one that has")
    with serving(metrics, port=0, host="::1") as port:
        assert port > 0
