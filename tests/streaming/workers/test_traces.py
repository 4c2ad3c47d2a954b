"""One trace for each snapshot, from its producer to the subscribers of its results."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from stream_icd.core.store.store import open_store
from stream_icd.history.archive import Archive
from stream_icd.history.archiver import Archiver
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.record import Record
from stream_icd.kafka.topics import MEMORY, SNAPSHOTS, create_topics
from stream_icd.kafka.tracing import Tracing
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.subscribers.subscribe import subscribe, subscribe_events
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.memories import Memories
from stream_icd.streaming.workers.runner import Runner
from stream_icd.streaming.workers.track import Tracker
from tests.fixtures.stream import cliques
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.drifting import outgoing, remembering_model
from tests.testbed.handlers import Calls
from tests.testbed.http_server import webhook
from tests.testbed.starting import start_forked
from tests.testbed.streams import beside, held, publish

N_WINDOWS = 4


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)  # as a program does; it stays for the later modules
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setenv("STREAM_ICD_TRACES", "on")
    return exporter


def test_the_graph_of_a_memory_is_its_name(spans: InMemorySpanExporter, tmp_path: Path) -> None:
    archiver = Archiver(Archive(open_store(str(tmp_path))), "memory")
    record = Record(MEMORY, 0, 7, 0, b'["stream-icd-detect", "as733"]', None)
    list(Runner(archiver, tracing=Tracing()).handle([record]))
    (span,) = named(spans, f"archive {MEMORY}")
    assert said(span, "stream_icd.graph") == "as733"


def named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    """The spans of this name, in the order of their windows, then of their beginning."""
    found = [span for span in spans.get_finished_spans() if span.name == name]
    return sorted(found, key=lambda one: (said(one, "stream_icd.snapshot"), one.start_time))


def said(span: ReadableSpan, attribute: str) -> Any:
    return (span.attributes or {}).get(attribute, "")


def id_of(span: ReadableSpan) -> int:
    return span.get_span_context().span_id


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def period(span: ReadableSpan) -> tuple[int, int]:
    return span.start_time or 0, span.end_time or 0


@contextmanager
def at_work(broker: Broker, topic: str, runner: Runner) -> Iterator[None]:
    handler = Calls(runner.handle, assigned=runner.assigned, done=runner.done)
    group = f"{topic}-{type(runner.step).__name__}"
    work = partial(run_consumer, broker.settings(), topic, group, handler, max_records=2)
    with beside(work) as errors:
        yield
    assert not errors


@pytest.fixture
def names(broker: Broker, topic_name: str) -> dict[str, str]:
    """Topics of one test's own."""
    found = {kind: f"{topic_name}.{kind}" for kind in ("snapshots", "found", "events", "memory")}
    specs = [TopicSpec(name) for name in found.values()]
    create_topics(broker.settings(), [two for spec in specs for two in spec.with_dead_letters()])
    return found


def detector(broker: Broker, names: dict[str, str], tracing: Tracing) -> Runner:
    settings = DetectSettings(
        topic=names["found"], memory="auto", memory_topic=names["memory"], group="g", threads=1
    )
    memories = Memories(broker.settings(), "g", names["memory"])
    model = remembering_model()
    step = Detector(lambda: model, settings, memories=memories)
    return Runner(step, DeadLetterLimit(1.0), tracing=tracing, group="detectors")


