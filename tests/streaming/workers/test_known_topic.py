"""Nodes whose communities are known, from a file or their topic: `consume detect --known`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from consumers.detect import app
from stream_icd.core.child_process import stop_children
from stream_icd.core.communities import Communities
from stream_icd.core.errors import BadRow, BadSettings, SourceNotFound, TopicMissing
from stream_icd.kafka.messages.records import outgoing as of_message
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.topics import COMMUNITIES, KNOWN, SNAPSHOTS, create_topics
from stream_icd.methods.bp.known import Known
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.registry.model import save_model
from stream_icd.sources.node_tables import read_known
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.subscribers.known_topic import following_known
from stream_icd.streaming.subscribers.subscribe import subscribe
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.memories import Memories
from stream_icd.streaming.workers.runner import Runner
from stream_icd.wire.nodes import encode_known
from tests.run_here import run_here
from tests.streaming.workers.remembered import detected, records, results_in
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.drifting import outgoing, remembering_model, stream
from tests.testbed.starting import consuming
from tests.testbed.streams import publish

MODEL = remembering_model()
FIRST = {"0": "east", "1": "east", "2": "west", "5": "west"}
MORE = {"0": "east", "2": "east", "1": "west"}
OF_G = {"g": Known.from_labels(FIRST, fixed=True)}


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """`written(known, graph)`: a table of known nodes, of a graph if one is given; or a text."""

    def write(known: dict[str, str] | str, graph: str = "") -> Path:
        path, of_graph = tmp_path / "known.csv", f"{graph}," if graph else ""
        if not isinstance(known, str):
            rows = "".join(f"{of_graph}{node},{label}\n" for node, label in known.items())
            known = f"{'graph,' if graph else ''}node,community\n{rows}"
        path.write_text(known)
        return path

    return write


def send(broker: Broker, graph: str, table: Path) -> str:
    options = ("--graph", graph, "--replace", "-b", broker.bootstrap_servers)
    done = run_here("known", str(table), *options)
    assert not done.returncode, done.stderr
    return done.stdout


def together(result: Communities, *nodes: int) -> bool:
    places = dict(zip(result.nodes.to_pylist(), result.labels.tolist(), strict=True))
    return len({places[node] for node in nodes}) == 1


@pytest.mark.brokers("memory", "embedded", "kafka")
def test_known_nodes_change_while_a_detector_runs(
    broker: Broker, topic_name: str, written: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    create_topics(broker.settings())
    sent = send(broker, topic_name, written(FIRST))
    assert sent.startswith(f"{topic_name}: sent the communities of 4 nodes (0 are as they were)")
    key = f"{topic_name}/3".encode()
    caplog.set_level(logging.WARNING)
    no_community = b'{"country": "US"}'
    publish(broker, [OutgoingRecord(KNOWN, no_community, key), OutgoingRecord(KNOWN, b"no", key)])
    with following_known(broker.settings(), topic_name, fixed=True) as known:
        assert known.now()[topic_name].digest == Known.from_labels(FIRST, fixed=True).digest
        assert len([one for one in caplog.records if KNOWN in one.getMessage()]) == 2
        settings = DetectSettings(threads=1, follows_known=True)
        runner = Runner(Detector(lambda: MODEL, settings, known=known.now))
        windows = records(stream(topic_name, 2))
        first, second = results_in([*runner.handle(windows[:1]), *runner.handle(windows[:1])])
        assert together(first, 0, 1)
        assert not together(first, 0, 2)
        assert first.revision == second.revision
        sent = send(broker, topic_name, written(MORE))
        assert "of 2 nodes (1 are as they were); took back those of 1" in sent
        now = Known.from_labels(MORE, fixed=True).digest
        wait_until(lambda: known.now()[topic_name].digest == now)
        (last,) = results_in(runner.handle(windows[1:]))
        assert together(last, 0, 2)
        assert not together(last, 0, 1)
    with following_known(broker.settings(), topic_name, fixed=True) as again:
        assert again.now()[topic_name].digest == now
    with following_known(broker.settings(), "another", fixed=True) as of_another:
        assert of_another.now() == {}


@pytest.mark.brokers("embedded")
def test_known_nodes_of_a_file_and_then_of_the_topic_stay_in_one_community_of_one_id(
    broker: Broker, topic_name: str, tmp_path: Path, written: Callable[..., Path]
) -> None:
    """A detector that starts reads them before the first window."""
    create_topics(broker.settings())
    save_model(MODEL.model, tmp_path / "model")
    send(broker, topic_name, written(FIRST))
    table, windows = written(FIRST | {"900": "east"}, topic_name), stream(topic_name, 4)
    found: list[Communities] = []
    for number, source in ((0, str(table)), (2, "topic")):
        publish(broker, [outgoing(window, SNAPSHOTS) for window in windows[number : number + 2]])
        options = ("--model", str(tmp_path / "model"), "--known", source, "--known-fixed")
        log = tmp_path / f"{number}.log"
        with consuming(broker, topic_name, log, "detect", *options) as detector:
            where = {"settings": broker.settings(), "topic": COMMUNITIES}
            found = list(islice(subscribe(topic_name, start="beginning", **where), number + 2))
            assert stop_children([detector], 30)[0] == 0
        assert '"event": "communities are known"' in log.read_text()
    assert all(together(result, 0, 1) for result in found)
    assert [result.memory for result in found] == ["first", *["continued"] * 3]
    ids = [one.ids_of_nodes for one in found]
    assert len({int(of_nodes[0]) for of_nodes in ids if of_nodes is not None}) == 1


def test_detection_without_memory_knows_them_too(memory: Broker, topic_name: str) -> None:
    create_topics(memory.settings(), [TopicSpec(topic_name)])
    plain = remembering_model(BpParameters(resolution=3.0, mixing=0.3, stay=0.0))
    where = {"memory_topic": topic_name, "group": "g"}
    settings = DetectSettings(memory="auto", threads=1, follows_known=True, **where)
    for model, headers in ((plain, ()), (MODEL, (("icd_unordered", b"true"),))):
        memories = Memories.open(memory.settings(), "g", topic_name)
        detector = Detector(
            lambda model=model: model, settings, memories=memories, known=lambda: OF_G
        )
        runner = Runner(detector)
        runner.assigned({0})
        (record,) = records(stream("g", 1))
        sent = replace(record, headers=(*record.headers, *headers))
        (result,) = results_in(runner.handle([sent]))
        assert together(result, 0, 1)
        assert (result.memory, result.community_ids) == (None, None)


@pytest.mark.parametrize("method", ["bp", "icd"])
def test_k_is_determined_with_known_nodes(method: Any) -> None:
    settings = DetectSettings(threads=1, method=method, known=OF_G)
    (result,) = detected(MODEL, settings, [replace(stream("g", 1)[0], n_communities=2)])
    assert together(result, 0, 1)
    assert result.k_given is None
    assert result.n_communities > 2


def test_what_is_known_makes_another_result() -> None:
    revisions, windows = set(), stream("g", 1)
    likely, others = Known.from_labels(FIRST, fixed=False), Known.from_labels(MORE, fixed=True)
    for known in ({}, OF_G, {"g": likely}, {"g": others}):
        (result,) = detected(MODEL, DetectSettings(threads=1, known=known), windows)
        revisions.add(result.revision)
    assert len(revisions) == 4


def test_a_table_may_have_any_order_and_form(tmp_path: Path, written: Callable[..., Path]) -> None:
    table = "graph,node,community\ng,0,east\ng,1,east\ng,900,east\nother,0,west\n"
    known = read_known(written(table))
    assert sorted(known) == ["g", "other"]
    assert sorted(known["g"]) == ["0", "1", "900"]
    rows = {"community": ["x", "y", "x", "x"], "graph": ["g", "other", "g", "g"]}
    again = pa.table({**rows, "node": [900, 0, 1, 0], "since": [1, 1, 1, 1]})
    pq.write_table(again, tmp_path / "known.parquet")
    read = read_known(tmp_path / "known.parquet")
    first, second = (Known.from_labels(labels["g"], fixed=True) for labels in (known, read))
    assert first.digest == second.digest
    assert sorted(read_known(written({"a": "1"}), graph="mine")) == ["mine"]


@pytest.mark.parametrize(
    ("table", "options", "error", "reason"),
    [
        ("node,community\n1,x\n", [], BadSettings, "does not say to which graph a node belongs"),
        ("graph,node,snapshot,community\ng,1,g/0,x\n", [], BadSettings, "of single windows"),
        ("graph,node\ng,1\n", [], BadSettings, "a table of labels has node and community"),
        ("graph,node,community\ng,1,x\ng,1,y\n", [], BadRow, "is in 'y', and was in 'x' before"),
        ("", ["--known-fixed"], BadSettings, "give --known FILE, or --known topic"),
        ("", ["--known", "known.csv", "--k", "3"], BadSettings, "--k and --known exclude"),
        ("", ["--known", "nosuch.csv"], SourceNotFound, "nosuch.csv"),
    ],
)
def test_a_table_or_options_that_say_something_else_are_refused_at_the_start(
    written: Callable[..., Path],
    table: str,
    options: list[str],
    error: type[Exception],
    reason: str,
) -> None:
    done = CliRunner().invoke(app, options or ["--known", str(written(table))])
    assert isinstance(done.exception, error)
    assert reason in str(done.exception)


def test_what_else_is_wrong_is_said(memory: Broker, topic_name: str) -> None:
    with pytest.raises(BadSettings, match="n_communities=2 beside known communities"):
        DetectSettings(n_communities=2, known=OF_G)
    missing = following_known(memory.settings(topic_prefix=f"{topic_name}."))
    with pytest.raises(TopicMissing, match=r"icd\.known\.v1"), missing:
        pass


def test_known_nodes_have_a_budget_of_memory(
    memory: Broker,
    topic_name: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("stream_icd.streaming.subscribers.known_topic._MOST_BYTES", 3000)
    create_topics(memory.settings())

    def put(nodes: Iterable[str], community: str, **changed: None) -> None:
        at = datetime(2026, 1, 1, tzinfo=UTC)
        messages = (encode_known(topic_name, node, community, at, "me") for node in nodes)
        publish(memory, [replace(of_message(KNOWN, message), **changed) for message in messages])

    put(map(str, range(20)), "east")
    with following_known(memory.settings(), topic_name) as known:
        labels = known.labels(topic_name)
        assert 5 < len(labels) < 10
        assert "known nodes take more than" in caplog.text
        put(labels, "east", value=None)
        put(["new"], "west")
        wait_until(lambda: known.labels(topic_name) == {"new": "west"})
