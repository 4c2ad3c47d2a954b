"""What a subscriber can rely on when a detector works on a stream, with each of its options."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numba.core.dispatcher import Dispatcher
from structlog.testing import capture_logs
from typer.testing import CliRunner

from consumers.detect import app
from stream_icd.core.arrays import Labels
from stream_icd.core.child_process import stop_children
from stream_icd.core.communities import Communities
from stream_icd.core.errors import (
    BadCommunities,
    BadRow,
    BadSettings,
    SourceNotFound,
    TooManyDeadLetters,
    TopicMissing,
)
from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.messages.records import Outcome, Processed
from stream_icd.kafka.messages.records import outgoing as of_message
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.topics import COMMUNITIES, KNOWN, SNAPSHOTS, create_topics
from stream_icd.methods.bp.known import Known
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.memory.detect import detect_remembering
from stream_icd.methods.model import Method
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.registry.find import open_model
from stream_icd.registry.model import VersionedModel, save_model
from stream_icd.sources.node_tables import read_known
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.processes import Processes
from stream_icd.streaming.execution.work import Relay
from stream_icd.streaming.subscribers.known_topic import following_known
from stream_icd.streaming.subscribers.seen_results import SeenResults, result_of
from stream_icd.streaming.subscribers.subscribe import subscribe
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.memories import Memories
from stream_icd.streaming.workers.runner import Runner
from stream_icd.wire.communities import encode_communities
from stream_icd.wire.nodes import encode_known
from tests.fixtures.stream import cliques
from tests.run_here import run_here
from tests.streaming.workers.remembered import detected, records, results_in
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.drifting import outgoing, remembering_model, stream
from tests.testbed.handlers import Calls
from tests.testbed.starting import consuming
from tests.testbed.streams import as_read, beside, publish

PLAIN = DetectSettings(threads=1)


def test_every_snapshot_gets_its_communities_in_order(
    broker: Broker, topics: tuple[str, str], model: VersionedModel
) -> None:
    (source, target), settings = topics, broker.settings()
    sent = [replace(cliques(0), n_communities=None), *(cliques(i) for i in range(1, 12))]
    publish(broker, [outgoing(snapshot, source) for snapshot in sent])
    handler = Calls(Runner(Detector(lambda: model, replace(PLAIN, topic=target))).handle)
    with beside(partial(run_consumer, settings, source, source, handler)) as errors:
        where = {"start": "beginning", "settings": settings, "topic": target}
        results = list(subscribe(limit=len(sent), **where))
    assert not errors
    assert [one.snapshot_id for one in results] == [one.id for one in sent]
    assert results[0].k_given is None, "K is estimated where nobody says it"
    for result, one in zip(results, sent, strict=True):
        assert (result.graph, result.model) == ("test", "test@0")
        assert (result.window, result.n_edges) == (one.window, one.n_edges)
        assert result.nodes.equals(one.nodes)
        # Three cliques, loosely joined: each is one community.
        assert sorted(result.sizes) == [8, 8, 8]
        assert all(len(set(result.labels[c * 8 : c * 8 + 8])) == 1 for c in range(3))
        assert result.modularity == pytest.approx(0.6322, abs=1e-3)
        assert set(result.milliseconds) == {"decode", "features", "encode", "cluster"}


def test_a_bad_snapshot_is_dead_lettered_whole_and_the_stream_goes_on(
    model: VersionedModel,
) -> None:
    good, after = (outgoing(cliques(i), "in") for i in (0, 1))
    of_a_result = ("icd_model", b"m@1")
    bad = replace(good, value=b"\x00 not Arrow \xff", headers=(*good.headers, of_a_result))
    odd_name = (b"caf\xe9".decode(errors="surrogateescape"), b"\xff")
    oddly_named = replace(good, headers=(odd_name, *good.headers))
    runner = Runner(Detector(lambda: model, PLAIN))
    first, *letters, last = runner.handle(as_read([good, bad, oddly_named, after]))
    assert [result.snapshot_id for result in results_in([first, last])] == ["test/0", "test/1"]
    for letter, sent in zip(letters, (bad, oddly_named), strict=True):
        assert (letter.topic, letter.key, letter.value) == ("in.dlq", sent.key, sent.value)
        assert letter.headers[: len(sent.headers)] == sent.headers
    why, other = (dict(letter.headers) for letter in letters)
    assert why["icd_dlq_topic"] == b"in"
    assert (why["icd_dlq_partition"], why["icd_dlq_offset"]) == (b"0", b"1")
    assert (why["icd_dlq_stage"], why["icd_dlq_exception"]) == (b"decode", b"BadSnapshot")
    assert b"not an Arrow IPC stream" in why["icd_dlq_message"]
    assert rb"name is not UTF-8: b'caf\xe9'" in other["icd_dlq_message"]


def test_a_worker_whose_input_is_mostly_bad_stops_and_says_so(model: VersionedModel) -> None:
    garbage = as_read([OutgoingRecord("in", b"garbage", b"test")] * 6)
    runner = Runner(Detector(lambda: model, PLAIN), DeadLetterLimit(share=0.5, window=4))
    with pytest.raises(TooManyDeadLetters, match="4 of the last 4 records became dead letters"):
        list(runner.handle(garbage))


@pytest.fixture
def result(model: VersionedModel) -> Callable[..., Record]:
    """The record of a snapshot's result, by a detector that was given these settings."""

    def detect(snapshot: Snapshot, offset: int = 0, **settings: Any) -> Record:
        (record,) = as_read([outgoing(snapshot, "snapshots")], first=offset)
        done = RecordDetection(model, replace(PLAIN, **settings))(record)
        assert isinstance(done, Processed)
        return as_read(done.outgoing)[0]

    return detect


