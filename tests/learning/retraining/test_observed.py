"""What a retrainer shows while it runs: numbers, health, and the trace of each round."""

from __future__ import annotations

import re
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from stream_icd.core.errors import HistoryDamaged, StoreUnreachable
from stream_icd.core.store.store import open_store
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.tracing import Tracing, context_of
from stream_icd.learning.retraining import run
from stream_icd.learning.retraining.retrain import OUTCOMES
from stream_icd.learning.retraining.run import Rounds, announce_in_topic, rounds_metrics
from stream_icd.learning.retraining.settings import Retraining
from stream_icd.registry.aliases import current
from stream_icd.streaming.metrics.server import serving
from tests.learning.retraining.test_retrain_command import KEPT
from tests.run_here import run_here
from tests.testbed.brokers import Broker


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_numbers_and_health_of_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = [0.0]
    metrics = rounds_metrics(100, lambda: times[0])
    shown: list[tuple[int, str]] = []

    with serving(metrics, 0) as port:

        def retrain(*_: object, on_step: Any, **__: object) -> Any:
            shown.append(get(port, "readyz"))
            if len(shown) == 2:
                raise StoreUnreachable("away")
            if len(shown) == 4:
                raise HistoryDamaged("a file is no archive file")
            on_step("learn")
            times[0] += 7
            shown_now = get(port, "healthz")
            assert shown_now == (200, "ok\nlearn: 7 s\n")
            times[0] += 100
            assert get(port, "healthz") == (503, "learn has taken 107 s, the limit is 100\n")
            return KEPT

        monkeypatch.setattr(run, "retrain", retrain)
        registry, settings = open_store(str(tmp_path)), Retraining(str(tmp_path))
        with pytest.raises(HistoryDamaged):
            Rounds(registry, settings, [], metrics).until(threading.Event(), 0.001)
        assert shown == [
            (503, "starting: the first round has not ended\n"),
            (200, "ok\n"),
            (503, "StoreUnreachable: away\n"),
            (200, "ok\n"),
        ]
        _, text = get(port, "metrics")
    for line in (
        'stream_icd_retrain_rounds_total{outcome="kept"} 2.0',
        'stream_icd_retrain_rounds_total{outcome="unavailable"} 2.0',
        'stream_icd_retrain_rounds_total{outcome="promoted"} 0.0',
        'stream_icd_retrain_step_seconds_sum{step="learn"} 214.0',
        "stream_icd_retrain_windows 7.0",
        'stream_icd_retrain_champion_info{version="a@1"} 1.0',
        "stream_icd_retrain_in_hand_seconds 0.0",
    ):
        assert line in text.splitlines()
    assert all(f'outcome="{outcome}"' in text for outcome in OUTCOMES)
    documented = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text(encoding="utf-8")
    for name in re.findall(r"^# TYPE (stream_icd_\w+)", text, re.MULTILINE):
        assert f"| `{name}` |" in documented or name.endswith("_created")


@pytest.mark.brokers("memory")
def test_a_round_is_a_trace_and_so_is_what_it_announces(
    broker: Broker, make_topic: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    spans = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    monkeypatch.setenv("STREAM_ICD_TRACES", "on")
    topic = make_topic()
    (tmp_path / "archive").mkdir()
    registry = open_store(str(tmp_path / "registry"))
    settings = Retraining(str(tmp_path / "archive"), drift=False)
    announce = announce_in_topic(broker.settings(), registry, settings.name, topic)
    decision = Rounds(registry, settings, [announce], tracing=Tracing()).once()
    rounds = [span for span in spans.get_finished_spans() if span.name == "retrain"]
    said = [(one.attributes or {})["stream_icd.outcome"] for one in rounds]
    assert said == ["first champion", decision.outcome]
    steps = {span.name for span in spans.get_finished_spans() if span.parent is not None}
    assert "look" in steps
    with open_reader(broker.settings(), topic, until="end") as records:
        traces = {context_of(record.headers)["traceparent"].split("-")[1] for record in records}
    assert traces == {f"{one.get_span_context().trace_id:032x}" for one in rounds}
    assert current(registry) is not None


def test_a_single_round_serves_no_metrics(tmp_path: Path) -> None:
    options = ("--registry", str(tmp_path / "registry"), "--once", "--metrics-port", "9464")
    done = run_here("retrain", str(tmp_path), *options)
    assert done.returncode != 0
    assert "--metrics-port is for rounds without --once" in done.stderr
