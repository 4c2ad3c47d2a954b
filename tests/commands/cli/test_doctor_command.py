"""`stream-icd doctor`: each line says what is wrong, and what to do."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stream_icd.commands.cli import doctor
from stream_icd.commands.cli.doctor import _memory_bytes
from stream_icd.kafka.connect import connect
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.topics import DEFAULT_TOPICS, SNAPSHOTS, create_topics
from tests.run_here import Done, run_here
from tests.testbed.brokers import Broker
from tests.testbed.streams import publish

CHECKS = ["versions", "broker", "transactions", "topics", "clock", "registry", "memory"]


def examined(broker: Broker, *arguments: str) -> Done:
    return run_here("doctor", "-b", broker.bootstrap_servers, *arguments)


def lines_of(done: Done) -> dict[str, tuple[str, str]]:
    """State and text, by the name of the check."""
    lines = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
    return {name: (state, text) for state, name, text in lines}


@pytest.fixture
def fresh(broker: Broker) -> Callable[..., None]:
    """Make the topics anew, those that are named as they are given, and one of them not at all."""

    def make(*specs: TopicSpec, without: str = "") -> None:
        with connect(broker.settings()).admin() as admin:
            for name in admin.topic_names():
                admin.delete_topic(name)
        topics = {spec.name: spec for spec in (*DEFAULT_TOPICS, *specs) if spec.name != without}
        create_topics(broker.settings(), [*topics.values()])

    return make


@pytest.mark.brokers("memory")
def test_all_is_well_where_all_is_there(
    broker: Broker, fresh: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh()
    monkeypatch.setattr(doctor, "_memory_bytes", lambda: 4 * 2**30)
    done = examined(broker)
    assert done.returncode == 0, done.stdout
    assert list(lines_of(done)) == CHECKS
    assert {state for state, _ in lines_of(done).values()} == {"ok"}
    assert lines_of(done)["topics"][1].startswith(f"all {len(DEFAULT_TOPICS)} are there")


@pytest.mark.brokers("memory")
def test_what_is_missing_or_differs_is_named(broker: Broker, fresh: Callable[..., None]) -> None:
    fresh(without=SNAPSHOTS)
    done = examined(broker)
    state, text = lines_of(done)["topics"]
    assert (done.returncode, state) == (78, "error")
    assert text.startswith(f"missing: {SNAPSHOTS}. Run stream-icd topics create")
    fresh(TopicSpec(SNAPSHOTS, 6, cleanup_policy="compact", max_message_bytes=1000))
    done = examined(broker)
    state, text = lines_of(done)["topics"]
    assert (done.returncode, state) == (0, "warning")
    assert f"{SNAPSHOTS}: cleanup.policy should be delete, max.message.bytes is 1000" in text


@pytest.mark.brokers("memory")
def test_a_clock_that_is_behind_that_of_the_broker_is_noticed(
    broker: Broker, fresh: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh()
    publish(broker, [OutgoingRecord(SNAPSHOTS, b"x", b"g")])
    assert lines_of(examined(broker))["clock"][0] == "ok"
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 600)
    state, text = lines_of(examined(broker))["clock"]
    assert (state, "NTP" in text) == ("warning", True)


@pytest.mark.brokers("memory")
def test_a_registry_without_a_champion_is_an_error(
    broker: Broker, fresh: Callable[..., None], tmp_path: Path
) -> None:
    fresh()
    (tmp_path / "registry").mkdir()
    place = ("--registry", str(tmp_path / "registry"))
    done = examined(broker, *place)
    assert done.returncode == 78
    assert "models import default --first-champion" in lines_of(done)["registry"][1]
    address = ("-b", broker.bootstrap_servers)
    run_here("models", "import", "default", "--first-champion", *place, *address)
    state, text = lines_of(examined(broker, *place))["registry"]
    assert state == "ok"
    assert re.fullmatch(r"its champion is default@\w+", text)


def test_without_a_broker_the_rest_is_still_checked() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        done = run_here("doctor", "-b", f"127.0.0.1:{taken.getsockname()[1]}")
    assert done.returncode == 75
    found = lines_of(done)
    assert list(found) == ["versions", "broker", "registry", "memory"]
    assert found["broker"][1].startswith("no broker listens at 127.0.0.1:")


@pytest.mark.brokers("embedded", "kafka")
def test_the_broker_is_recognised(broker: Broker) -> None:
    create_topics(broker.settings())
    done = examined(broker)
    assert done.returncode == 0, done.stdout
    is_kafka = broker.name == "kafka"
    found = lines_of(done)
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
    found = lines_of(run_here("doctor", "-b", "127.0.0.1:1"))
    assert found["memory"][0] == "warning"
    assert "STREAM_ICD_BUDGET_MEMORY_BYTES" in found["memory"][1]