def test_what_changes_the_answer_makes_another_result(result: Callable[..., Record]) -> None:
    with_k = cliques(0)
    plain = replace(with_k, n_communities=None)
    src, dst = (plain.nodes.take(end) for end in plain.edges[:, 1:].tolist())
    corrected = snapshot_from_pairs(src, dst, graph=plain.graph, id=plain.id, window=plain.window)
    likely, certain = (Known.from_labels({"0": "a", "9": "b"}, fixed=one) for one in (False, True))
    others = Known.from_labels({"0": "a", "9": "a"}, fixed=True)
    found = [
        result(plain),
        result(with_k),
        result(corrected),
        result(plain, seed=1),
        result(plain, n_communities=2),
        result(plain, n_communities=2, method="icd"),
        result(cliques(1)),
        *(result(plain, known={"test": known}) for known in (likely, certain, others)),
    ]
    seen = SeenResults()
    assert all(seen.is_new(result_of(record)) for record in found)
    decoded = results_in(found)
    assert len({communities.identity() for communities in decoded}) == len(found)
    assert len({dict(record.headers)["ce_id"] for record in found}) == len(found)
    said = [(communities.k_given, communities.seed) for communities in decoded[:5]]
    assert said == [(None, 0), (3, 0), (None, 0), (None, 1), (2, 0)]
    assert decoded[0].content == plain.content
    seen = SeenResults()
    seen.add(result_of(result(with_k)))
    again = [
        result(replace(with_k, source="urn:other")),
        result(with_k, threads=2),
        result(with_k, n_communities=5),  # the snapshot says its own K
        result(with_k, offset=7),  # sent again
    ]
    assert not any(seen.is_new(result_of(record)) for record in again)


@pytest.mark.parametrize("method", ["bp", "icd"])
def test_there_are_no_more_communities_than_nodes(model: VersionedModel, method: str) -> None:
    sent = [outgoing(replace(cliques(i), n_communities=None), "snapshots") for i in range(2)]
    settings = replace(PLAIN, method=method, n_communities=1000)
    with capture_logs() as logs:
        results = list(Runner(Detector(lambda: model, settings)).handle(as_read(sent)))
    assert [line["log_level"] for line in logs].count("warning") == 1
    for found in results_in(results):
        assert (found.n_communities, found.k_given) == (24, 1000)


