"""`stream-icd doctor`: each line says what is wrong, and what to do."""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path

import pytest

from stream_icd.commands.cli import doctor
from stream_icd.commands.cli.doctor import _memory_bytes
from stream_icd.kafka.connect import connect
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.topics import DEFAULT_TOPICS, SNAPSHOTS, create_topics
from tests.run_here import run_here
from tests.testbed.brokers import Broker
from tests.testbed.streams import publish

CHECKS = ["versions", "broker", "transactions", "topics", "clock", "registry", "memory"]


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
    assert list(found) == CHECKS
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


def test_a_clock_that_is_behind_that_of_the_broker_is_noticed(
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
