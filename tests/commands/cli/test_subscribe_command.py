"""`stream-icd subscribe` as people and programs use it: results, events, nodes, files, names."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stream_icd.commands.cli import subscribe_shapes as shapes
from stream_icd.commands.cli.subscribe_formats import writer_of
from stream_icd.commands.cli.subscribe_shapes import shape_of
from stream_icd.commands.programs.naming import _tables_of
from stream_icd.core.communities import Communities
from stream_icd.core.errors import BadSettings, BrokerUnavailable
from stream_icd.core.store.store import open_store
from stream_icd.history.archive import Archive
from stream_icd.kafka.embedded import embedded_broker
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.topics import COMMUNITIES, EVENTS, create_topics
from stream_icd.methods.names.attributes import attributes_of
from stream_icd.methods.names.names import Naming
from stream_icd.streaming.subscribers.subscription import Subscription
from stream_icd.wire.communities import encode_communities
from stream_icd.wire.events import encode_events
from tests.run_here import Done, run_here
from tests.streaming.workers.tracked import outgoing, unbroken, window
from tests.testbed.brokers import Broker
from tests.testbed.streams import publish

APART, TOGETHER = [0] * 10 + [1] * 8, [0] * 18
LABELS = {0: APART, 1: APART, 3: TOGETHER}
ALL = ("--from", "beginning", "--until", "end")
NAMES = {"0": "PC, 10 of 10", "1": "MP, 8 of 8"}
CLASSES = attributes_of(pa.array(range(18)), {"class": ["PC"] * 10 + ["MP"] * 8})


@pytest.fixture
def whole(embedded: Broker, topic_name: str) -> str:
    """A graph with three published results, with all that a detector may say of them."""
    create_topics(embedded.settings())
    results = [
        replace(
            window(topic_name, number, [0, 1, 0]),
            nodes=pa.array(["a", "b", "c"]),
            n_edges=2,
            modularity=0.25,
            milliseconds={"decode": 1.0, "features": 2.0, "encode": 3.0, "cluster": 4.0},
            evidence="weak",
            bits_saved=0.125,
            community_ids=np.array([100 + number, 7]),
            replaced=np.empty((0, 2), np.int64),
            memory="continued",
            horizon=4.5,
            predicted_bits=-0.25,
            probabilities=np.array([1, 0.9, 0.55], np.float32),
            second_ids=np.array([-1, -1, 7]),
            second_probabilities=np.array([0, 0, 0.45], np.float32),
        )
        for number in range(3)
    ]
    publish(embedded, [outgoing(result, COMMUNITIES) for result in results])
    return topic_name


@pytest.fixture
def graph(embedded: Broker, topic_name: str) -> str:
    """Hours 0, 1 and 3 of a graph in the live topics: two communities, which merge in the last."""
    create_topics(embedded.settings())
    hours = [window(topic_name, hour, found) for hour, found in LABELS.items()]
    publish(embedded, [*(outgoing(one, COMMUNITIES) for one in hours), *events_of(hours)])
    return topic_name


def events_of(hours: Sequence[Communities]) -> list[OutgoingRecord]:
    messages = map(encode_events, unbroken(hours))
    return [OutgoingRecord(EVENTS, m.value, m.key, m.headers) for m in messages]


def command(broker: Broker, *options: str) -> list[str]:
    address = ("-b", broker.bootstrap_servers)
    return [sys.executable, "-m", "stream_icd.commands.cli", "subscribe", *options, *address]


def subscribe(broker: Broker, *options: str, status: int = 0) -> Done:
    done = run_here("subscribe", *options, "-b", broker.bootstrap_servers)
    assert done.returncode == status, done.stderr
    return done


def documents(broker: Broker, *options: str) -> list[dict[str, Any]]:
    done = subscribe(broker, *options, *ALL, "--format", "json")
    return [json.loads(line) for line in done.stdout.splitlines()]


@contextmanager
def following(broker: Broker, *options: str) -> Iterator[tuple[IO[str], Callable[[int], None]]]:
    """A running subscriber: its standard error, and what ends it by a signal, without an error."""
    follow = command(broker, *options)
    with subprocess.Popen(follow, stderr=subprocess.PIPE, text=True) as running:

        def end(number: int) -> None:
            running.send_signal(number)
            assert running.wait(60) == 0

        assert running.stderr is not None
        yield running.stderr, end


def test_results_as_lines_json_csv_and_arrow(embedded: Broker, whole: str) -> None:
    of_whole = ("--graph", whole, *ALL)
    lines = subscribe(embedded, *of_whole).stdout.splitlines()
    assert len(lines) == 4
    assert lines[0].split()[:4] == ["graph", "snapshot", "nodes", "edges"]
    numbers = "3 2 2 0.2500 weak 0.82 4.5 -0.250 2 10.0 m@1"
    assert lines[1].split() == [whole, f"{whole}/0", *numbers.split()]

    first, second = documents(embedded, "--graph", whole, "--limit", "2")
    assert (first["snapshot_id"], second["snapshot_id"]) == (f"{whole}/0", f"{whole}/1")
    assert first["window_end"] == "2020-01-01T01:00:00+00:00"
    assert (first["community_ids"], first["replaced"]) == ([100, 7], [])
    assert (first["nodes"], first["communities"]) == (["a", "b", "c"], [0, 1, 0])
    assert first["probabilities"] == [1, 0.9, 0.55]
    assert (first["second_ids"], first["second_probabilities"]) == ([-1, -1, 7], [0, 0, 0.45])
    assert (first["n_communities"], first["modularity"], first["memory"]) == (2, 0.25, "continued")
    assert (first["horizon"], first["predicted_bits"]) == (4.5, -0.25)

    heading, *rows = subscribe(embedded, *of_whole, "--format", "csv").stdout.splitlines()
    columns = '"community_id","probability","second_id","second_probability"'
    assert heading.endswith(f'"node","community",{columns}')
    assert [row.split(",", 11)[-1] for row in rows[:3]] == [
        '"a",0,100,1,,',
        '"b",1,7,0.9,,',
        '"c",0,100,0.55,7,0.45',
    ]

    arrow = subscribe(embedded, *of_whole, "--format", "arrow")
    table = pa.ipc.open_stream(arrow.output).read_all()
    assert table.num_rows == 9
    assert table["node"].to_pylist()[:3] == ["a", "b", "c"]
    assert table["community_id"].to_pylist()[-3:] == [102, 7, 102]
    assert table["second_id"].to_pylist()[:3] == [None, None, 7]
    said = ("evidence", "bits_saved", "horizon", "horizon_for", "predicted_bits")
    assert [table[name][0].as_py() for name in said] == ["weak", 0.125, 4.5, None, -0.25]

    until_the_end = ("--graph", whole, "--until", "end")  # is from the beginning
    assert len(subscribe(embedded, *until_the_end, "--format", "json").stdout.splitlines()) == 3
    latest = subscribe(embedded, *until_the_end, "--from", "latest")
    assert len(latest.stdout.splitlines()) == 1
    assert latest.stderr == f"no result: nothing in {COMMUNITIES} matches\n"


def fails_after(*results: Communities) -> Iterator[Communities]:
    yield from results
    raise BrokerUnavailable("nobody there")


def test_what_cannot_be_read_has_no_heading(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BrokerUnavailable):
        writer_of("table")(fails_after(), shape_of("communities"))
    assert capsys.readouterr().out == ""
    writer_of("table")([], shape_of("communities"))
    assert capsys.readouterr().out == shape_of("communities").heading + "\n"


def test_a_message_that_is_no_result_is_named_on_standard_error(
    embedded: Broker, whole: str
) -> None:
    publish(embedded, [OutgoingRecord(COMMUNITIES, b"junk", whole.encode())])
    follow = command(embedded, "--graph", whole, "--until", "end", "--format", "arrow")
    done = subprocess.run(follow, capture_output=True, timeout=60, check=True)
    assert pa.ipc.open_stream(done.stdout).read_all().num_rows == 9
    skipped = rf"skipped {re.escape(COMMUNITIES)}\[\d\]@\d+: header .*\n"
    assert re.fullmatch(skipped, done.stderr.decode())


def test_a_reader_that_leaves_ends_it(embedded: Broker, whole: str) -> None:
    follow = command(embedded, "--graph", whole, "--from", "beginning", "--format", "json")
    for lines in (1, 3):  # early, and when it has all there is
        bash = ["bash", "-o", "pipefail", "-c", f"{shlex.join(follow)} | head -{lines}"]
        done = subprocess.run(bash, capture_output=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, b"")


def test_nobody_at_the_address_exits_for_a_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAM_ICD_CONNECT_TIMEOUT_S", "0.5")
    done = run_here("subscribe", "-b", "127.0.0.1:1")
    assert done.returncode == 75
    assert re.match("BrokerUnavailable: .*127.0.0.1:1", done.stderr)


def test_who_asks_for_the_next_one_while_a_leaving_reader_ends_it_gets_none() -> None:
    closing, asked = threading.Event(), threading.Event()

    def items(_: threading.Event) -> Generator[int, None, None]:
        try:
            yield 0
        finally:
            closing.set()
            asked.wait(60)

    subscription = Subscription(items)
    assert next(subscription) == 0
    leaving = threading.Thread(target=subscription.close)
    leaving.start()
    closing.wait(60)
    assert list(subscription) == []
    asked.set()
    leaving.join()


def test_events_as_a_table_and_the_gap_on_standard_error(embedded: Broker, graph: str) -> None:
    done = subscribe(embedded, "--graph", graph, "--events", *ALL)
    heading, *lines = (line.split(maxsplit=6) for line in done.stdout.splitlines())
    titles = ["graph", "snapshot", "event", "community", "before", "members", "what happened"]
    assert heading == titles
    assert {line[0] for line in lines} == {graph}
    assert [line[1:] for line in lines] == [
        [f"{graph}/0", "born", "0", "0", "10",
         "community 0 is new, with 10 nodes; still there 3 hours later"],
        [f"{graph}/0", "born", "1", "0", "8",
         "community 1 is new, with 8 nodes; there for 1 hour"],
        [f"{graph}/3", "merged", "0", "10", "18", "community 1 (8 nodes) joined community 0"],
    ]  # fmt: skip
    assert done.stderr.startswith(f"{graph}: 1 window is missing from 2020-01-01 02:00")


def test_a_node_and_a_kind_of_event_as_json(embedded: Broker, graph: str) -> None:
    changes = documents(embedded, "--graph", graph, "--node", "12")
    moves = [(change["snapshot_id"], change["before"], change["after"]) for change in changes]
    assert moves == [(f"{graph}/0", None, 1), (f"{graph}/3", 1, 0)]
    (merged,) = documents(embedded, "--graph", graph, "--event", "merged")
    assert [(e["kind"], e["parents"]) for e in merged["events"]] == [("merged", [0, 1])]
    assert (merged["missed"], merged["communities"]) == (1, [0] * 18)


def test_parquet_as_one_file_or_one_a_snapshot(
    embedded: Broker, graph: str, tmp_path: Path
) -> None:
    file, folder = tmp_path / "found.parquet", tmp_path / "found"
    for out in (file, folder):
        subscribe(embedded, "--graph", graph, *ALL, "--format", "parquet", "--out", str(out))
    whole = pq.read_table(file)
    place = ["graph", "snapshot_id", "window_start", "window_end", "model", "revision"]
    said = ["evidence", "bits_saved", "horizon", "horizon_for", "predicted_bits"]
    sure = ["probability", "second_id", "second_probability"]
    assert whole.column_names == [*place, *said, "node", "community", "community_id", *sure]
    assert whole.num_rows == 54
    files = sorted(folder.iterdir())
    named = [f"{graph}@{graph}%2F{hour}@m@1.parquet" for hour in (0, 1, 3)]
    assert [one.name for one in files] == named
    assert pa.concat_tables(map(pq.read_table, files)).equals(whole)


def test_members_of_a_community_and_csv(embedded: Broker, graph: str) -> None:
    options = ("--graph", graph, "--node", "12", *ALL, "--members")
    heading, *rows = subscribe(embedded, *options, "--format", "csv").stdout.splitlines()
    columns = heading.replace('"', "").split(",")
    assert columns[-2:] == ["community", "node"]
    assert [tuple(map(int, row.split(",")[-2:])) for row in rows] == [
        *((1, node) for node in range(10, 18)),
        *((0, node) for node in range(18)),
    ]
    of_community = ("--graph", graph, "--community", "1", "--members")
    members = [window["members"] for window in documents(embedded, *of_community)]
    assert members == [list(range(10, 18))] * 2 + [[]]
    lines = subscribe(embedded, *of_community, *ALL).stdout.splitlines()
    assert lines[1].split()[2:] == ["1", "8", *map(str, range(10, 18))]
    events = subscribe(embedded, "--graph", graph, "--event", "merged", *ALL, "--format", "csv")
    assert ',"0 1",' in events.stdout.splitlines()[1]


def test_a_graph_or_a_model_that_is_not_there_is_an_error(embedded: Broker, graph: str) -> None:
    for more in ((), ("--events",)):
        refused = subscribe(embedded, "--graph", f"{graph}x", *ALL, *more, status=78).stderr
        assert f"holds nothing of graph {graph}x; it holds " in refused
        assert f"did you mean {graph}?" in refused
        nonesuch = ("--graph", graph, "--model", "nonesuch", *ALL, *more)
        refused = subscribe(embedded, *nonesuch, status=78).stderr
        assert "holds nothing of model nonesuch; it holds " in refused
    subscribe(embedded, "--graph", graph, "--event", "died", *ALL)


def test_where_no_tracker_ever_ran_it_says_so() -> None:
    with embedded_broker() as broker:
        bare = Broker("embedded", broker.bootstrap_servers)
        create_topics(bare.settings())
        for events in (("--events",), ("--node", "1")):
            refused = subscribe(bare, *events, *ALL, status=78).stderr
            assert "no tracker has published events. Run one: stream-icd consume track" in refused
        with following(bare, "--events") as (log, end):
            assert "waiting for one" in log.readline()
            end(signal.SIGTERM)
        subscribe(bare, *ALL)


def test_two_graphs_and_a_correction_in_a_folder_are_several_files(tmp_path: Path) -> None:
    same = {"snapshot_id": "2026-01-01"}
    found = [
        replace(window("a", 0, [0, 1]), **same),
        replace(window("b", 0, [0, 1]), **same),
        replace(window("b", 0, [0, 0]), **same, revision="f00d"),
        replace(window(".hidden/..", 0, [0, 0]), snapshot_id="x" * 400),
    ]
    writer_of("parquet", tmp_path)(found, shape_of("communities"))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names[1:] == [
        "a@2026-01-01@m@1.parquet",
        "b@2026-01-01@m@1.parquet",
        "b@2026-01-01@m@1@f00d.parquet",
    ]
    assert names[0].startswith("%2Ehidden%2F..@xxx")
    assert len(names[0]) < 255


def test_an_error_leaves_no_file_under_the_name_and_what_came_before_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "found.parquet"
    with pytest.raises(BrokerUnavailable):
        writer_of("parquet", out)(fails_after(window("g", 0, [0, 1])), shape_of("communities"))
    assert [path.name for path in tmp_path.iterdir()] == ["found.incomplete.parquet"]
    assert pq.read_table(tmp_path / "found.incomplete.parquet").num_rows == 2
    assert "found.incomplete.parquet" in capsys.readouterr().err


def test_ctrl_c_leaves_a_whole_file(embedded: Broker, graph: str, tmp_path: Path) -> None:
    out = tmp_path / "events.parquet"
    options = ("--graph", graph, "--events", "--from", "beginning")
    with following(embedded, *options, "--format", "parquet", "--out", str(out)) as (log, end):
        assert "1 window is missing" in log.readline()
        # Who tells of a gap before the sixth hour has written what came before it.
        hours = [window(graph, hour, labels) for hour, labels in (LABELS | {5: TOGETHER}).items()]
        publish(embedded, events_of(hours)[-1:])
        assert "1 window is missing" in log.readline()
        assert not out.exists()
        end(signal.SIGINT)
    table = pq.read_table(out)
    whole = ["born", "born", "continued", "continued", "merged"]
    assert table["event"].to_pylist() in (whole, [*whole, "continued"])
    assert table["members"].to_pylist()[0] == list(range(10))


def test_options_that_do_not_go_together_are_explained() -> None:
    for advice, *options in (
        ("choose from born, grown, shrunk, merged, split, continued", "--event", "eaten"),
        ("leave out --event", "--node", "1", "--event", "born"),
        ("--out FILE.parquet or --out FOLDER go together", "--format", "parquet"),
        ("give --out a folder", "--format", "parquet", "--out", "x.parquet", "--group", "g"),
        ("name it with --community or --node", "--members"),
        ("give beginning, latest, or a time such as", "--from", "yesterday"),
        ("leave out start (--from)", "--group", "g", "--from", "beginning"),
        ("leave out the group", "--confirmed", "1", "--group", "g", "--graph", "as733"),
    ):
        done = run_here("subscribe", *options)
        assert (done.returncode, done.stdout) == (78, "")
        assert advice in done.stderr


def test_names_stand_in_lines_json_and_tables(embedded: Broker, graph: str, tmp_path: Path) -> None:
    rows = "".join(f"{node},{'PC' if node < 10 else 'MP'}\n" for node in range(18))
    (classes := tmp_path / "classes.csv").write_text(f"node,class\n{rows}")
    options = ("--graph", graph, "--names", str(classes), *ALL)
    lines = subscribe(embedded, "--events", *options).stdout.splitlines()
    assert "  community 0 (PC) is new, with 10 nodes;" in lines[1]
    lines = subscribe(embedded, "--event", "merged", *options).stdout.splitlines()
    assert lines[1].endswith("  community 1 (MP) (8 nodes) joined community 0 (PC)")
    last = documents(embedded, "--events", *options[:4])[1]
    assert last["names"] == NAMES
    out = tmp_path / "c.parquet"
    subscribe(embedded, "--format", "parquet", "--out", str(out), *options)
    table = pq.read_table(out)
    assert table["name"].to_pylist()[:18] == ["PC, 10 of 10"] * 10 + ["MP, 8 of 8"] * 8
    classes.write_text("node,class\nanna,PC\n")
    assert "names nodes by text, the graph" in subscribe(embedded, *options, status=78).stderr


def test_only_confirmed_events_and_only_strong_ones(embedded: Broker, graph: str) -> None:
    merged = ("--graph", graph, "--event", "merged", *ALL)
    assert len(subscribe(embedded, *merged).stdout.splitlines()) == 2
    for limit in ("--confirmed", "--least-bits"):  # it is the last window, and has no strength
        assert "merged" not in subscribe(embedded, limit, "1", *merged).stdout
    born = subscribe(embedded, "--confirmed", "1", "--graph", graph, "--event", "born", *ALL)
    assert born.stdout.splitlines()[1].endswith("10 nodes; still there 1 hour later")


def naming(*graphs: str) -> Naming:
    return Naming(dict.fromkeys(graphs or (None,), CLASSES))


def result(graph: str, *, text: bool = False) -> Communities:
    of_hour = window(graph, 0, APART)
    return replace(of_hour, nodes=pa.array(map(str, range(10, 28)))) if text else of_hour


def names_in(shape: shapes.Shape[Communities], result: Communities) -> Any:
    return shape.document(result)["names"]


def communities(*graphs: str, of_one_graph: bool = False) -> shapes.Shape[Communities]:
    return shape_of("communities", naming=naming(*graphs), of_one_graph=of_one_graph)


def test_a_table_names_communities_of_its_graph_only(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadSettings, match="names nodes by integers, the graph by text"):
        communities(of_one_graph=True).document(result("g", text=True))
    several = communities()
    assert names_in(several, result("g")) == NAMES
    with pytest.raises(BadSettings, match=r"belongs to g, school: give --names g=FILE"):
        several.document(result("school"))
    of_three = communities("x\x1b[2J", "y", "g")
    for graph, text in (("x\x1b[2J", True), ("y", True), ("g", False), ("school", False)):
        assert names_in(of_three, result(graph, text=text)) == (NAMES if graph == "g" else {})
    (warned,) = capsys.readouterr().err.splitlines()
    assert r"no names of graph x\x1b[2J: the table of attributes names nodes by integers" in warned


def test_names_of_graphs_without_end_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "_MOST_GRAPHS", 2)
    named, first = communities("g", "h0", "h1"), result("g")
    for graph in ("g", "h0", "h1"):
        names_in(named, result(graph))
    assert names_in(named, replace(first, snapshot_id="g/1")) == NAMES


def test_each_result_has_the_names_of_its_own_communities() -> None:
    named, first = communities(), result("g")
    other = replace(first, labels=1 - first.labels)
    assert names_in(named, first) == NAMES
    for again in ({"revision": "b"}, {"model": "n@1"}):
        assert names_in(named, replace(other, **again)) == {"1": "PC, 10 of 10", "0": "MP, 8 of 8"}
    mixed = replace(first, snapshot_id="g/1", labels=np.arange(18, dtype=np.int32) % 2)
    assert names_in(named, mixed) == {}, "those of the window before are of other communities"


def test_what_has_just_ended_keeps_its_name_and_what_goes_on_has_the_new_one() -> None:
    named = communities()
    ids, replaced = np.array([4, 7]), np.empty((0, 2), np.int64)
    first = replace(result("g"), community_ids=ids, replaced=replaced)
    assert names_in(named, first) == {"4": "PC, 10 of 10", "7": "MP, 8 of 8"}
    one = replace(first, snapshot_id="g/1", labels=0 * first.labels, community_ids=ids[:1])
    for revision in ("a", "b"):
        assert names_in(named, replace(one, revision=revision)) == {"7": "MP, 8 of 8"}


def test_lines_leave_out_what_the_edges_speak_against() -> None:
    first, merged = unbroken([window("g", 0, APART), window("g", 1, TOGETHER)])
    (event,) = merged.events
    for bits, said in ((-22.4, []), (16.4, ["16 bits"]), (None, [""])):
        told = replace(merged, events=(replace(event, bits=bits),))
        lines = list(shape_of("events", least_bits=0.0).lines(told))
        assert [line.partition("community 0")[2].strip("; ") for line in lines] == said
        assert len(list(shape_of("events").lines(told))) == 1
    assert len(list(shape_of("events", left_out=["born"]).lines(first))) == 0


def test_members_have_the_name_of_their_community_not_of_that_of_an_event() -> None:
    hours = [window("g", hour, found) for hour, found in enumerate((APART, TOGETHER, APART))]
    named = shape_of("members", community=1, naming=naming(), of_one_graph=True)
    lines = [line for hour in unbroken(hours) for line in named.lines(hour)]
    assert len(lines) == 3
    assert all(line.endswith("  MP, 8 of 8") for line in lines)


def table_of(folder: Path, text: str, name: str = "names.csv") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def graphs_of(names: list[str], graph: str | None = None) -> dict[str | None, str]:
    return {of: table.columns[0].name for of, table in _tables_of(names, graph).items()}


def test_a_table_belongs_to_the_graph_that_it_is_given_for(tmp_path: Path) -> None:
    countries = table_of(tmp_path, "node,country\n7,US\n", "countries.csv")
    classes = table_of(tmp_path, "node,class\n7,PC\n", "classes.csv")
    odd = table_of(tmp_path, "node,day\n7,1\n", "day=1.csv")
    of_both = [f"as733={countries}", f"school={classes}"]
    assert graphs_of(of_both) == {"as733": "country", "school": "class"}
    assert graphs_of([countries], "as733") == {"as733": "country"}
    assert graphs_of([countries]) == {None: "country"}
    assert graphs_of([odd]) == {None: "day"}
    for names, said in (
        ([countries, countries], "already; give each graph one"),
        ([f"a={countries}", f"a={countries}"], "a table of this graph already"),
        ([f"a={countries}", countries], "does not say to which graph it belongs"),
    ):
        with pytest.raises(BadSettings, match=said):
            _tables_of(names)

    archive = Archive(open_store(str(tmp_path / "history")))
    for graph in ("as733", "school"):
        archive.add("communities", encode_communities(window(graph, 0, [0] * 4)), (0, 0))
    history = ("--history", str(tmp_path / "history"))
    refused = run_here("view", "--port", "0", *history, "--names", countries)
    assert refused.returncode == 78
    assert "belongs to as733, school: give --names as733=FILE" in refused.stderr