# A detector that says which communities are one on further levels: `consume detect --levels`.

MODEL = open_model("default")
N_SMALL, SIZE, OF_LARGE = 24, 25, 4


def day(number: int) -> Window:
    start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(number)
    return Window(start, start + timedelta(1))


def planted(
    count: int, n_small: int, size: int, chances: Sequence[float], graph: str = "g"
) -> Iterator[tuple[Snapshot, Labels]]:
    """Windows of communities, four of which are one on each further level, and the smallest ones.

    The chances are those of an edge in the same community of each level, and of any other edge.
    """
    rng, small = np.random.default_rng(3), np.repeat(np.arange(n_small), size)
    for number in range(count):
        moved = rng.random(len(small)) < 0.02
        small = np.where(moved, rng.integers(0, n_small, len(small)), small)
        chance = np.full((len(small), len(small)), chances[-1])
        for level, inside in reversed(list(enumerate(chances[:-1]))):
            of_level = small // OF_LARGE**level
            chance = np.where(of_level[:, None] == of_level, inside, chance)
        src, dst = np.nonzero(np.triu(rng.random(chance.shape) < chance, 1))
        named = {"graph": graph, "id": f"{graph}/{number}", "window": day(number)}
        yield snapshot_from_pairs(src, dst, **named), small.astype(np.int32)


def windows(count: int, graph: str = "g") -> list[Snapshot]:
    """Windows of small communities, four of which are a large one; some nodes move."""
    return [snapshot for snapshot, _ in planted(count, N_SMALL, SIZE, (0.5, 0.03, 0.004), graph)]


def results(count: int, **settings: Any) -> list[Communities]:
    return detected(MODEL, DetectSettings(threads=1, **settings), windows(count))


@pytest.mark.parametrize("memory", ["auto", "off"])
def test_levels_unite_communities_and_change_nothing_else_but_the_revision(memory: str) -> None:
    off, on = (results(5, memory=memory, group="g", levels=levels) for levels in (False, True))
    parents: list[dict[int, int]] = []
    for without, found in zip(off, on, strict=True):
        assert without.levels is None
        assert without.revision != found.revision
        the_rest = encode_communities(replace(found, levels=None)).value
        assert encode_communities(without).value == the_rest
        assert (found.community_ids is None) == (memory == "off")
        ids = range(N_SMALL) if found.community_ids is None else found.community_ids.tolist()
        parents.append(dict(zip(ids, found.levels[0].tolist(), strict=True)))
    for of_window in parents:
        assert len(set(of_window.values())) == N_SMALL // OF_LARGE
        assert all(of_window[parent] == parent <= own for own, parent in of_window.items())
    if memory == "auto":  # ids last on each level
        assert parents == [parents[0]] * 5


def test_ids_last_on_each_of_several_levels() -> None:
    memory, ancestors = None, []
    for snapshot, small in planted(5, 48, 16, (0.9, 0.08, 0.01, 0.001)):
        found = detect_remembering(
            snapshot, MODEL.model, memory, levels="above", find=lambda *_, now=small: now, threads=1
        )
        memory = found.memory
        ancestors.append(found.levels.ancestors(found.community_ids))
        assert [len(np.unique(level)) for level in ancestors[-1]] == [3, 12]
    for of_window in ancestors:
        assert [set(level) for level in of_window] == [set(level) for level in ancestors[0]]


def test_levels_that_cannot_be_are_refused() -> None:
    (found,) = results(1, levels=True)
    for levels, reason in (
        (np.arange(3), r"levels have shape \(3,\); need \(L, 24\)"),
        (np.ones((1, N_SMALL), np.int64), "level 0 does not unite communities of the level"),
        (np.stack([np.arange(N_SMALL), found.levels[0]]), "level 0 does not unite"),
    ):
        with pytest.raises(BadCommunities, match=reason):
            replace(found, levels=levels)
    none = encode_communities(replace(found, levels=np.empty((0, N_SMALL), np.int64)))
    (again,) = results_in([OutgoingRecord("t", none.value, none.key, none.headers)])
    assert again.levels.shape == (0, N_SMALL)


