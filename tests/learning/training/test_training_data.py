"""Graphs to learn from: everything that producers read, with known communities where there are."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from structlog.testing import capture_logs

from stream_icd import programs
from stream_icd.commands.programs import training_data
from stream_icd.commands.programs.training_data import training_graphs
from stream_icd.core.communities import Labels
from stream_icd.core.errors import BadInput, BadRow, BadSettings, SourceNotFound
from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.core.store.store import open_store
from stream_icd.history.archive import Archive
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.methods.synthetic.lfr import LfrSettings
from stream_icd.sources.generated import independent_lfr
from stream_icd.wire.snapshots import encode_snapshot
from tests.testbed.brokers import Broker
from tests.testbed.lessons import add_to_archive
from tests.testbed.streams import publish


@pytest.mark.parametrize(
    ("description", "words"),
    [
        ("gn:graphs=1,nodes=9,communities=3 + ", "'': it is empty"),
        ("sbm:nodes=3", "no graphs at or of kind 'sbm'"),
        ("files:path=\udcff", "can't encode character"),
        ("gn:graphs=-1", "graphs=-1 is not from 1 to 1,000,000"),
        ("gn:graphs=9223372036854775808", "graphs=9223372036854775808 is not from 1 to"),
        ("gn:nodes=99999999999999999999", "n_nodes=99999999999999999999 is too many; the limit"),
        ("lfr:nodes=5000-9999999999", "n_nodes=9999999999 is too many"),
        ("lfr:seed=-1", "seed=-1 is below 0"),
        ("gn:nodes=100-200", "'100-200'"),
        ("lfr:nodes=600-500", "nodes=600-500: the first number is above the second"),
        ("no/such/folder", "no graphs at"),
        ("gn:mixing=0.3", "unknown mixing"),
        ("gn:p_in", "'p_in' is not name=value"),
        ("gn:p_in=high", "could not convert"),
        ("as:graphs=3", "'path'"),
        ("events:path=rows.csv,sort=maybe", "maybe"),
        ("events:path=rows.csv,session=1h,hop=1m", "leave out --hop and --align"),
        ("events:topic=mails,sort=yes", "--sort and --columns are for files"),
        ("events:path=rows.csv,window=1h,window=2h", "window is given twice"),
        ("events:path=rows.csv,again=1", "again=1 is neither yes nor no"),
        ("events:path=rows.csv,help=yes", "unknown help"),
        ("events:path=rows.csv,install_completion=yes", "unknown install_completion"),
        ("files:path=graphs,watch=yes", "unknown watch"),
        ("events:topic=mails,bootstrap_servers=mine", "'mine' is not host:port"),
        ("taxi:path=rows.csv,sample=2,seed=99999999999999999999", "less than or equal to"),
    ],
)
def test_descriptions_are_checked(description: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("t,src,dst\n0,1,2\n")
    with pytest.raises(BadSettings, match=words):
        training_graphs(description.replace("rows.csv", f"{tmp_path}/rows.csv"))


@pytest.mark.timeout(60)
@pytest.mark.brokers("memory")
def test_a_topic_is_read_to_its_end(broker: Broker, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    events = b'{"t": 10, "src": 1, "dst": 2}', b'{"t": 90000, "src": 1, "dst": 3}'
    publish(broker, [OutgoingRecord(topic, event) for event in events])
    found = training_graphs(f"events:topic={topic},bootstrap_servers={broker.bootstrap_servers}")
    assert [graph.adjacency.nnz for graph in found] == [2, 2]


@pytest.mark.parametrize("kind", ["as", "files", "events", "archive", "taxi"])
def test_what_is_not_there_is_said(kind: str, tmp_path: Path) -> None:
    with pytest.raises(SourceNotFound, match="no-such"):
        training_graphs(f"{kind}:path={tmp_path}/no-such.parquet")


def test_lfr_graphs_of_varying_size_have_their_truth() -> None:
    graphs = training_graphs("lfr:nodes=1000-1200,mixing=0.2,graphs=3,seed=5")
    sizes = [graph.adjacency.shape[0] for graph in graphs]
    assert all(1000 <= size <= 1200 for size in sizes)
    assert len(set(sizes)) > 1
    assert all(graph.labels is not None for graph in graphs)


def test_an_error_names_an_option_as_a_description_has_it(tmp_path: Path) -> None:
    folder = tmp_path / "graphs"
    folder.mkdir()
    (folder / "g.csv").write_text("src,dst\n1,2\nx,3\n")
    with pytest.raises(BadRow, match=r"\(--ids\). Here, --ids is ids=…, as in files:path=…,ids=…$"):
        training_graphs(f"files:path={folder},ids=integer")
    (graph,) = training_graphs(f"files:path={folder},ids=string")
    assert graph.adjacency.shape == (4, 4)
    (tmp_path / "mails.csv").write_text("1,2,10\n2,3,20\n")
    with pytest.raises(BadSettings, match=r"as in events:path=…,columns=…$"):
        training_graphs(f"events:path={tmp_path / 'mails.csv'}")


def test_taxi_fixes_become_graphs_and_disorder_is_told(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    fixes = {
        "t": np.repeat(np.arange(0, 600, 30), 20).astype("datetime64[s]"),
        "taxi": np.tile(np.arange(20), 20),
        "lat": 39.9 + rng.normal(0, 0.01, 400),
        "lon": 116.4 + rng.normal(0, 0.01, 400),
    }
    pq.write_table(pa.table(fixes), tmp_path / "fixes.parquet")
    graphs = training_graphs(f"taxi:path={tmp_path}/fixes.parquet,tick=1m,stale=2m,sample=10")
    assert [graph.adjacency.shape for graph in graphs] == [(10, 10)] * len(graphs)
    assert len(graphs) >= 10
    backwards = pa.table({name: column[::-1] for name, column in fixes.items()})
    pq.write_table(backwards, tmp_path / "backwards.parquet")
    with pytest.raises(BadRow, match="sort the file by time"):
        training_graphs(f"taxi:path={tmp_path}/backwards.parquet,tick=1m")


@pytest.fixture
def friends(tmp_path: Path) -> Path:
    """Two edge lists of named people."""
    folder = tmp_path / "friends"
    folder.mkdir()
    (folder / "monday.csv").write_text("src,dst\nana,bo\nbo,cy\ncy,ana\ndi,ed\n")
    (folder / "tuesday.csv").write_text("src,dst\nana,bo\ndi,ed\n")
    return folder


def with_labels(friends: Path, header: str, *rows: str) -> list[list[int] | None]:
    """The labels of both graphs, by a table of these rows."""
    table = friends.parent / "labels.csv"
    table.write_text("\n".join([header, *rows]))
    graphs = training_graphs(f"files:path={friends},labels={table}")
    return [None if graph.labels is None else graph.labels.tolist() for graph in graphs]


def test_a_folder_of_edge_lists_is_read_as_it_is(friends: Path) -> None:
    for description in (str(friends), f"files:path={friends}"):
        graphs = training_graphs(description)
        assert [graph.adjacency.nnz // 2 for graph in graphs] == [4, 2]
        assert [graph.labels for graph in graphs] == [None, None]


@pytest.mark.parametrize("name", ["community", "label"])
def test_a_table_of_labels_goes_with_every_graph(name: str, friends: Path) -> None:
    rows = "ana,red", "bo,red", "cy,blue", "di,blue", "ed,blue"
    # Nodes and labels are in their order.
    assert with_labels(friends, f"node,{name}", *rows) == [[1, 1, 0, 0, 0], [1, 1, 0, 0]]


def test_labels_of_a_snapshot_go_with_that_one(friends: Path) -> None:
    rows = [f"tuesday.csv,{row}" for row in ("ana,1", "bo,2", "di,3", "ed,3")]
    assert with_labels(friends, "snapshot,node,community", *rows) == [None, [0, 1, 2, 2]]


@pytest.mark.parametrize(
    ("column", "name"), [("snapshot,graph", "monday.csv,foes"), ("window_start", "2026-01-01")]
)
def test_labels_of_none_of_the_graphs_are_refused(column: str, name: str, friends: Path) -> None:
    rows = [f"{name},{node},1" for node in ("ana", "bo", "cy", "di", "ed")]
    if column == "snapshot,graph":
        rows.append("monday.csv,others,ana,1")
    with pytest.raises(BadSettings, match="of none of the 2 graphs.* of files that begins"):
        with_labels(friends, f"{column},node,community", *rows)


def test_labels_that_lack_nodes_or_values_or_are_none_are_refused(friends: Path) -> None:
    with pytest.raises(BadInput, match="no label for 1 of the 5 nodes .*, such as 'ed'"):
        with_labels(friends, "node,community", "ana,1", "bo,1", "cy,1", "di,2")
    table = {"node": ["ana", "bo", "cy"], "community": [1.0, float("nan"), float("nan")]}
    pq.write_table(pa.table(table), friends.parent / "labels.parquet")
    with pytest.raises(BadRow, match="parquet:1: node or community is missing"):
        training_graphs(f"files:path={friends},labels={friends.parent}/labels.parquet")
    with pytest.raises(BadSettings, match="src, dst; a table of labels has node and community"):
        training_graphs(f"files:path={friends},labels={friends}/monday.csv")
    with pytest.raises(SourceNotFound, match=r"no-such\.csv"):
        training_graphs(f"files:path={friends},labels=no-such.csv")


def test_labels_that_may_be_those_of_several_graphs_are_refused(tmp_path: Path) -> None:
    day = Window(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))
    for graph in "ab":
        snapshot = snapshot_from_pairs([1], [2], graph=graph, id=f"{graph}/1", window=day)
        Archive(open_store(str(tmp_path / "x"))).add("snapshots", encode_snapshot(snapshot))
    table, data = tmp_path / "labels.csv", f"archive:path={tmp_path}/x,labels={tmp_path}/labels.csv"
    table.write_text("node,community\n1,red\n2,blue\n")
    with pytest.raises(BadSettings, match="of each window in .* may be those of a or b: choose"):
        training_graphs(data)
    assert training_graphs(f"{data},graph=b")[0].labels.tolist() == [1, 0]
    table.write_text("graph,node,community\na,1,red\na,2,blue\nb,1,red\nb,2,red\n")
    assert [graph.labels.tolist() for graph in training_graphs(data)] == [[1, 0], [0, 0]]


def test_windows_of_a_table_have_the_labels_of_their_time(tmp_path: Path) -> None:
    days = np.array(["2026-01-01", "2026-01-01", "2026-01-02"], "datetime64[D]")
    edges = {"window_start": days, "src": [1, 2, 1], "dst": [2, 3, 3]}
    pq.write_table(pa.table(edges), tmp_path / "edges.parquet")
    labels = {
        "window_start": days[[0, 0, 0, 2, 2]],
        "node": [1, 2, 3, 1, 3],
        "label": [5, 5, 9, 9, 4],
    }
    pq.write_table(pa.table(labels), tmp_path / "labels.parquet")
    first, second = training_graphs(
        f"as:path={tmp_path}/edges.parquet,labels={tmp_path}/labels.parquet"
    )
    assert first.labels.tolist() == [0, 0, 1]
    assert second.labels.tolist() == [1, 0]


def test_events_become_a_graph_a_window(tmp_path: Path) -> None:
    path = tmp_path / "mails.csv"
    path.write_text("ana,bo,0\nana,bo,10\nbo,cy,3700\ncy,di,3600\n")
    (first, second) = training_graphs(
        f"events:path={path},columns=src;dst;t,window=1h,weight=count,sort=yes"
    )
    assert first.adjacency.toarray().tolist() == [[0, 2], [2, 0]]
    assert second.adjacency.nnz == 4


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("mails.csv", "src,dst,t,weight,kind\nana,bo,0,2,x\n"),
        ("mails.jsonl", '{"src": "ana", "dst": "bo", "t": 0, "weight": 2, "kind": "x"}\n'),
    ],
)
def test_columns_of_events_that_are_not_used_are_logged(
    name: str, content: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    for options, unused in (("", "weight, kind"), (",weight=weight", "kind")):
        with capture_logs() as logged:
            training_graphs(f"events:path={tmp_path / name}{options}")
        said = [line["columns"] for line in logged if line["event"] == "columns are not used"]
        assert said == [unused]


def test_a_source_takes_all_options_of_its_producer(tmp_path: Path) -> None:
    path = tmp_path / "mails.csv"
    path.write_text("src,dst,t\nana,bo,0\nbo,cy,600\ncy,di,9000\n")
    sizes = [
        graph.adjacency.nnz // 2 for graph in training_graphs(f"events:path={path},session=20m")
    ]
    assert sizes == [2, 1]
    assert len(training_graphs(f"events:path={path},session=20m,limit=1")) == 1
    with pytest.raises(BadSettings, match="Invalid value for '--least-nodes'"):
        training_graphs(f"events:path={path},least_nodes=1")
    (tmp_path / "1.txt").write_text(
        "1,2008-02-02 08:00:00,116.4,39.9\n2,2008-02-02 08:00:10,116.4,39.9\n"
    )
    (graph,) = training_graphs(f"taxi:path={tmp_path}/1.txt,t_drive=yes")
    assert graph.adjacency.shape == (2, 2)


@pytest.mark.parametrize("name", ["time", "timestamp", "datetime", "t"])
def test_the_time_column_may_have_a_usual_name(name: str, tmp_path: Path) -> None:
    (tmp_path / "mails.csv").write_text(f"src,dst,{name}\n1,2,0\n2,3,90000\n")
    assert len(training_graphs(f"events:path={tmp_path}/mails.csv")) == 2
    (tmp_path / "fixes.jsonl").write_text(
        "".join(f'{{"taxi": {i}, "{name}": {i}, "y": 40.0, "x": 116.{i}}}\n' for i in range(70))
    )
    fixes = f"taxi:path={tmp_path}/fixes.jsonl,lat=y,lon=x"
    assert len(training_graphs(fixes)) == len(training_graphs(f"{fixes},time={name}")) == 2


def test_two_time_columns_ask_which(tmp_path: Path) -> None:
    (tmp_path / "calls.csv").write_text("src,dst,time,timestamp\n1,2,0,5\n")
    with pytest.raises(BadSettings, match="columns src, dst, time, timestamp; expected t"):
        training_graphs(f"events:path={tmp_path}/calls.csv")
    assert len(training_graphs(f"events:path={tmp_path}/calls.csv,time=time")) == 1


def test_a_file_alone_asks_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "mails.csv").write_text("src,dst,t\n1,2,0\n")
    with pytest.raises(BadSettings, match=r"give events:path=.*mails\.csv,window=1d"):
        training_graphs(f"{tmp_path}/mails.csv")


def test_an_archive_gives_its_snapshots_with_their_labels(tmp_path: Path) -> None:
    place = str(tmp_path / "history")
    made: Any = list(independent_lfr(1, 3, LfrSettings(200, max_degree=50)).snapshots)
    add_to_archive(place, made, labels=True)
    for description in (place, f"archive:path={place},graph=lfr"):
        graphs = training_graphs(description)
        for graph, (snapshot, labels) in zip(graphs, made, strict=True):
            assert (graph.adjacency != snapshot.adjacency()).nnz == 0
            assert np.array_equal(graph.labels, labels.labels)
    assert len(training_graphs(f"archive:path={place},graphs=2")) == 2


def test_archived_labels_are_those_of_their_nodes(tmp_path: Path) -> None:
    start, day = datetime(2026, 1, 1, tzinfo=UTC), timedelta(days=1)

    def archived(number: int, known: list[str]) -> tuple[Snapshot, Labels]:
        window = Window(start + number * day, start + (number + 1) * day)
        snapshot = snapshot_from_pairs(["b"], ["c"], graph="g", id=f"g/{number}", window=window)
        labels = np.arange(len(known), dtype=np.int32)
        return snapshot, Labels("g", f"g/{number}", window, pa.array(known), labels)

    nodes = [["a", "b", "c"], ["b", "c", "d"], ["a", "b"]]  # some, and others, than the window's
    add_to_archive(str(tmp_path), (archived(*one) for one in enumerate(nodes)), labels=True)
    found = [graph.labels for graph in training_graphs(str(tmp_path))]
    assert [None if one is None else one.tolist() for one in found] == [[0, 1], [0, 1], None]


def installed(monkeypatch: pytest.MonkeyPatch, app: typer.Typer) -> None:
    """As if another package had a producer."""
    entry = SimpleNamespace(load=lambda: app)
    monkeypatch.setattr(training_data, "entry_points", lambda **_: [entry])


def test_a_producer_of_another_package_is_a_form(monkeypatch: pytest.MonkeyPatch) -> None:
    app = typer.Typer()

    @programs.command(app, "mine")
    class Mine(programs.ReadingProducer):
        """Send my graphs."""

        size: int = programs.option(3, "Nodes of each.")

        def open(self, _run: programs.ProducerRun) -> programs.Source:
            start = datetime(2026, 1, 1, tzinfo=UTC)
            ids = range(self.size)
            snapshot = snapshot_from_pairs(
                ids, [*ids[1:], 0], graph="mine", id="mine/1", window=Window(start, start)
            )
            return programs.Source(1, iter([(snapshot, None)]))

    installed(monkeypatch, app)
    (graph,) = training_graphs("mine:size=5")
    assert graph.adjacency.shape == (5, 5)


def test_a_producer_of_another_form_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    app, ran = typer.Typer(), []
    app.command()(lambda: ran.append("sent"))
    installed(monkeypatch, app)
    with pytest.raises(BadSettings, match="mine is no class with a method `open`"):
        training_graphs("mine:")
    assert ran == []
