"""A detector that was told the communities of some nodes: `stream-icd consume detect --known`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from consumers.detect import app
from stream_icd.core.child_process import stop_children
from stream_icd.core.communities import Communities
from stream_icd.core.errors import BadRow, BadSettings, SourceNotFound
from stream_icd.kafka.messages.records import Processed
from stream_icd.kafka.topics import COMMUNITIES, SNAPSHOTS, create_topics
from stream_icd.registry.model import save_model
from stream_icd.sources.node_tables import read_known
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.subscribers.subscribe import subscribe
from stream_icd.wire.communities import decode_communities
from tests.streaming.workers.remembered import records
from tests.testbed.brokers import Broker
from tests.testbed.drifting import outgoing, remembering_model, stream
from tests.testbed.starting import consuming
from tests.testbed.streams import publish

MODEL = remembering_model()
TABLE = "graph,node,community\ng,0,east\ng,1,east\ng,900,east\nother,0,west\n"


def written(folder: Path, text: str = TABLE) -> Path:
    path = folder / "known.csv"
    path.write_text(text)
    return path


def of_nodes(result: Communities) -> dict[int, int]:
    ids = result.labels if result.community_ids is None else result.community_ids[result.labels]
    return dict(zip(result.nodes.to_pylist(), ids.tolist(), strict=True))


@pytest.mark.brokers("embedded")
def test_known_nodes_stay_in_one_community_of_one_id(
    broker: Broker, topic_name: str, tmp_path: Path
) -> None:
    create_topics(broker.settings())
    save_model(MODEL.model, tmp_path / "model")
    known = written(tmp_path, TABLE.replace("g,", f"{topic_name},"))
    publish(broker, [outgoing(window, SNAPSHOTS) for window in stream(topic_name, 4)])
    options = ("--model", str(tmp_path / "model"), "--known", str(known), "--known-fixed")
    with consuming(broker, topic_name, tmp_path / "log", "detect", *options) as detector:
        where = {"settings": broker.settings(), "topic": COMMUNITIES}
        found = list(subscribe(topic_name, start="beginning", limit=4, **where))
        assert stop_children([detector], 30)[0] == 0
    ids = {of_nodes(result)[node] for result in found for node in (0, 1)}
    assert len(ids) == 1
    assert [result.memory for result in found] == ["first", *["continued"] * 3]
    assert '"event": "communities are known"' in (tmp_path / "log").read_text()


@pytest.mark.parametrize("method", ["bp", "icd"])
def test_a_detector_without_memory_knows_them_too_and_determines_k(
    tmp_path: Path, method: str
) -> None:
    known = read_known(written(tmp_path), fixed=True)
    settings = DetectSettings(threads=1, method=method, known=known)
    (record,) = records([replace(stream("g", 1)[0], n_communities=2)])
    done = RecordDetection(MODEL, settings)(record)
    assert isinstance(done, Processed)
    (sent,) = done.outgoing
    result = decode_communities(sent.key, sent.value, sent.headers)
    assert of_nodes(result)[0] == of_nodes(result)[1]
    assert result.k_given is None
    assert result.n_communities > 2


def test_what_is_known_makes_another_result(tmp_path: Path) -> None:
    path, revisions = written(tmp_path), set()
    for known in (
        {},
        read_known(path, fixed=True),
        read_known(path, fixed=False),
        read_known(written(tmp_path, TABLE + "g,5,west\n"), fixed=True),
    ):
        done = RecordDetection(MODEL, DetectSettings(threads=1, known=known))(
            records(stream("g", 1))[0]
        )
        assert isinstance(done, Processed)
        revisions.add(dict(done.outgoing[0].headers)["icd_revision"])
    assert len(revisions) == 4


def test_a_table_of_known_nodes_is_read_in_any_order_and_form(tmp_path: Path) -> None:
    known = read_known(written(tmp_path), fixed=True)
    assert sorted(known) == ["g", "other"]
    assert known["g"].nodes.to_pylist() == ["0", "1", "900"]
    rows = {"community": ["x", "y", "x", "x"], "graph": ["g", "other", "g", "g"]}
    table = pa.table({**rows, "node": [900, 0, 1, 0], "since": [1, 1, 1, 1]})
    pq.write_table(table, tmp_path / "known.parquet")
    again = read_known(tmp_path / "known.parquet", fixed=True)
    assert again["g"].digest == known["g"].digest
    alone = read_known(written(tmp_path, "node,community\na,1\n"), fixed=False, graph="mine")
    assert sorted(alone) == ["mine"]


@pytest.mark.parametrize(
    ("text", "error", "reason"),
    [
        ("node,community\n1,x\n", BadSettings, "does not say to which graph a node belongs"),
        ("graph,node,snapshot,community\ng,1,g/0,x\n", BadSettings, "labels of single windows"),
        ("graph,node\ng,1\n", BadSettings, "a table of labels has node and community"),
        ("graph,node,community\ng,1,x\ng,1,y\n", BadRow, "is in 'y', and was in 'x' before"),
    ],
)
def test_a_table_that_says_something_else_is_refused_at_the_start(
    tmp_path: Path, text: str, error: type[Exception], reason: str
) -> None:
    done = CliRunner().invoke(app, ["--known", str(written(tmp_path, text))])
    assert isinstance(done.exception, error)
    assert reason in str(done.exception)


@pytest.mark.parametrize(
    ("options", "error", "reason"),
    [
        (["--known-fixed"], BadSettings, "--known-fixed needs nodes that are known"),
        (["--known", "known.csv", "--k", "3"], BadSettings, "--k and --known exclude each other"),
        (["--known", "nosuch.csv"], SourceNotFound, "nosuch.csv"),
    ],
)
def test_options_that_contradict_each_other(
    options: list[str], error: type[Exception], reason: str
) -> None:
    done = CliRunner().invoke(app, options)
    assert isinstance(done.exception, error)
    assert reason in str(done.exception)
    with pytest.raises(BadSettings, match="n_communities=2 beside known communities"):
        DetectSettings(n_communities=2, known={"g": object()})  # type: ignore[dict-item]
