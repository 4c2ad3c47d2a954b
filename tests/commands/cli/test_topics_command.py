"""`stream-icd topics` with names that nobody uses, and what `stream-icd doctor` finds."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from stream_icd.commands.cli import doctor
from stream_icd.commands.cli.doctor import _memory_bytes
from stream_icd.kafka.connect import connect
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.port import TopicPartition, TopicSpec
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.topics import (
    DEFAULT_TOPICS,
    EVENTS,
    SNAPSHOTS,
    create_topics,
    group_members,
)
from tests.run_here import Done, run_here
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.handlers import Calls
from tests.testbed.streams import beside, publish

pytestmark = pytest.mark.brokers("memory")


def topics(broker: Broker, *arguments: str, status: int = 0) -> Done:
    done = run_here("topics", *arguments, "-b", broker.bootstrap_servers)
    assert done.returncode == status, done.stderr
    return done


def test_only_a_graph_with_events_starts_anew(
    broker: Broker, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    refused = topics(broker, "track-anew", "as773", "--topic", topic, status=78).stderr
    assert f"{topic} holds nothing of graph as773; it is empty: what publishes there" in refused
    publish(broker, [OutgoingRecord(topic, b"events", b"as733")])
    publish(broker, [OutgoingRecord(topic, None, b"as773")])  # as from before this was refused
    refused = topics(broker, "track-anew", "as773", "--topic", topic, status=78).stderr
    assert "holds nothing of graph as773; it holds as733; did you mean as733?\n" in refused
    topics(broker, "track-anew", "as733", "--topic", topic)
    with open_reader(broker.settings(), topic, until="end") as records:
        assert [(record.key, record.value) for record in records][2:] == [(b"as733", None)]


def test_a_name_that_is_empty_or_of_nobody_is_refused(broker: Broker) -> None:
    create_topics(broker.settings())
    for said, *command in (
        ("the name of the graph is empty", "track-anew", ""),
        ("the name of the graph is empty", "detect-anew", ""),
        ("--group is empty", "skip", "--to", "0:1", "--group", ""),
        ("--group is empty", "detect-anew", "as733", "--group", ""),
        ("remembers nothing of graph as733", "detect-anew", "as733", "--group", "nobody"),
    ):
        assert said in topics(broker, *command, status=78).stderr


def test_no_graph_starts_anew_under_running_workers(broker: Broker) -> None:
    create_topics(broker.settings())
    publish(broker, [OutgoingRecord(EVENTS, b"events", b"as733")])
    for command, group in (
        ("track-anew", "stream-icd-track"),
        ("track-anew", "stream-icd-track-as733"),
        ("detect-anew", "stream-icd-detect"),
    ):
        worker = partial(run_consumer, broker.settings(), SNAPSHOTS, group, Calls(lambda _: ()))
        with beside(worker) as errors:
            wait_until(partial(group_members, broker.settings(), group))
            refused = topics(broker, command, "as733", status=78).stderr
        assert not errors
        assert f"group {group} still has running members: stop them first" in refused
    with open_reader(broker.settings(), EVENTS, until="end") as records:
        assert all(record.value for record in records)


def test_a_group_skips_only_from_a_position(broker: Broker, make_topic: Callable[..., str]) -> None:
    topic, group = make_topic(), f"{make_topic()}-group"
    skip = ("skip", "--group", group, "--topic", topic)
    refused = topics(broker, *skip, status=78).stderr
    no_position = f"group {group} has no committed position in {topic}; it has one in"
    assert f"{no_position} no topic: name another --group or --topic\n" in refused
    publish(broker, [OutgoingRecord(topic, b"1", b"g"), OutgoingRecord(topic, b"2", b"g")])
    new = topics(broker, *skip, "--to", "0:1")
    assert new.stdout == f"skipped   {topic}[0] from 0 to 1\n"
    assert f"warning: no group {group} has read {topic}: is it the right name?" in new.stderr
    assert topics(broker, *skip, "--to", "0:2").stderr == ""
    for position, said in (
        (0, f"{topic} has lost no records: group {group} keeps its position"),
        (3, f"back      {topic}[0] from 3 to 0"),  # as if the broker had lost records
    ):
        with connect(broker.settings()).admin() as admin:
            admin.move_group(group, {TopicPartition(topic, 0): position})
        assert topics(broker, *skip).stdout == f"{said}\n"
    huge = topics(broker, *skip, "--to", f"0:{10**20}", status=78)
    assert "give PARTITION:OFFSET" in huge.stderr
    elsewhere = topics(broker, *skip[:-1], make_topic(), status=78)
    assert f"it has one in {topic}: " in elsewhere.stderr


def examined(address: str, *arguments: str, status: int = 0) -> dict[str, tuple[str, str]]:
    """State and text by the name of the check; the command must end with this status."""
    done = run_here("doctor", "-b", address, *arguments)
    assert done.returncode == status, done.stdout
    lines = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
    return {name: (state, text) for state, name, text in lines}


def make_topics(broker: Broker, *specs: TopicSpec, without: str = "") -> None:
    """Make the topics anew, those that are named as they are given, and one of them not at all."""
    with connect(broker.settings()).admin() as admin:
        for name in admin.topic_names():
            admin.delete_topic(name)
    topics = {spec.name: spec for spec in (*DEFAULT_TOPICS, *specs) if spec.name != without}
    create_topics(broker.settings(), [*topics.values()])


def test_all_is_well_where_all_is_there(memory: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    make_topics(memory)
    monkeypatch.setattr(doctor, "_memory_bytes", lambda: 4 * 2**30)
    found = examined(memory.bootstrap_servers)
    in_order = ["versions", "broker", "transactions", "topics", "clock", "registry", "memory"]
    assert list(found) == in_order
    assert {state for state, _ in found.values()} == {"ok"}
    assert found["topics"][1].startswith(f"all {len(DEFAULT_TOPICS)} are there")


def test_what_is_missing_or_differs_is_named(memory: Broker) -> None:
    make_topics(memory, without=SNAPSHOTS)
    state, text = examined(memory.bootstrap_servers, status=78)["topics"]
    assert state == "error"
    assert text.startswith(f"missing: {SNAPSHOTS}. Run stream-icd topics create")
    unlike = TopicSpec(SNAPSHOTS, 6, cleanup_policy="compact", max_message_bytes=1000)
    make_topics(memory, unlike)
    state, text = examined(memory.bootstrap_servers)["topics"]
    assert state == "warning"
    assert f"{SNAPSHOTS}: cleanup.policy should be delete, max.message.bytes is 1000" in text


def test_a_clock_behind_the_broker_is_noticed(
    memory: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topics(memory)
    publish(memory, [OutgoingRecord(SNAPSHOTS, b"x", b"g")])
    assert examined(memory.bootstrap_servers)["clock"][0] == "ok"
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 600)
    state, text = examined(memory.bootstrap_servers)["clock"]
    assert (state, "NTP" in text) == ("warning", True)


def test_a_registry_without_a_champion_is_an_error(memory: Broker, tmp_path: Path) -> None:
    make_topics(memory)
    (tmp_path / "registry").mkdir()
    place = ("--registry", str(tmp_path / "registry"))
    without = examined(memory.bootstrap_servers, *place, status=78)["registry"]
    assert "models import default --first-champion" in without[1]
    address = ("-b", memory.bootstrap_servers)
    run_here("models", "import", "default", "--first-champion", *place, *address)
    state, text = examined(memory.bootstrap_servers, *place)["registry"]
    assert state == "ok"
    assert re.fullmatch(r"its champion is default@\w+", text)


def test_without_a_broker_the_rest_is_still_checked() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        found = examined(f"127.0.0.1:{taken.getsockname()[1]}", status=75)
    assert list(found) == ["versions", "broker", "registry", "memory"]
    assert found["broker"][1].startswith("no broker listens at 127.0.0.1:")


@pytest.mark.brokers("embedded", "kafka")
def test_the_broker_is_recognised(broker: Broker) -> None:
    create_topics(broker.settings())
    found, is_kafka = examined(broker.bootstrap_servers), broker.name == "kafka"
    assert found["broker"][1].endswith("Apache Kafka" if is_kafka else "the embedded broker")
    assert found["transactions"][0] == ("ok" if is_kafka else "warning")
    assert found["topics"][0] == "ok", found["topics"]


def test_a_little_memory_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text("1073741824\n")
    assert _memory_bytes(limit) == 2**30
    limit.write_text("max\n")
    assert _memory_bytes(limit) == _memory_bytes(tmp_path / "none") > 2**30
    monkeypatch.setattr(doctor, "_memory_bytes", lambda: 2**30)
    state, text = examined("127.0.0.1:1", status=75)["memory"]
    assert (state, "STREAM_ICD_BUDGET_MEMORY_BYTES" in text) == ("warning", True)
