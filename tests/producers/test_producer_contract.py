"""What every installed producer promises; a new one is found by its entry point and held to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import typer.main

from stream_icd.kafka.messages.publish import _partition_by_id
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import LABELS, SNAPSHOTS, create_topics
from stream_icd.wire.communities import decode_labels
from tests.producers.sent import archived, decoded, pressing_ctrl_c, produce, records
from tests.testbed.brokers import Broker

PRODUCERS = sorted(entry.name for entry in entry_points(group="stream_icd.producers"))


def days(folder: Path, _graph: str, bad: str = "") -> list[str]:
    for day in range(1, 5):
        text = f"1\t2\n{day}\t{day + 5}\n{bad}"
        (folder / f"as2000010{day}.txt").write_text(text)
    return [str(folder)]


def events(folder: Path, _graph: str, bad: str = "") -> list[str]:
    rows = "".join(f"{60 * i},{i % 7},{(3 * i + 1) % 7}\n" for i in range(240))
    (folder / "events.csv").write_text(f"t,src,dst\n{bad}{rows}")
    return [str(folder / "events.csv"), "--window", "1h", "--late-rows", str(folder / "late.jsonl")]


def fixes(folder: Path, _graph: str, bad: str = "") -> list[str]:
    rows = "".join(
        f"{60 * minute},{taxi},{39.9 + 0.01 * (taxi * minute % 5)},{116.4 + 0.01 * taxi}\n"
        for minute, taxi in product(range(24), range(6))
    )
    (folder / "fixes.csv").write_text(f"t,taxi,lat,lon\n{bad}{rows}")
    late = str(folder / "late.jsonl")
    return [str(folder / "fixes.csv"), "--tick", "6m", "--nearest", "2", "--late-rows", late]


def edge_lists(folder: Path, _graph: str, bad: str = "") -> list[str]:
    for day in range(1, 5):
        (folder / f"2000-01-0{day}.csv").write_text(f"src,dst\n1,2\n{day},{day + 5}\n{bad}")
    return [str(folder)]


def changes(_folder: Path, graph: str, bad: str = "") -> list[str]:
    settings, topic = KafkaSettings(), f"{graph}.edges"
    create_topics(settings, [TopicSpec(topic)])
    rows = [{"op": "add", "src": 1, "dst": 2 + i, "t": 60 * i} for i in range(4)]
    with Publisher(settings) as publisher:
        for value in filter(None, (bad, *map(json.dumps, rows))):
            publisher.send(OutgoingRecord(topic, value.encode()))
    return ["--topic", topic, "--until", "end"]


EXAMPLES: dict[str, tuple[Callable[..., list[str]], str | None]] = {
    "as": (days, "bad row\n"),
    "changes": (changes, '{"op": "add"}'),
    "events": (events, "yesterday,1,2\n"),
    "files": (edge_lists, "1,2,3\n"),
    "gn": (lambda *_: ["--nodes", "300", "--communities", "15"], None),
    "lfr": (lambda *_: ["--nodes", "300"], None),
    "replay": (archived, None),
    "taxi": (fixes, "0,1,91,0\n"),
}
"""How to run each producer on something small, of which it makes four snapshots.

A function of folder, graph and a bad row, which puts the input there and returns the arguments; and
a bad row, if the producer reads any.
"""


@dataclass(frozen=True)
class Producer:
    """A producer, run as the command does it; the graph is this test's own."""

    name: str
    broker: Broker
    graph: str
    folder: Path

    def arguments(self, *bad: str) -> list[str]:
        """Put its input there, perhaps with a bad row; what the command is to be told."""
        make, _ = EXAMPLES[self.name]
        return make(self.folder, self.graph, *bad)

    @property
    def limit(self) -> list[str]:
        return ["--limit", "4"] if self.name in ("gn", "lfr") else []  # which are endless

    def run(
        self, *arguments: str, option: str = "--graph", graph: str | None = None, status: int = 0
    ) -> str:
        named = option, self.graph if graph is None else graph
        return produce(self.broker, self.name, *arguments, *named, status=status)

    def records(self, topic: str = SNAPSHOTS) -> list[Record]:
        return records(self.broker, self.graph, topic)


