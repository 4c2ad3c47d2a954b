"""Known nodes in their topic: `stream-icd known` and `consume detect --known topic`."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path

import pytest
from typer.testing import CliRunner

from consumers.detect import app
from stream_icd.core.child_process import stop_child
from stream_icd.core.communities import Communities
from stream_icd.core.errors import BadSettings, TopicMissing
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.topics import COMMUNITIES, KNOWN, SNAPSHOTS, create_topics
from stream_icd.methods.bp.known import known_of
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.registry.model import VersionedModel, save_model
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.subscribers.known_topic import following_known
from stream_icd.streaming.subscribers.subscribe import subscribe
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.memories import Memories, MemoryTopic
from stream_icd.streaming.workers.runner import Runner
from stream_icd.wire.communities import decode_communities
from stream_icd.wire.known import KnownNode, encode_known
from tests.run_here import run_here
from tests.streaming.workers.remembered import records
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.drifting import outgoing, remembering_model, stream
from tests.testbed.starting import consuming
from tests.testbed.streams import publish

MODEL = remembering_model()
FIRST = {"0": "east", "1": "east", "2": "west", "5": "west"}
MORE = {"0": "east", "2": "east", "1": "west"}


def send(broker: Broker, graph: str, folder: Path, known: dict[str, str]) -> str:
    table = folder / "known.csv"
    table.write_text("node,community\n" + "".join(f"{n},{c}\n" for n, c in known.items()))
    options = ("--graph", graph, "--replace", "-b", broker.bootstrap_servers)
    done = run_here("known", str(table), *options)
    assert not done.returncode, done.stderr
    return done.stdout


def together(result: Communities, *nodes: int) -> bool:
    places = dict(zip(result.nodes.to_pylist(), result.labels.tolist(), strict=True))
    return len({places[node] for node in nodes}) == 1


@pytest.mark.brokers("memory", "embedded", "kafka")
def test_known_nodes_change_while_a_detector_runs(
    broker: Broker, topic_name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    create_topics(broker.settings())
    sent = send(broker, topic_name, tmp_path, FIRST)
    assert sent.startswith(f"{topic_name}: sent the communities of 4 nodes (0 are as they were)")
    key = f"{topic_name}/3".encode()
    caplog.set_level(logging.WARNING)
    no_community = b'{"country": "US"}'
    publish(broker, [OutgoingRecord(KNOWN, no_community, key), OutgoingRecord(KNOWN, b"no", key)])
    with following_known(broker.settings(), topic_name, fixed=True) as known:
        assert known.now()[topic_name].digest == known_of(FIRST, fixed=True).digest
        assert len([one for one in caplog.records if KNOWN in one.getMessage()]) == 2
        settings = DetectSettings(threads=1, follows_known=True)
        detector = Detector(lambda: MODEL, settings, known=known.now)
        runner, windows = Runner(detector), records(stream(topic_name, 2))
        first, second = (decoded(runner, [window]) for window in (windows[0], windows[0]))
        assert together(first, 0, 1)
        assert not together(first, 0, 2)
        assert first.revision == second.revision
        sent = send(broker, topic_name, tmp_path, MORE)
        assert "of 2 nodes (1 are as they were); took back those of 1" in sent
        now = known_of(MORE, fixed=True).digest
        wait_until(lambda: known.now()[topic_name].digest == now)
        last = decoded(runner, windows[1:])
        assert together(last, 0, 2)
        assert not together(last, 0, 1)
    with following_known(broker.settings(), topic_name, fixed=True) as again:
        assert again.now()[topic_name].digest == now
    with following_known(broker.settings(), "another", fixed=True) as of_another:
        assert of_another.now() == {}


def decoded(runner: Runner, batch: list[Record]) -> Communities:
    (sent,) = runner.handle(batch)
    return decode_communities(sent.key, sent.value, sent.headers)


@pytest.mark.brokers("embedded")
def test_a_detector_that_starts_reads_them_first_and_knows_them_after_a_restart(
    broker: Broker, topic_name: str, tmp_path: Path
) -> None:
    create_topics(broker.settings())
    save_model(MODEL.model, tmp_path / "model")
    send(broker, topic_name, tmp_path, FIRST)
    windows = stream(topic_name, 4)
    found: list[Communities] = []
    options = ("--model", str(tmp_path / "model"), "--known", "topic", "--known-fixed")
    for number in (0, 2):
        publish(broker, [outgoing(window, SNAPSHOTS) for window in windows[number : number + 2]])
        with consuming(broker, topic_name, tmp_path / "log", "detect", *options) as detector:
            results = subscribe(
                topic_name, start="beginning", settings=broker.settings(), topic=COMMUNITIES
            )
            found = list(islice(results, number + 2))
            assert stop_child(detector, 30) == 0
    assert all(together(result, 0, 1) for result in found)
    assert [result.memory for result in found] == ["first", *["continued"] * 3]
    ids = {
        int(result.community_ids[result.labels[0]])
        for result in found
        if result.community_ids is not None
    }
    assert len(ids) == 1
    assert (tmp_path / "log").read_text().count('"event": "communities are known"') >= 1


def same(model: VersionedModel) -> VersionedModel:
    return model


def test_models_without_memory_and_unordered_snapshots_get_them_too(
    memory: Broker, topic_name: str
) -> None:
    create_topics(memory.settings(), [TopicSpec(topic_name)])
    plain = remembering_model(BpParameters(resolution=3.0, mixing=0.3, stay=0.0))
    known = {"g": known_of(FIRST, fixed=True)}
    for model, headers in ((plain, ()), (MODEL, (("icd_unordered", b"true"),))):
        settings = DetectSettings(
            memory="auto", memory_topic=topic_name, group="g", threads=1, follows_known=True
        )
        memories = Memories(MemoryTopic(memory.settings(), "g", topic_name))
        detector = Detector(partial(same, model), settings, None, memories, known=lambda: known)
        runner = Runner(detector)
        runner.assigned({0})
        (record,) = records(stream("g", 1))
        result = decoded(runner, [replace(record, headers=(*record.headers, *headers))])
        assert together(result, 0, 1)
        assert result.memory is None


@pytest.mark.brokers("memory")
def test_what_is_wrong_is_said(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    with (
        pytest.raises(TopicMissing, match=r"icd\.known\.v1"),
        following_known(broker.settings(topic_prefix=f"{topic_name}.")),
    ):
        pass
    table = tmp_path / "countries.csv"
    table.write_text("node,country\n1,US\n")
    done = run_here("known", str(table), "--graph", "g", "-b", broker.bootstrap_servers)
    assert done.returncode
    assert "a table of labels has node and community" in done.stderr.replace("\n", " ")
    for options, reason in (
        (("--known", "topic", "--k", "3"), "--k and --known exclude each other"),
        (("--known-fixed",), "give --known FILE, or --known topic"),
    ):
        refused = CliRunner().invoke(app, options)
        assert isinstance(refused.exception, BadSettings)
        assert reason in str(refused.exception)


def test_known_nodes_have_a_budget_of_memory(
    memory: Broker,
    topic_name: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("stream_icd.streaming.subscribers.known_topic._MOST_BYTES", 3000)
    create_topics(memory.settings())

    def record_of(node: str, community: str, **changed: None) -> OutgoingRecord:
        at = datetime(2026, 1, 1, tzinfo=UTC)
        message = encode_known(KnownNode(topic_name, node, community), at, "me")
        return replace(
            OutgoingRecord(KNOWN, message.value, message.key, message.headers), **changed
        )

    publish(memory, [record_of(str(node), "east") for node in range(20)])
    with following_known(memory.settings(), topic_name) as known:
        kept = known.labels(topic_name)
        assert 5 < len(kept) < 10
        assert "known nodes take more than" in caplog.text
        publish(memory, [record_of(node, "east", value=None) for node in kept])
        publish(memory, [record_of("new", "west")])
        wait_until(lambda: known.labels(topic_name) == {"new": "west"})
