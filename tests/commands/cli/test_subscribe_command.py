"""`stream-icd subscribe` as people and programs use it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from stream_icd.commands.cli import subscribe_formats as formats
from stream_icd.commands.cli.subscribe_shapes import shape_of
from stream_icd.core.communities import Communities
from stream_icd.core.errors import BrokerUnavailable
from stream_icd.core.snapshot import Window
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.topics import COMMUNITIES, create_topics
from stream_icd.streaming.subscribers.subscription import Subscription
from stream_icd.wire.communities import encode_communities
from tests.run_here import Done, run_here
from tests.testbed.brokers import Broker

START = datetime(2026, 1, 1, tzinfo=UTC)


def publish_result(broker: Broker, graph: str, number: int) -> None:
    """One result of a graph, in the live topic."""
    result = Communities(
        graph=graph,
        snapshot_id=f"{graph}/{number}",
        window=Window(START, START),
        nodes=pa.array(["a", "b", "c"]),
        labels=np.array([0, 1, 0], np.int32),
        n_edges=2,
        model="m@1",
        modularity=0.25,
        ncut=1.0,
        milliseconds={"decode": 1.0, "features": 2.0, "encode": 3.0, "cluster": 4.0},
        detected_at=START,
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
    message = encode_communities(result)
    create_topics(broker.settings())
    with Publisher(broker.settings()) as publisher:
        publisher.send(OutgoingRecord(COMMUNITIES, message.value, message.key, message.headers))


@pytest.fixture
def graph(embedded: Broker, topic_name: str) -> str:
    """A graph with three published results."""
    for number in range(3):
        publish_result(embedded, topic_name, number)
    return topic_name


def subscribe(broker: Broker, *options: str) -> Done:
    return run_here("subscribe", *options, "-b", broker.bootstrap_servers)


def test_json_lines_hold_the_whole_result(embedded: Broker, graph: str) -> None:
    done = subscribe(
        embedded, "--graph", graph, "--from", "beginning", "--format", "json", "--limit", "2"
    )
    assert done.returncode == 0, done.stderr
    first, second = (json.loads(line) for line in done.stdout.splitlines())
    assert (first["snapshot_id"], second["snapshot_id"]) == (f"{graph}/0", f"{graph}/1")
    assert (first["community_ids"], first["replaced"], first["memory"]) == (
        [100, 7],
        [],
        "continued",
    )
    assert first["nodes"] == ["a", "b", "c"]
    assert first["communities"] == [0, 1, 0]
    assert first["probabilities"] == [1, 0.9, 0.55]
    assert (first["second_ids"], first["second_probabilities"]) == ([-1, -1, 7], [0, 0, 0.45])
    assert (first["n_communities"], first["modularity"]) == (2, 0.25)
    assert (first["horizon"], first["predicted_bits"]) == (4.5, -0.25)
    assert datetime.fromisoformat(first["window_end"]) == START


def test_a_table_has_a_line_a_snapshot(embedded: Broker, graph: str) -> None:
    done = subscribe(embedded, "--graph", graph, "--from", "beginning", "--until", "end")
    lines = done.stdout.splitlines()
    assert len(lines) == 4
    assert lines[0].split()[:4] == ["graph", "snapshot", "nodes", "edges"]
    numbers = "3 2 2 0.2500 weak 0.82 4.5 -0.250 2 10.0 m@1"
    assert lines[1].split() == [graph, f"{graph}/0", *numbers.split()]


def test_until_the_end_is_from_the_beginning(embedded: Broker, graph: str) -> None:
    done = subscribe(embedded, "--graph", graph, "--until", "end", "--format", "json")
    assert len(done.stdout.splitlines()) == 3
    latest = subscribe(embedded, "--graph", graph, "--until", "end", "--from", "latest")
    assert len(latest.stdout.splitlines()) == 1
    assert latest.stderr == f"no result: nothing in {COMMUNITIES} matches\n"


def test_what_cannot_be_read_has_no_heading(capsys: pytest.CaptureFixture[str]) -> None:
    def failing() -> Iterator[Communities]:
        raise BrokerUnavailable("nobody there")
        yield

    with pytest.raises(BrokerUnavailable):
        formats.write("table", failing(), shape_of("communities"))
    assert capsys.readouterr().out == ""
    formats.write("table", [], shape_of("communities"))
    assert capsys.readouterr().out == shape_of("communities").heading + "\n"


def test_arrow_is_one_stream_with_a_row_a_node(embedded: Broker, graph: str) -> None:
    done = subscribe(
        embedded, "--graph", graph, "--from", "beginning", "--until", "end", "--format", "arrow"
    )
    table = pa.ipc.open_stream(done.output).read_all()
    assert table.num_rows == 9
    assert table["node"].to_pylist()[:3] == ["a", "b", "c"]
    assert table["community"].to_pylist()[:3] == [0, 1, 0]
    assert table["community_id"].to_pylist()[-3:] == [102, 7, 102]
    assert table["second_id"].to_pylist()[:3] == [None, None, 7]
    said = ("evidence", "bits_saved", "horizon", "horizon_for", "predicted_bits")
    assert [table[name][0].as_py() for name in said] == ["weak", 0.125, 4.5, None, -0.25]
    assert set(table["snapshot_id"].to_pylist()) == {f"{graph}/{i}" for i in range(3)}


def test_csv_says_how_probable_communities_are(embedded: Broker, graph: str) -> None:
    done = subscribe(embedded, "--graph", graph, "--until", "end", "--format", "csv")
    heading, *rows = done.stdout.splitlines()
    columns = '"community_id","probability","second_id","second_probability"'
    assert heading.endswith(f'"node","community",{columns}')
    assert [row.split(",")[-4:] for row in rows[:3]] == [
        ["100", "1", "", ""],
        ["7", "0.9", "", ""],
        ["100", "0.55", "7", "0.45"],
    ]


def test_a_message_that_is_no_result_is_named_apart_from_the_results(
    embedded: Broker, graph: str
) -> None:
    with Publisher(embedded.settings()) as publisher:
        publisher.send(OutgoingRecord(COMMUNITIES, b"junk", graph.encode()))
    command = [sys.executable, "-m", "stream_icd.commands.cli", "subscribe", "--graph", graph]
    command += ["--until", "end", "--format", "arrow", "-b", embedded.bootstrap_servers]
    done = subprocess.run(command, capture_output=True, timeout=60, check=True)
    assert pa.ipc.open_stream(done.stdout).read_all().num_rows == 9
    assert re.fullmatch(
        rf"skipped {re.escape(COMMUNITIES)}\[\d\]@\d+: header .*\n", done.stderr.decode()
    )


@pytest.mark.parametrize("lines", [1, 3], ids=["early", "when it has all there is"])
def test_a_reader_that_leaves_ends_it(embedded: Broker, graph: str, lines: int) -> None:
    command = (
        f"{sys.executable} -m stream_icd.commands.cli subscribe --graph {graph} --from beginning "
        f"--format json -b {embedded.bootstrap_servers} | head -{lines}"
    )
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_nobody_at_the_address_says_what_to_do_and_exits_for_a_retry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STREAM_ICD_CONNECT_TIMEOUT_S", "0.5")
    done = run_here("subscribe", "-b", "127.0.0.1:1")
    assert done.returncode == 75
    assert done.stderr.startswith("BrokerUnavailable: ")
    assert "127.0.0.1:1" in done.stderr


def test_a_bad_time_is_explained() -> None:
    done = run_here("subscribe", "--from", "yesterday")
    assert done.returncode == 78
    assert "give beginning, latest, or a time such as" in done.stderr


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