# Nodes whose communities are known, from a file or their topic: `consume detect --known`.

REMEMBERING = remembering_model()
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
        runner = Runner(Detector(lambda: REMEMBERING, settings, known=known.now))
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
    save_model(REMEMBERING.model, tmp_path / "model")
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
    for model, headers in ((plain, ()), (REMEMBERING, (("icd_unordered", b"true"),))):
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
    (result,) = detected(REMEMBERING, settings, [replace(stream("g", 1)[0], n_communities=2)])
    assert together(result, 0, 1)
    assert result.k_given is None
    assert result.n_communities > 2


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


# A process that is ready has compiled all that detection needs.


def kernels() -> dict[str, int]:
    """For how many types each loop is compiled in this process."""
    return {
        f"{name}.{var.__name__}": len(var.signatures)  # type: ignore[attr-defined]
        for name, module in list(sys.modules.items())
        if name.startswith("stream_icd")
        for var in vars(module).values()
        if isinstance(var, Dispatcher)
    }


@dataclass(frozen=True, slots=True)
class Compiling(RecordDetection):
    """Tells what was compiled before a snapshot, and what for it."""

    def __call__(self, record: Record, relay: Relay | None = None) -> Outcome:
        before = kernels()
        RecordDetection.__call__(self, record, relay)
        new = [name for name, count in kernels().items() if count > before.get(name, 0)]
        return Processed("compiled", {"new": new, "before": sum(before.values())})


def of_each_kind() -> list[Record]:
    """A graph with weights and without, with K given and to be found out; and a small one.

    Then windows of a graph, each with nodes that the one before did not have.
    """
    graph = generate_lfr(np.random.default_rng(0), LfrSettings(1000))
    weights = np.random.default_rng(0).random(graph.edges.shape[1])
    first = partial(snapshot_from_pairs, graph="g", id="g/0", window=day(0))
    snapshots = [
        first(*graph.edges, weights=weight, n_communities=k)
        for weight in (None, weights)
        for k in (None, 20, 200)
    ]
    ring = np.arange(20)
    snapshots.append(first(ring, (ring + 1) % 20, graph="small", id="small/0"))
    for number, n_nodes in enumerate((700, 800, 1000)):
        edges = graph.edges[:, graph.edges.max(axis=0) < n_nodes]
        named = {"graph": "later", "id": f"later/{number}", "window": day(number)}
        snapshots.append(snapshot_from_pairs(*edges, **named))
    return records(snapshots)


@pytest.mark.parametrize(
    ("model", "method", "memory", "more"),
    [
        ("lfr", "bp", "off", False),
        ("lfr", "icd", "off", True),
        ("default", "bp", "off", False),
        ("default", "bp", "auto", False),
        ("default", "bp", "auto", True),
    ],
)
def test_nothing_is_compiled_for_the_first_snapshots(
    model: str, method: Method, memory: Literal["auto", "off"], *, more: bool
) -> None:
    """With `more`, the communities of some nodes are known, and levels are wanted."""
    known = Known(pa.array([1, 2, 8, 15]), np.array([0, 0, 1, 1], np.int32), fixed=False)
    settings = DetectSettings(
        method=method,
        memory=memory,
        threads=1,
        levels=more,
        known=dict.fromkeys(("g", "small", "later"), known) if more else {},
    )
    work = Compiling(open_model(model), settings)
    with Processes(work, model, 1) as engine:
        engine.wait_until_warm(threading.Event())
        outcomes = [outcome for _, outcome in engine(of_each_kind())]
    facts = [outcome.facts for outcome in outcomes if isinstance(outcome, Processed)]
    assert [fact["new"] for fact in facts] == [[]] * 10
    assert int(str(facts[0]["before"])) > 0