@pytest.fixture
def as_producer(
    memory: Broker, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Producer:
    monkeypatch.setenv("STREAM_ICD_BOOTSTRAP_SERVERS", memory.bootstrap_servers)
    return Producer("as", memory, topic_name, tmp_path)


@pytest.fixture(params=PRODUCERS)
def producer(as_producer: Producer, request: pytest.FixtureRequest) -> Producer:
    """Each producer: a test that takes it runs with all."""
    return replace(as_producer, name=request.param)


def bytes_of(records: list[Record]) -> list[tuple[object, ...]]:
    return [(record.key, record.value, record.headers) for record in records]


def ids_of(records: list[Record]) -> list[str]:
    return [decoded(record).id for record in records]


def summary(said: str) -> dict[str, Any]:
    """The last line of the log that sums up."""
    lines = [line for line in said.splitlines() if '"snapshots"' in line]
    counts: dict[str, Any] = json.loads(lines[-1])
    return counts


def test_every_producer_has_an_example_and_the_options_of_all() -> None:
    assert set(PRODUCERS) == set(EXAMPLES), "give the new producer an example"
    of_all = {"graph", "rate", "limit", "again", "partition_by", "bootstrap_servers"}
    for name in PRODUCERS:
        command = command_of(name)
        assert of_all <= parameters(name)
        assert f"stream-icd produce {name}" in (command.help or "")
        assert all(option.help for option in command.params if option.name != "help")


def test_it_goes_on_where_it_was_and_makes_the_same_bytes_again(producer: Producer) -> None:
    arguments, limit = producer.arguments(), producer.limit
    producer.run(*arguments, "--limit", "2")
    counts = summary(producer.run(*arguments, *limit))
    already = 0 if producer.name == "changes" else 2  # it makes only what comes after
    assert (counts["snapshots"], counts["already_sent"]) == (2, already)
    counts = summary(producer.run(*arguments, *limit, "--again"))
    assert (counts["snapshots"], counts["already_sent"]) == (4, 0)

    sent = producer.records()
    assert len(sent) == 8
    assert bytes_of(sent[4:]) == bytes_of(sent[:4])
    assert_valid(sent[:4], producer.records(LABELS)[:4])

    spread_out = (*arguments, *limit, "--partition-by", "snapshot")
    # What is there is known in whatever partition it is.
    assert summary(producer.run(*spread_out))["snapshots"] == 0
    producer.run(*spread_out, "--again")
    spread = [record for record in producer.records() if record not in sent]
    assert all(record.headers[-1] == ("icd_unordered", b"true") for record in spread)
    same = [replace(record, headers=record.headers[:-1]) for record in spread]
    assert sorted(bytes_of(same)) == sorted(bytes_of(sent[:4]))
    assert len({record.partition for record in sent}) == 1
    assert all(record.partition == _partition_by_id(decoded(record), 6) for record in spread)


def assert_valid(sent: list[Record], labels: list[Record]) -> None:
    """Snapshots in the order of their windows, each with another id; labels of their nodes."""
    snapshots = [decoded(record) for record in sent]
    assert len({snapshot.id for snapshot in snapshots}) == len(sent)
    ends = [snapshot.window.end for snapshot in snapshots]
    assert ends == sorted(ends)
    assert len(labels) == (len(sent) if snapshots[0].n_communities else 0)
    assert len({record.partition for record in labels}) <= 1
    for snapshot, record in zip(snapshots, labels, strict=False):
        truth = decode_labels(record.key, record.value, record.headers)
        assert truth.snapshot_id == snapshot.id
        assert truth.nodes.equals(snapshot.nodes)


def test_bad_rows_are_counted_shown_and_stop_it_when_strict(producer: Producer) -> None:
    _, bad = EXAMPLES[producer.name]
    assert ("strict" in parameters(producer.name)) == (bad is not None), "it reads rows, or not"
    if bad is None:
        return  # a generator: there is no row that could be bad
    arguments = producer.arguments(bad)
    log = producer.run(*arguments)
    assert summary(log)["bad_rows"] in (1, 4)  # one in a file, of one file or of four
    assert '"event": "bad row"' in log
    assert len(producer.records()) == 4

    log = producer.run(*arguments, "--strict", "--again", status=65)
    assert log.splitlines()[-1].startswith("BadRow: ")


@pytest.mark.parametrize("name", ["as", "events", "taxi", "files"])
def test_nothing_but_bad_rows_is_a_failure(name: str, as_producer: Producer) -> None:
    producer = replace(as_producer, name=name)
    arguments = producer.arguments()
    for file in producer.folder.iterdir():
        header = file.read_text().splitlines()[0] if file.suffix == ".csv" else ""
        file.write_text("\n".join([header, *["what, is, this, row"] * 3]) + "\n")
    log = producer.run(*arguments, status=65)
    assert summary(log)["snapshots"] == 0
    assert log.splitlines()[-1].startswith("NoGoodRows: no snapshot was sent: ")
    assert "bad rows and no good ones; the first bad row: " in log


def test_a_name_that_no_reader_takes_is_refused_before_anything_is_sent(
    producer: Producer,
) -> None:
    option = "--as-graph" if producer.name == "replay" else "--graph"
    arguments = producer.arguments()
    for graph in ("", "g" * 201):
        refused = producer.run(*arguments, option=option, graph=graph, status=78)
        assert refused.startswith("BadSettings: the name of ")


def test_the_first_bad_rows_are_shown_and_a_wrong_option_is_one_line_of_advice(
    as_producer: Producer,
) -> None:
    folder = as_producer.folder
    bad = "".join(f"bad{n}\n" for n in range(7))
    (folder / "as19971108.txt").write_text(f"1\t2\n{bad}2\t3\n")
    log = as_producer.run(str(folder))
    assert (summary(log)["bad_rows"], summary(log)["snapshots"]) == (7, 1)
    assert ("bad0" in log, "bad6" in log) == (True, False)
    log = as_producer.run(str(folder), "--strict", "--again", status=65)
    assert "BadRow: as19971108.txt: 'bad0' is not a pair of AS numbers" in log
    assert "Traceback" not in log
    absent = as_producer.run(str(folder / "absent"), status=78)
    assert absent.startswith("SourceNotFound: nothing at")
    wrong = as_producer.run(str(folder), "--from", "1997", status=78)
    assert wrong == "BadSettings: --from '1997': give a day as YYYY-MM-DD\n"


def test_ctrl_c_leaves_whole_snapshots_and_the_next_run_sends_the_rest(
    producer: Producer,
) -> None:
    create_topics(producer.broker.settings())
    arguments, limit = producer.arguments(), producer.limit
    with pressing_ctrl_c(producer.records):
        counts = summary(producer.run(*arguments, *limit, "--rate", "0.02", status=130))
    sent = ids_of(producer.records())
    assert 1 <= len(sent) < 4
    assert (counts["event"], counts["snapshots"]) == ("stopped", len(sent))

    producer.run(*arguments, *limit)
    whole = ids_of(producer.records())
    assert whole[: len(sent)] == sent
    assert len(whole) == len(set(whole)) == 4


def command_of(name: str) -> Any:
    (entry,) = entry_points(group="stream_icd.producers", name=name)
    return typer.main.get_command(entry.load())


def parameters(name: str) -> set[str]:
    return {str(parameter.name) for parameter in command_of(name).params}


def test_lfr_graphs_may_be_smaller_than_the_largest_usual_degree(as_producer: Producer) -> None:
    lfr = replace(as_producer, name="lfr")
    assert summary(lfr.run("--nodes", "60", "--limit", "1"))["snapshots"] == 1
    refused = lfr.run("--nodes", "300", "--sizes-after", "5-20", status=78)
    assert "--sizes-after needs --change-at" in refused


def test_late_rows_of_a_graph_with_a_slash_are_kept_here(
    as_producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = replace(as_producer, name="events")
    monkeypatch.chdir(events.folder)
    Path("mails.csv").write_text("t,src,dst\n0,1,2\n9000,2,3\n5,3,4\n")
    assert summary(events.run("mails.csv", graph=f"{events.graph}/mails"))["late_rows"] == 1
    assert Path(f"{events.graph}%2Fmails.late.jsonl").is_file()