def test_a_snapshot_is_one_trace_from_its_producer_to_its_subscribers(
    broker: Broker, names: dict[str, str], spans: InMemorySpanExporter, tmp_path: Path
) -> None:
    tracing, settings = Tracing(), broker.settings()
    for first in range(0, N_WINDOWS, 2):  # each time with new workers
        with Publisher(settings) as publisher:
            for i in (first, first + 1):
                publisher.send(tracing.created(outgoing(cliques(i), names["snapshots"])))
        tracker = Tracker(settings, topic=names["events"])
        archiver = Archiver(Archive(open_store(str(tmp_path))), "communities")
        with (
            at_work(broker, names["snapshots"], detector(broker, names, tracing)),
            at_work(broker, names["found"], Runner(tracker, tracing=tracing)),
            at_work(broker, names["found"], Runner(archiver, tracing=tracing)),
        ):
            for kind in ("track", "archive"):
                done = partial(named, spans, f"{kind} {names['found']}")
                wait_until(lambda done=done, n=first + 2: len(done()) >= n, 60)
    past = {"start": "beginning", "limit": N_WINDOWS, "settings": settings}
    assert len(list(subscribe(topic=names["found"], **past))) == N_WINDOWS
    assert len(list(subscribe_events(topic=names["events"], **past))) == N_WINDOWS

    topic_of = {"create": "snapshots", "detect": "snapshots", "track": "found", "archive": "found"}
    by = {operation: named(spans, f"{operation} {names[on]}") for operation, on in topic_of.items()}
    received = [named(spans, f"receive {names[topic]}") for topic in ("found", "events")]
    sources = {parent_of(span) for span in by["track"]}  # a batch that came again: detected twice
    by["detect"] = [span for span in by["detect"] if id_of(span) in sources]
    assert [len(of_operation) for of_operation in by.values()] == [N_WINDOWS] * 4
    for i in range(N_WINDOWS):
        made, detected, tracked, archived = (of_operation[i] for of_operation in by.values())
        story = [made, detected, tracked, archived, received[0][i], received[1][i]]
        assert len({span.get_span_context().trace_id for span in story}) == 1
        assert {said(span, "stream_icd.snapshot") for span in story} == {f"test/{i}"}
        from_result = [id_of(detected)] * 3
        parents = [None, id_of(made), *from_result, id_of(tracked)]
        assert [parent_of(span) for span in story] == parents
    first = by["detect"][0]
    assert said(first, "messaging.kafka.offset") == 0
    assert said(first, "stream_icd.model") == remembering_model().version
    assert said(first, "messaging.consumer.group.name") == "detectors"
    for span in by["detect"]:  # its stages, one after the other, take all of its time
        inner = (one for one in spans.get_finished_spans() if parent_of(one) == id_of(span))
        decode, cluster = (period(one) for one in inner if one.name in ("decode", "cluster"))
        started, ended = period(span)
        assert (decode[0], decode[1]) == (started, cluster[0])
        assert started < cluster[1]
        assert abs(cluster[1] - ended) < 1e4  # rounding, ns
    for operation in ("detect", "track"):  # a window has a link to the one whose state it used
        assert not by[operation][0].links
        for before, after in pairwise(by[operation]):
            assert [link.context.span_id for link in after.links] == [id_of(before)]
    assert not any(span.links for span in by["archive"])
    batches = named(spans, "publish")
    published = {link.context.span_id for batch in batches for link in batch.links}
    assert published >= {id_of(span) for span in by["detect"]}
    # A span of a message says what was done, as OpenTelemetry's conventions demand.
    for span, name, kind in (
        (by["create"][0], "create", "create"),
        (first, "detect", "process"),
        (by["track"][0], "track", "process"),
        (by["archive"][0], "archive", "process"),
        (received[0][0], "receive", "receive"),
        (batches[0], "publish", "send"),
    ):
        keys = ("system", "operation.name", "operation.type")
        assert [said(span, f"messaging.{key}") for key in keys] == ["kafka", name, kind]


@pytest.mark.brokers("memory")
def test_a_bad_snapshot_is_an_error_in_the_trace_of_its_producer_and_another_trace_goes_on(
    broker: Broker, names: dict[str, str], spans: InMemorySpanExporter
) -> None:
    tracing, good = Tracing(), outgoing(cliques(0), names["snapshots"])
    bad = tracing.created(replace(good, value=b"not Arrow"))
    theirs = ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    of_another = replace(outgoing(cliques(1), good.topic), headers=(*good.headers, theirs))
    publish(broker, [bad, of_another])
    with at_work(broker, good.topic, detector(broker, names, tracing)):
        wait_until(lambda: len(named(spans, f"detect {good.topic}")) >= 2, 30)
        wait_until(lambda: bool(named(spans, "publish")), 30)
    (made,), (detected, other) = (
        named(spans, f"{operation} {good.topic}") for operation in ("create", "detect")
    )
    assert parent_of(detected) == id_of(made)
    assert detected.status.status_code is trace.StatusCode.ERROR
    assert said(detected, "error.type") == "BadSnapshot"
    assert said(detected, "stream_icd.outcome") == "refused: decode"
    (letter,) = held(broker, f"{good.topic}.dlq")
    assert dict(bad.headers).items() <= dict(letter.headers).items()  # sent again, it goes on
    assert parent_of(other) == 0xB7AD6B7169203331


def produced(broker: Broker, graph: str, collector: str, log: Path) -> str:
    """Send two snapshots with traces on; return what the program says."""
    traces = {
        "STREAM_ICD_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
        "STREAM_ICD_TRACES": "on",
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector,
        "OTEL_EXPORTER_OTLP_TIMEOUT": "2",
    }
    arguments = ("produce", "gn", "--limit", "2", "--graph", graph)
    program = start_forked(arguments, log, env=os.environ | traces)
    assert program.wait(120) == 0, log.read_text()
    return log.read_text()


@pytest.mark.brokers("embedded")
def test_spans_go_to_a_collector(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    with webhook(lambda _: 200) as collector:
        produced(broker, topic_name, collector.url, tmp_path / "log")
    sent = b"".join(body for _, body in collector.requests)
    assert sent.count(b"create icd.snapshots.v1") == 2
    assert b"stream-icd-produce" in sent
    graph = f"{topic_name}-without"
    assert "Failed to export" in produced(broker, graph, collector.url, tmp_path / "second.log")
    assert len([record for record in held(broker, SNAPSHOTS) if record.key == graph.encode()]) == 2
