"""`stream-icd dlq`: dead letters are found, understood, and sent again, each once."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stream_icd.commands.cli.dlq import _RetryLetters
from stream_icd.core.errors import LimitExceeded
from stream_icd.kafka.client.connections import open_producer
from stream_icd.kafka.connect import connect
from stream_icd.kafka.messages.claims import ClaimSettings
from stream_icd.kafka.messages.pacing import Tempo
from stream_icd.kafka.messages.records import outgoing
from stream_icd.kafka.messages.topic_range import TopicRange
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.topics import create_topics
from stream_icd.streaming.dead_letters.box import (
    DeadLetterBox,
    DeadLetterChoice,
    ResendPlan,
    open_retry_sink,
)
from stream_icd.streaming.dead_letters.letters import dead_letter
from stream_icd.wire.states import encode_state
from tests.run_here import Done, run_here
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.streams import as_claim, as_read, held, publish
from tests.wire.samples import STATE

Dlq = Callable[..., Done]
N = 200

pytestmark = pytest.mark.brokers("memory")


@pytest.fixture
def dlq(broker: Broker) -> Dlq:
    """`dlq("list", TOPIC)`: as the command does it, and whether it ends with this status."""

    def run(*arguments: str, status: int = 0) -> Done:
        done = run_here("dlq", *arguments, "--bootstrap-servers", broker.bootstrap_servers)
        assert done.returncode == status, done.stderr
        return done

    return run


@pytest.fixture
def topic(broker: Broker, topic_name: str) -> str:
    """A topic of this test's own, and that of its dead letters."""
    create_topics(broker.settings(), TopicSpec(topic_name).with_dead_letters())
    return topic_name


def dead_lettered(broker: Broker, records: list[Record], reason: str = "too many rows") -> None:
    error = LimitExceeded(reason)
    publish(broker, [dead_letter(record, "decode", error) for record in records])


def numbered(topic: str, count: int) -> list[Record]:
    headers = (("ce_id", b"g/1"),)
    return [Record(topic, 0, i, 0, b"g%d" % (i % 3), b"%d" % i, headers) for i in range(count)]


def numbers(records: list[Record]) -> list[int]:
    return [int(record.value or b"") for record in records]


@pytest.mark.brokers("memory", "kafka")
def test_a_compacted_dead_letter_topic_is_named(broker: Broker, dlq: Dlq, topic_name: str) -> None:
    create_topics(broker.settings(), [TopicSpec(f"{topic_name}.dlq", cleanup_policy="compact")])
    dead_lettered(broker, numbered(topic_name, 1))
    warned = f"warning: {topic_name}.dlq is compacted"
    assert warned in dlq("list", topic_name).stderr
    assert warned in dlq("retry", "--topic", topic_name, "--all", "--dry-run").stderr


def listed(dlq: Dlq, *arguments: str) -> list[dict[str, Any]]:
    lines = dlq("list", *arguments, "--format", "json").stdout.splitlines()
    return [json.loads(line) for line in lines]


def test_a_list_has_places_reasons_and_counts(dlq: Dlq, broker: Broker, topic: str) -> None:
    dead_lettered(broker, numbered(topic, 3))
    dead_lettered(broker, [Record(topic, 2, 7, 0, b"\x1b[2J\xff", None)], "x" * 100)
    heading, *rows, counts, total = dlq("list", topic).stdout.splitlines()
    assert heading.split()[:2] == ["place", "dead-lettered"]
    assert len({row.index("decode") for row in rows}) == 1, "in columns"
    assert rows[0].split()[0] == f"{topic}.dlq[0]@0"
    assert "LimitExceeded" in rows[0]
    assert rows[0].endswith("too many rows")
    assert "\\x1b[2J\\xff" in rows[3], "nothing from outside reaches the terminal as it is"
    assert rows[3].endswith("xxx…")
    assert counts == "4 LimitExceeded"
    assert total == "4 records dead-lettered, 0 of them sent again"

    one, *_, odd = listed(dlq, topic)
    assert (one["key"], one["graph"], one["snapshot_id"]) == ("g0", "g0", "g/1")
    assert (one["came_from"], one["bytes"]) == (f"{topic}[0]@0", 1)
    assert one["headers"] == [["ce_id", "g/1"]]
    assert (odd["graph"], odd["snapshot_id"], odd["bytes"]) == (None, None, None)
    assert odd["message"] == "x" * 100

    assert [one["offset"] for one in listed(dlq, topic, "--graph", "g1")] == [1]
    part = listed(dlq, topic, "--from", "1", "--to", "0:3")
    assert [one["offset"] for one in part] == [1, 2]
    assert listed(dlq, topic, "--exception", "BadSnapshot") == []
    assert listed(dlq, topic, "--to", "2020-01-01") == []
    for command in (["list", topic], ["retry", "--dry-run", "--topic", topic]):
        refused = dlq(*command, "--graph", "h1", status=78).stderr
        assert re.search("no dead letter of graph h1; it holds those of .*g0", refused)
    refused = dlq("list", topic, "--exception", "LimitExeeded", status=78).stderr
    assert re.search("of exception LimitExeeded;.*mean LimitExceeded", refused)
    bad_snapshots = ("--exception", "BadSnapshot", "--dry-run")
    refused = dlq("retry", "--topic", topic, *bad_snapshots, status=78).stderr
    assert "4 dead letters, but none that matches" in refused
    assert len(listed(dlq, topic, "--from", "2020-01-01")) == 4
    assert {f"{topic}.dlq"} <= {one["topic"] for one in listed(dlq, "--all")}


