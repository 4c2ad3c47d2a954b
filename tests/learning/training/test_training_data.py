"""Graphs to learn from: everything that producers read, with known communities where there are."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
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
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.synthetic.lfr import LfrSettings
from stream_icd.sources.generated import independent_lfr
from stream_icd.sources.tables import columns_of
from tests.history.conftest import add_snapshots
from tests.sources.reading import write as write_below
from tests.testbed.brokers import Broker
from tests.testbed.lessons import add_to_archive
from tests.testbed.streams import publish

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
FRIENDS = {
    "friends/monday.csv": "src,dst\nana,bo\nbo,cy\ncy,ana\ndi,ed\n",
    "friends/tuesday.csv": "src,dst\nana,bo\ndi,ed\n",
}
"""Two edge lists of named people."""
write = partial(write_below, Path())


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def labels_of(graphs: list[LabelledGraph]) -> list[list[int] | None]:
    return [None if graph.labels is None else graph.labels.tolist() for graph in graphs]


@pytest.mark.parametrize(
    ("description", "reason"),
    [
        ("gn:graphs=1,nodes=9,communities=3 + ", "'': it is empty"),
        ("sbm:nodes=3", "no graphs at or of kind 'sbm'"),
        ("files:path=\udcff", "can't encode character"),
        ("gn:graphs=-1", "graphs=-1 is not from 1 to 1,000,000"),
        ("gn:nodes=99999999999999999999", "n_nodes=99999999999999999999 is too many; the limit"),
        ("lfr:seed=-1", "seed=-1 is below 0"),
        ("gn:nodes=100-200", "'100-200'"),
        ("lfr:nodes=600-500", "nodes=600-500: the first number is above the second"),
        ("no/such/folder", "no graphs at"),
        ("gn:mixing=0.3", "unknown mixing"),
        ("gn:p_in", "'p_in' is not name=value"),
        ("as:graphs=3", "'path'"),
        ("mails.csv", r"give events:path=mails\.csv,window=1d"),
        ("events:path=mails.csv,sort=maybe", "maybe"),
        ("events:path=mails.csv,session=1h,hop=1m", "leave out --hop and --align"),
        ("events:path=mails.csv,least_nodes=1", "Invalid value for '--least-nodes'"),
        ("events:path=mails.csv,window=1h,window=2h", "window is given twice"),
        ("events:path=mails.csv,help=yes", "unknown help"),
        ("events:path=bare.csv", r"as in events:path=…,columns=…$"),
        ("events:path=calls.csv", "columns src, dst, time, timestamp; expected t"),
        ("events:topic=mails,sort=yes", "--sort and --columns are for files"),
        ("files:path=graphs,watch=yes", "unknown watch"),
        ("taxi:path=mails.csv,sample=2,seed=99999999999999999999", "less than or equal to"),
    ],
)
def test_descriptions_are_checked(description: str, reason: str) -> None:
    write(
        {
            "mails.csv": "t,src,dst\n0,1,2\n",
            "bare.csv": "1,2,10\n2,3,20\n",
            "calls.csv": "src,dst,time,timestamp\n1,2,0,5\n",
        }
    )
    with pytest.raises(BadSettings, match=reason):
        training_graphs(description)
    assert len(training_graphs("events:path=calls.csv,time=time")) == 1


@pytest.mark.parametrize("kind", ["as", "files", "events", "archive", "taxi"])
def test_what_is_not_there_is_said(kind: str) -> None:
    with pytest.raises(SourceNotFound, match="no-such"):
        training_graphs(f"{kind}:path=no-such.parquet")


@pytest.mark.timeout(60)
@pytest.mark.brokers("memory")
def test_a_topic_is_read_to_its_end(broker: Broker, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    events = b'{"t": 10, "src": 1, "dst": 2}', b'{"t": 90000, "src": 1, "dst": 3}'
    publish(broker, [OutgoingRecord(topic, event) for event in events])
    found = training_graphs(f"events:topic={topic},bootstrap_servers={broker.bootstrap_servers}")
    assert [graph.adjacency.nnz for graph in found] == [2, 2]


def test_lfr_graphs_of_varying_size_have_their_truth() -> None:
    graphs = training_graphs("lfr:nodes=1000-1200,mixing=0.2,graphs=3,seed=5")
    sizes = [graph.adjacency.shape[0] for graph in graphs]
    assert all(1000 <= size <= 1200 for size in sizes)
    assert len(set(sizes)) > 1
    assert all(graph.labels is not None for graph in graphs)


def test_an_error_names_an_option_as_a_description_has_it() -> None:
    write({"graphs/g.csv": "src,dst\n1,2\nx,3\n"})
    with pytest.raises(BadRow, match=r"\(--ids\). Here, --ids is ids=…, as in files:path=…,ids=…$"):
        training_graphs("files:path=graphs,ids=integer")
    (graph,) = training_graphs("files:path=graphs,ids=string")
    assert graph.adjacency.shape == (4, 4)


def test_disorder_is_told_and_files_of_t_drive_are_read() -> None:
    write(
        {
            "backwards.csv": "t,src,dst\n90000,1,2\n0,2,3\n",
            "1.txt": "1,2008-02-02 08:00:00,116.4,39.9\n2,2008-02-02 08:00:10,116.4,39.9\n",
        }
    )
    with pytest.raises(BadRow, match="sort the file by time"):
        training_graphs("events:path=backwards.csv")
    (graph,) = training_graphs("taxi:path=1.txt,t_drive=yes,sample=2")
    assert graph.adjacency.shape == (2, 2)


def test_a_folder_of_edge_lists_is_read_as_it_is() -> None:
    write(FRIENDS)
    for description in ("friends", "files:path=friends"):
        graphs = training_graphs(description)
        assert [graph.adjacency.nnz // 2 for graph in graphs] == [4, 2]
        assert labels_of(graphs) == [None, None]


def test_a_table_of_labels_goes_with_every_graph_or_with_the_snapshot_that_it_names() -> None:
    rows = "ana,red", "bo,red", "cy,blue", "di,blue", "ed,blue"
    of_all = [[1, 1, 0, 0, 0], [1, 1, 0, 0]]  # nodes and labels are in their order
    of_tuesday = [f"tuesday.csv,{row}" for row in ("ana,1", "bo,2", "di,3", "ed,3")]
    for header, of_nodes, expected in (
        ("node,community", rows, of_all),
        ("node,label", rows, of_all),
        ("snapshot,node,community", of_tuesday, [None, [0, 1, 2, 2]]),
    ):
        write(FRIENDS | {"labels.csv": "\n".join([header, *of_nodes])})
        assert labels_of(training_graphs("files:path=friends,labels=labels.csv")) == expected


@pytest.mark.parametrize(
    ("table", "error", "reason"),
    [
        (
            "snapshot,graph,node,community\nmonday.csv,foes,ana,1\nmonday.csv,others,ana,1",
            BadSettings,
            "of none of the 2 graphs.* of files that begins",
        ),
        (
            "node,community\nana,1\nbo,1\ncy,1\ndi,2",
            BadInput,
            "no label for 1 of the 5 nodes .*, such as 'ed'",
        ),
        ("src,dst\nana,bo", BadSettings, "src, dst; a table of labels has node and community"),
    ],
)
def test_labels_that_fit_no_graph_or_not_all_nodes_are_refused(
    table: str, error: type[Exception], reason: str
) -> None:
    write(FRIENDS | {"labels.csv": table})
    with pytest.raises(error, match=reason):
        training_graphs("files:path=friends,labels=labels.csv")
    with pytest.raises(SourceNotFound, match=r"no-such\.csv"):
        training_graphs("files:path=friends,labels=no-such.csv")
    missing = {"node": ["ana", "bo"], "community": [1.0, float("nan")]}
    write({"labels.parquet": pa.table(missing)})
    with pytest.raises(BadRow, match="parquet:1: node or community is missing"):
        training_graphs("files:path=friends,labels=labels.parquet")


def test_labels_that_may_be_those_of_several_graphs_are_refused() -> None:
    window = Window(START, START + DAY)
    named = ({"graph": graph, "id": f"{graph}/1"} for graph in "ab")
    snapshots = (snapshot_from_pairs([1], [2], **names, window=window) for names in named)
    add_snapshots(open_store("past"), snapshots)
    write({"labels.csv": "node,community\n1,red\n2,blue\n"})
    data = "archive:path=past,labels=labels.csv"
    with pytest.raises(BadSettings, match="of each window in .* may be those of a or b: choose"):
        training_graphs(data)
    assert labels_of(training_graphs(f"{data},graph=b")) == [[1, 0]]
    write({"labels.csv": "graph,node,community\na,1,red\na,2,blue\nb,1,red\nb,2,red\n"})
    assert labels_of(training_graphs(data)) == [[1, 0], [0, 0]]


def test_windows_of_a_table_have_the_labels_of_their_time() -> None:
    days = np.array(["2026-01-01", "2026-01-01", "2026-01-02"], "datetime64[D]")
    edges = {"window_start": days, "src": [1, 2, 1], "dst": [2, 3, 3]}
    write({"edges.parquet": pa.table(edges)})
    starts, nodes = days[[0, 0, 0, 2, 2]], [1, 2, 3, 1, 3]
    labels = {"window_start": starts, "node": nodes, "label": [5, 5, 9, 9, 4]}
    write({"labels.parquet": pa.table(labels)})
    graphs = training_graphs("as:path=edges.parquet,labels=labels.parquet")
    assert labels_of(graphs) == [[0, 0, 1], [1, 0]]


def test_events_become_a_graph_a_window_by_all_options_of_their_producer() -> None:
    write(
        {
            "mails.csv": "ana,bo,0\nana,bo,10\nbo,cy,3700\ncy,di,3600\n",
            "calls.csv": "src,dst,t\nana,bo,0\nbo,cy,600\ncy,di,9000\n",
        }
    )
    mails = "events:path=mails.csv,columns=src;dst;t,window=1h,weight=count,sort=yes"
    (first, second) = training_graphs(mails)
    assert first.adjacency.toarray().tolist() == [[0, 2], [2, 0]]
    assert second.adjacency.nnz == 4
    calls = "events:path=calls.csv,session=20m"
    assert [graph.adjacency.nnz // 2 for graph in training_graphs(calls)] == [2, 1]
    assert len(training_graphs(f"{calls},limit=1")) == 1


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("mails.csv", "src,dst,t,weight,kind\nana,bo,0,2,x\n"),
        ("mails.jsonl", '{"src": "ana", "dst": "bo", "t": 0, "weight": 2, "kind": "x"}\n'),
    ],
)
def test_columns_of_events_that_are_not_used_are_logged(name: str, content: str) -> None:
    write({name: content})
    for options, unused in (("", "weight, kind"), (",weight=weight", "kind")):
        with capture_logs() as logs:
            training_graphs(f"events:path={name}{options}")
        columns = [line["columns"] for line in logs if line["event"] == "columns are not used"]
        assert columns == [unused]


@pytest.mark.parametrize(
    ("time", "ends"),
    [
        ("time", "src,dst"),
        ("timestamp", "Source,Target"),
        ("datetime", "from,to"),
        ("t", "src,dst"),
    ],
)
def test_columns_may_have_usual_names(time: str, ends: str) -> None:
    fixes = (f'{{"taxi": {i}, "{time}": {i}, "y": 40.0, "x": 116.{i}}}\n' for i in range(70))
    write({"mails.csv": f"{ends},{time}\n1,2,0\n2,3,90000\n", "fixes.jsonl": "".join(fixes)})
    with mock.patch("stream_icd.sources.tables.columns_of", wraps=columns_of) as looked:
        assert len(training_graphs("events:path=mails.csv")) == 2
    assert looked.call_count == 1  # for the ends and the time
    taxis = "taxi:path=fixes.jsonl,lat=y,lon=x"
    assert len(training_graphs(taxis)) == len(training_graphs(f"{taxis},time={time}")) == 2


def test_an_archive_gives_its_snapshots_with_their_labels() -> None:
    made: Any = list(independent_lfr(1, 3, LfrSettings(200, max_degree=50)).snapshots)
    add_to_archive("history", made, labels=True)
    for description in ("history", "archive:path=history,graph=lfr"):
        graphs = training_graphs(description)
        for graph, (snapshot, labels) in zip(graphs, made, strict=True):
            assert (graph.adjacency != snapshot.adjacency()).nnz == 0
            assert np.array_equal(graph.labels, labels.labels)
    assert len(training_graphs("archive:path=history,graphs=2")) == 2


def test_archived_labels_are_those_of_their_nodes() -> None:
    def archived(number: int, known: list[str]) -> tuple[Snapshot, Labels]:
        window = Window(START + number * DAY, START + (number + 1) * DAY)
        snapshot = snapshot_from_pairs(["b"], ["c"], graph="g", id=f"g/{number}", window=window)
        labels = np.arange(len(known), dtype=np.int32)
        return snapshot, Labels("g", f"g/{number}", window, pa.array(known), labels)

    nodes = [["a", "b", "c"], ["b", "c", "d"], ["a", "b"]]  # some, and others, than the window's
    windows = (archived(number, known) for number, known in enumerate(nodes))
    add_to_archive("history", windows, labels=True)
    assert labels_of(training_graphs("history")) == [[0, 1], [0, 1], None]


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
            ids, window = range(self.size), Window(START, START)
            ring = [*ids[1:], 0]
            snapshot = snapshot_from_pairs(ids, ring, graph="mine", id="mine/1", window=window)
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
