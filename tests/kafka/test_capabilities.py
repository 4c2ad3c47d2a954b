"""What a broker can promise is found out from itself."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from stream_icd.kafka import capabilities
from stream_icd.kafka.capabilities import SHORT_SESSION_S, TESTED, joining_quickly, probe, recognise
from stream_icd.kafka.port.capabilities import KAFKA, MEMORY, TANSU, UNKNOWN
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import topic_names
from testbed.brokers import Broker

EVERYWHERE = pytest.mark.brokers("memory", "embedded", "kafka")
EXPECTED = {"memory": MEMORY, "embedded": TANSU, "kafka": KAFKA}

KILLED = """
import os, signal, sys
from stream_icd.kafka import capabilities
from stream_icd.kafka.port.capabilities import UNKNOWN
from stream_icd.kafka.settings import KafkaSettings

real = capabilities._write

def write_and_die(*given):
    real(*given)
    os.kill(os.getpid(), signal.SIGKILL)

capabilities.recognise = lambda _: UNKNOWN
capabilities._write = write_and_die
capabilities.probe(KafkaSettings())
"""


def topics_at(broker: Broker) -> set[str]:
    """All topics but those that Kafka makes for itself."""
    return {name for name in topic_names(broker.settings()) if not name.startswith("__")}


@EVERYWHERE
def test_each_broker_is_recognised_and_its_transactions_are_tried(broker: Broker) -> None:
    expected = EXPECTED[broker.name]
    assert recognise(broker.settings()) == expected
    assert probe(broker.settings()) == expected


@EVERYWHERE
def test_a_probe_waits_for_no_timeout_and_makes_one_topic_or_none(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = ("connect", "request", "delivery", "transaction")
    settings = broker.settings(**{f"{wait}_timeout_s": 100 for wait in waits})
    monkeypatch.setattr(capabilities, "READ_BACK_TIMEOUT_S", 100)
    before = topics_at(broker)
    started = time.monotonic()
    probe(settings)
    assert time.monotonic() - started < 50  # each timeout is 100; it takes half a second
    made = topics_at(broker) - before
    assert made <= (set() if broker.name in ("memory", "kafka") else {TESTED.name})


@pytest.mark.kafka
def test_a_broker_that_nobody_knows_is_tried_by_several_and_after_kill_9(
    kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = kafka.settings()
    before = topics_at(kafka)
    environment = os.environ | {"STREAM_ICD_BOOTSTRAP_SERVERS": kafka.bootstrap_servers}
    command = [sys.executable, "-c", KILLED]
    assert subprocess.run(command, env=environment, timeout=60, check=False).returncode == -9
    assert topics_at(kafka) - before <= {TESTED.name}
    monkeypatch.setattr(capabilities, "recognise", lambda _: UNKNOWN)
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(probe, [settings] * 3))
    assert [one.hides_aborted for one in found] == [True] * 3
    assert topics_at(kafka) - before <= {TESTED.name}


def test_a_group_of_the_embedded_broker_is_joined_soon_unless_somebody_has_set_the_session(
    embedded: Broker, kafka: Broker
) -> None:
    unset = KafkaSettings(bootstrap_servers=embedded.bootstrap_servers)
    assert joining_quickly(unset).session_timeout_s == SHORT_SESSION_S
    chosen = KafkaSettings(bootstrap_servers=embedded.bootstrap_servers, session_timeout_s=9)
    assert joining_quickly(chosen) == chosen
    elsewhere = KafkaSettings(bootstrap_servers=kafka.bootstrap_servers)
    assert joining_quickly(elsewhere) == elsewhere


def test_what_was_tried_counts_and_not_what_is_said(
    embedded: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = replace(UNKNOWN, hides_aborted=True)
    monkeypatch.setattr(capabilities, "recognise", lambda _: said)
    assert not probe(embedded.settings()).hides_aborted