def test_one_is_shown_whole(dlq: Dlq, broker: Broker, topic: str, tmp_path: Path) -> None:
    sink = pa.BufferOutputStream()
    table = pa.table({"from": ["a", "b"], "to": ["b", "c"]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    value = sink.getvalue().to_pybytes()
    headers = (("ce_type", b"\xff"), ("twice", b"1"), ("twice", b"2"))
    readable = Record(topic, 3, 41, 0, b"g", value, headers)
    dead_lettered(broker, [readable, Record(topic, 0, 1, 0, b"g", None)])
    for place in ("0:0", f"{topic}.dlq[0]@0", f"{topic}[3]@41"):
        out = tmp_path / "value"
        shown = dlq("show", place, "--topic", topic, "--out", str(out)).stdout
        assert out.read_bytes() == value
        assert f"came from {topic}[3]@41" in shown
        assert "at stage decode: LimitExceeded: too many rows" in shown
        assert "header ce_type: \\xff" in shown
        assert "header twice: 1\nheader twice: 2\n" in shown
        assert "header icd_dlq_attempt: 1" in shown
        assert "it cannot be read as a snapshot: BadSnapshot: header ce_specversion is" in shown
        assert "table of 2 rows:\n  from: string\n  to: string\n" in shown
        assert "{'from': 'b', 'to': 'c'}" in shown
    assert "value: null" in dlq("show", "0:1", "--topic", topic).stdout
    for place, file, status, reason in (
        ("0:1", "nothing", 78, "no value"),
        ("0:0", "", 75, f"StoreUnwritable: cannot write {tmp_path}: Is a directory"),
        ("0:99", "nothing", 78, f"{topic}.dlq[0]@99: stream-icd dlq list"),
    ):
        show = ("show", place, "--topic", topic, "--out", str(tmp_path / file))
        assert reason in dlq(*show, status=status).stderr


def test_a_claimed_value_is_written_whole_or_not_at_all_and_a_memory_is_read_as_one(
    dlq: Dlq, broker: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims, out = str(tmp_path / "claims"), tmp_path / "value"
    claimed = as_claim(OutgoingRecord(topic, b"large", b"g"), ClaimSettings(uri=claims))
    memory = outgoing(topic, encode_state(STATE))
    dead_lettered(broker, as_read([claimed, memory]))
    refused = dlq("show", "0:0", "--topic", topic, "--out", str(out), status=65).stderr
    assert "STREAM_ICD_CLAIMS_URI is not set" in refused
    assert not out.exists()
    monkeypatch.setenv("STREAM_ICD_CLAIMS_URI", claims)
    shown = dlq("show", "0:0", "--topic", topic, "--out", str(out)).stdout
    assert out.read_bytes() == b"large"
    assert shown.endswith(f"5 bytes to {out}\n")
    assert "today: it cannot be read: BadMemory: " in dlq("show", "0:1", "--topic", topic).stdout


@pytest.mark.brokers("memory", "kafka")
def test_each_is_sent_again_once_as_it_came(dlq: Dlq, broker: Broker, topic_name: str) -> None:
    create_topics(broker.settings(), TopicSpec(topic_name, partitions=3).with_dead_letters())
    headers = (("ce_id", b"g/1"), ("ce_id", b"\xff"), ("empty", b""))
    odd = [
        Record(topic_name, 1, 1, 0, b"g", None, headers),
        Record(topic_name, 1, 2, 0, None, None, headers),
        Record(topic_name, 1, 3, 0, None, b"\x00", headers),
        Record(topic_name, 1, 4, 0, b"", b"", ()),
    ]
    dead_lettered(broker, [*numbered(topic_name, 9), *odd])
    dlq("retry", "--topic", topic_name, "--all")
    sent = held(broker, topic_name)
    attempt = ("icd_dlq_attempt", b"1")
    assert Counter((r.key, r.value, r.headers) for r in sent) == Counter(
        (r.key, r.value, (*r.headers, attempt, ("icd_dlq_origin", r.place.encode())))
        for r in [*numbered(topic_name, 9), *odd]
    )
    assert sum(r.value is None for r in sent) == 2
    new = [OutgoingRecord(topic_name, b"new", record.key) for record in numbered(topic_name, 3)]
    publish(broker, new)  # the key chooses the partition, as ever
    places = {(r.key, r.partition) for r in held(broker, topic_name) if r.key}
    assert len(places) == len({key for key, _ in places}) == 4

    assert all(one["retried"][0]["to"] == topic_name for one in listed(dlq, topic_name))
    assert "13 records dead-lettered, 13 of them sent again" in dlq("list", topic_name).stdout
    dlq("retry", "--topic", topic_name, "--all")
    assert len(held(broker, topic_name)) == 13 + 3
    dlq("retry", "0:4", "--topic", topic_name, "--again")
    assert len(held(broker, topic_name)) == 13 + 4
    (one,) = [one for one in listed(dlq, topic_name) if one["offset"] == 4]
    assert len(one["retried"]) == 2


def test_only_what_is_chosen_and_meant_is_sent(dlq: Dlq, broker: Broker, topic: str) -> None:
    dead_lettered(broker, numbered(topic, 6))
    dry = dlq("retry", "--topic", topic, "--graph", "g0", "--dry-run").stderr
    assert f"2 records to {topic}" in dry
    assert "2 LimitExceeded" in dry
    for choice, reason in (
        ([], "choose dead letters"),
        (["0:1", "--all"], "either positions, or --all"),
        (["0:1", "0:77"], f"{topic}.dlq[0]@77"),
    ):
        assert reason in dlq("retry", *choice, "--topic", topic, status=78).stderr
    assert held(broker, topic) == []
    assert len(held(broker, f"{topic}.dlq")) == 6

    dlq("retry", "--topic", topic, "--graph", "g0")
    dlq("retry", f"{topic}[0]@1", "0:2", "--rate", "100")
    dlq("retry", "--topic", topic, "--from", "5", "--to", "9")
    assert numbers(held(broker, topic)) == [0, 3, 1, 2, 5]
    dry = dlq("retry", "--topic", topic, "--all", "--dry-run").stderr
    assert f"1 records to {topic}" in dry
    assert "5 were sent again before and are passed over" in dry


def test_one_that_its_topic_takes_no_more_is_named_and_left_and_the_others_are_sent(
    dlq: Dlq, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large = numbered(topic, 2), Record(topic, 0, 9, 0, b"g", b"x" * 20_000)
    dead_lettered(broker, [small[0], large, small[1]])
    with monkeypatch.context() as smaller:
        smaller.setenv("STREAM_ICD_MAX_MESSAGE_BYTES", "10000")
        done = dlq("retry", "--topic", topic, "--all", status=1)
    assert f"{topic}.dlq[0]@1" in done.stderr
    assert "limit of 10000 bytes" in done.stderr
    assert numbers(held(broker, topic)) == [0, 1]
    assert [bool(one["retried"]) for one in listed(dlq, topic)] == [True, False, True]
    dlq("retry", "--topic", topic, "--all")
    assert held(broker, topic)[2].value == large.value


def test_if_a_topic_is_gone_or_unknown_another_is_given(
    dlq: Dlq, broker: Broker, topic: str
) -> None:
    everything = ("retry", "--topic", topic, "--all")
    dead_lettered(broker, numbered(topic, 2))
    with connect(broker.settings()).admin() as admin:
        admin.delete_topic(topic)
    refused = dlq(*everything, status=78).stderr
    assert re.search(rf"TopicMissing: 2 records .* {topic}.*--to-topic", refused)

    publish(broker, [OutgoingRecord(f"{topic}.dlq", b"2", b"g")])  # it does not say from where
    assert listed(dlq, topic)[2]["came_from"] is None
    assert "1 unknown" in dlq("list", topic, "--exception", "unknown").stdout
    assert "--to-topic" in dlq(*everything, status=78).stderr
    for wrong in ("", f"{topic}.dlq"):  # such as a variable that is not set
        refused = dlq(*everything, "--to-topic", wrong, status=78).stderr
        assert f"--to-topic '{wrong}': give a topic that workers" in refused
    create_topics(broker.settings(), [TopicSpec(f"{topic}-new")])
    dlq(*everything, "--to-topic", f"{topic}-new")
    assert numbers(held(broker, f"{topic}-new")) == [0, 1, 2]
    assert {one["retried"][0]["to"] for one in listed(dlq, topic)} == {f"{topic}-new"}


# As `stream-icd dlq retry`, but it kills itself (kill -9) when it calls this for the n-th time.
KILLED = """
import os, signal, sys, kafka
method, at = sys.argv[1], int(sys.argv[2])
real, calls = getattr(kafka.KafkaProducer, method), 0
def dies(self, *given, **named):
    global calls
    calls += 1
    if calls == at:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(self, *given, **named)
setattr(kafka.KafkaProducer, method, dies)
sys.argv[1:] = sys.argv[3:]
from stream_icd.commands.cli.main import main
main()
"""


def retrying_all(broker: Broker, topic: str, *program: str) -> list[str]:
    """A command line that sends all again, in a process of its own."""
    retry = ("dlq", "retry", "--all", "--topic", topic, "-b", broker.bootstrap_servers)
    return [sys.executable, *(program or ("-m", "stream_icd.commands.cli")), *retry]


def ended(command: list[str], status: int = 0) -> str:
    """Its standard error; it must end with this status."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == status, done.stderr
    return done.stderr


@pytest.mark.brokers("kafka")
@pytest.mark.parametrize(
    ("method", "at"),
    [
        ("send", 150),  # in the second transaction
        ("commit_transaction", 2),  # all of the second is there, and open
        ("begin_transaction", 2),  # just after the first was committed
    ],
)
def test_kill_9_of_a_retry_is_not_seen(broker: Broker, topic: str, method: str, at: int) -> None:
    dead_lettered(broker, numbered(topic, N))
    ended(retrying_all(broker, topic, "-c", KILLED, method, str(at)), status=-signal.SIGKILL)
    # The next one does not wait for the broker to give up on what the first one left open.
    said = ended(retrying_all(broker, topic))
    assert numbers(held(broker, topic)) == list(range(N))
    summary = json.loads(said.splitlines()[-1])
    assert 0 < summary["already"] < N
    assert summary["already"] + summary["sent"] == N


@pytest.mark.brokers("embedded")
def test_a_stopped_retry_goes_on_in_all_partitions(
    dlq: Dlq, broker: Broker, topic_name: str
) -> None:
    topic = topic_name
    specs = [TopicSpec(topic), TopicSpec(f"{topic}.dlq", partitions=3)]
    create_topics(broker.settings(), specs)
    dead_lettered(broker, numbered(topic, N))  # a minute's work and more, at two a second
    slowly = [*retrying_all(broker, topic), "--rate", "2"]
    with subprocess.Popen(slowly, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: held(broker, topic))
        process.terminate()
        summary = json.loads(process.stderr.read().splitlines()[-1])
    assert process.returncode == 130
    assert summary["event"] == "stopped"
    assert summary["sent"] == len(held(broker, topic)) == N - summary["left"] < N
    dlq("retry", "--topic", topic, "--all")
    assert sorted(numbers(held(broker, topic))) == list(range(N))
    assert {one["partition"] for one in listed(dlq, topic)} > {0}
    assert all(one["retried"] for one in listed(dlq, topic))


@pytest.mark.brokers("kafka")
def test_what_an_open_transaction_hides_from_a_retry_is_waited_for(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would not see that another retry has marked what it sent."""
    dead_lettered(broker, numbered(topic, 4))
    settings, dead_letters = broker.settings(transaction_timeout_s=60), f"{topic}.dlq"
    choice = DeadLetterChoice(TopicRange(dead_letters))
    plan = ResendPlan.of(DeadLetterBox.read(settings, dead_letters), choice)
    detector = open_producer(settings, transactional_id=f"{topic}-detector")
    detector.init_transactions()
    detector.begin_transaction()
    detector.send(dead_letters, b"aborted").get(60)
    sink = open_retry_sink(settings, dead_letters)
    plan.send(settings, sink, Tempo(), lambda: datetime.now(UTC), threading.Event())
    sink.close()

    read = DeadLetterBox.read

    def read_for_a_while(*arguments: Any, **named: Any) -> DeadLetterBox:
        threading.Timer(3.0, detector.abort_transaction).start()
        return read(*arguments, **named)

    monkeypatch.setattr(DeadLetterBox, "read", read_for_a_while)
    monkeypatch.setattr("stream_icd.commands.programs.process.stop_on_signals", threading.Event)
    _RetryLetters().send(settings, choice)
    assert numbers(held(broker, topic)) == list(range(4))
    detector.close(timeout=1)


@pytest.mark.brokers("kafka")
def test_a_retry_that_was_overtaken_by_another_stops(broker: Broker, topic: str) -> None:
    dead_lettered(broker, numbered(topic, 40))
    slowly = [*retrying_all(broker, topic), "--rate", "1"]
    with subprocess.Popen(slowly, stderr=subprocess.PIPE, text=True) as first:
        wait_until(lambda: held(broker, topic))
        ended(retrying_all(broker, topic))
        said = first.stderr.read()
    assert (first.returncode, "another retry" in said) == (78, True), said
    assert numbers(held(broker, topic)) == list(range(40))
