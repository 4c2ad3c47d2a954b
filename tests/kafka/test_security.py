"""Apache Kafka with TLS, passwords and rights: who may gets everything, who may not nothing."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest

from stream_icd.core.child_process import stop_children
from stream_icd.core.errors import BadSettings, BrokerUnavailable, NotAllowed, StreamIcdError
from stream_icd.interfaces.view.data.all_series import AllSeries
from stream_icd.interfaces.view.feeds.live import Live, Topics
from stream_icd.kafka.connect import recognise
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.delivery.delivery import Delivery, open_sink
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import COMMUNITIES, LABELS, SNAPSHOTS, create_topics
from stream_icd.streaming.subscribers.subscribe import subscribe, subscribe_events
from tests.run_here import run_here
from tests.testbed.brokers import or_skip, wait_until
from tests.testbed.handlers import Calls
from tests.testbed.http_server import Webhook, webhook
from tests.testbed.secure_kafka import CERTIFIED, Right, SecureKafka, secure_kafka
from tests.testbed.starting import Program, start_forked

pytestmark = pytest.mark.kafka

DOCUMENT = Path(__file__).parents[2] / "docs" / "security.md"
PROGRAM = re.compile(r"^(`.+`) \| (.*) \| (.*) \|(.*)$", re.MULTILINE)
OTHER_RIGHT = re.compile(r"(\w+) `([^`]+)` (\w+(?:, \w+)*)")
N_SNAPSHOTS = 3


@pytest.fixture(scope="module")
def secure() -> Iterator[SecureKafka]:
    with or_skip(secure_kafka()) as running:
        running.grant("creator", documented_rights("topics create"))
        create_topics(running.settings("creator"))
        yield running


def documented_rights(program: str) -> list[Right]:
    """What docs/security.md says that a program needs."""
    section = DOCUMENT.read_text(encoding="utf-8").partition("## Rights")[2].partition("\n## ")[0]
    (cells,) = [row[1:] for row in PROGRAM.findall(section) if f"`{program}`" in row[0].split(", ")]
    read, write, other = cells
    rights = [
        ("Topic", name, operation)
        for operation, names in {"Read": read, "Write": write}.items()
        for name in re.findall("`(.+?)`", names)
    ]
    rights += [
        (kind, name, operation)
        for kind, name, operations in OTHER_RIGHT.findall(other)
        for operation in operations.split(", ")
    ]
    assert rights, f"docs/security.md has no rights of {program}"
    return rights


def start(secure: SecureKafka, user: str, log: Path, *arguments: str) -> Program:
    """`stream-icd ARGUMENTS` as `user`, with all that it needs from the environment."""
    return start_forked(arguments, log, env={**os.environ, **secure.environment(user)})


def test_everything_works_with_the_rights_that_are_documented_and_no_others(
    secure: SecureKafka, tmp_path: Path
) -> None:
    """A stream from its producer to those who read it, and what operators do afterwards."""
    with webhook() as receiver:
        run_all(secure, receiver, tmp_path)


def run_all(secure: SecureKafka, receiver: Webhook, tmp_path: Path) -> None:
    programs = {
        "producer": ("produce", "lfr", "--limit", str(N_SNAPSHOTS), "--nodes", "200"),
        "detector": ("consume", "detect", "--model", "lfr", "--delivery", "exactly-once"),
        "tracker": ("consume", "track", "--delivery", "exactly-once"),
        "scribe": ("consume", "rows", "--delivery", "exactly-once"),
        "alerter": ("consume", "alert", "--rule", "born or continued", "--to", receiver.url),
        "archivist": ("consume", "archive", str(tmp_path / "history")),
    }
    for user, arguments in programs.items():
        named = " ".join(arguments[: 1 if user == "producer" else 2])
        secure.grant(user, documented_rights(named))
    secure.grant("subscriber", documented_rights("subscribe"))
    secure.grant("subscriber", documented_rights("subscribe --group NAME"))
    secure.grant("retrier", documented_rights("dlq retry"))
    subscriber = secure.settings("subscriber")
    publish(secure.settings())  # what is no snapshot, for the dead letters
    logs = {user: tmp_path / f"{user}.log" for user in programs}
    running = {user: start(secure, user, logs[user], *programs[user]) for user in programs}
    try:
        assert running.pop("producer").wait(60) == 0, logs["producer"].read_text()
        results = list(subscribe(group="NAME", limit=N_SNAPSHOTS, settings=subscriber))
        events = list(subscribe_events(start="beginning", limit=N_SNAPSHOTS, settings=subscriber))
        wait_until(lambda: len(list((tmp_path / "history").rglob("*.parquet"))) >= N_SNAPSHOTS)
        wait_until(lambda: '"event": "rows"' in logs["scribe"].read_text())
        receiver.wait_for(1)
        for command in (("dlq", "list", "--all"), ("dlq", "retry", "--all")):
            run_as(secure, "retrier", *command)
    finally:
        ended = {user: stop_children([process], 60)[0] for user, process in running.items()}
    look_at_a_page(secure)
    for named, command in OPERATIONS.items():
        operate(secure, named, *command)
    assert len({result.snapshot_id for result in results}) == len(events) == N_SNAPSHOTS
    texts = {user: log.read_text() for user, log in logs.items()}
    assert ended == dict.fromkeys(running, 0), texts
    for password in secure.passwords.values():
        assert not any(password in text for text in texts.values())


REPLAY = ("replay", "topic", "--out-topic", "NAME")
OPERATIONS = {
    " ".join(REPLAY): (*REPLAY, "--graph", "lfr", "--engine", "serial"),
    "topics skip": ("topics", "skip", "--group", "stream-icd-detect"),
    "topics detect-anew": ("topics", "detect-anew", "lfr"),
    "topics track-anew": ("topics", "track-anew", "lfr"),
}
"""What an operator does while no worker runs, by the name in docs/security.md."""


def run_as(secure: SecureKafka, user: str, *command: str) -> None:
    """Run a command that ends by itself as `user`, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in secure.environment(user).items():
            patch.setenv(name, value)
        done = run_here(*command)
    assert done.returncode == 0, done.stderr


def operate(secure: SecureKafka, named: str, *command: str) -> None:
    """Run a command with its rights and no others."""
    secure.grant("operator", documented_rights(named))
    try:
        run_as(secure, "operator", *command)
    finally:
        secure.revoke("operator")


def look_at_a_page(secure: SecureKafka) -> None:
    """The page reads all its topics."""
    secure.grant("viewer", documented_rights("view"))
    sources = Live(secure.settings("viewer"), Topics(), seen := AllSeries())
    with sources.reading(lambda _: None):
        wait_until(lambda: sources.caught_up() and sources.lag() is not None)
        assert sources.troubles() == {}
    assert len(seen.summaries()) == 1


def publish(settings: KafkaSettings, topic: str = SNAPSHOTS) -> None:
    with Publisher(settings) as publisher:
        publisher.send(OutgoingRecord(topic, b"x", b"k"))


def read(settings: KafkaSettings, topic: str = SNAPSHOTS) -> list[bytes | None]:
    with open_reader(settings, topic, until="end") as records:
        return [record.value for record in records]


def consume(
    settings: KafkaSettings,
    group: str = "g",
    handle: Callable[[object], list[OutgoingRecord]] = lambda _: [],
    delivery: Delivery = "auto",
) -> None:
    stop = threading.Event()
    run_consumer(settings, SNAPSHOTS, group, Calls(handle), stop, delivery=delivery)


DOORS: dict[str, Callable[[KafkaSettings], object]] = {
    "create topics": lambda settings: create_topics(settings, [TopicSpec("never")]),
    "publish": publish,
    "read": read,
    "consume": consume,
}
NoLogin = tuple[dict[str, object], type[StreamIcdError], str]
"""Settings with which nobody is let in, and the error and its text."""


def hangs_up(protocol: str, wants: str) -> NoLogin:
    says = f"security_protocol is {protocol}: a broker that wants {wants} hangs up"
    return {"security_protocol": protocol}, BrokerUnavailable, says


WITHOUT_A_LOGIN = hangs_up("SSL", "a login")
WITH_ANOTHER_PASSWORD: NoLogin = (
    {"sasl_username": "detector"},
    BadSettings,
    "refused the login of detector by SCRAM-SHA-512: .*check sasl_username, sasl_password",
)
OTHERS: tuple[NoLogin, ...] = (
    hangs_up("PLAINTEXT", "TLS or a login"),
    hangs_up("SASL_PLAINTEXT", "TLS"),
    ({"sasl_username": "nobody"}, BadSettings, "refused the login of nobody"),
    ({"sasl_mechanism": "SCRAM-SHA-256"}, BadSettings, "by SCRAM-SHA-256: .*UnsupportedSaslMech"),
)
# Each door meets a broker that hangs up and one that refuses: all connect by the same code.
CASES = [
    *product(DOORS.values(), (WITHOUT_A_LOGIN, WITH_ANOTHER_PASSWORD)),
    *product([read], OTHERS),
]


@pytest.mark.parametrize(("door", "no_login"), CASES)
def test_who_is_not_logged_in_gets_nothing_and_is_told_why(
    secure: SecureKafka,
    door: Callable[[KafkaSettings], object],
    no_login: NoLogin,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STREAM_ICD_CONNECT_TIMEOUT_S", "60")
    wrong, error, says = no_login
    # What is final ends it at once; for the rest there must be time for a try to fail.
    tries_s = 4 if error is BrokerUnavailable else 60
    settings = secure.settings(**wrong, connect_timeout_s=tries_s)
    threads, started = threading.active_count(), time.monotonic()
    with pytest.raises(error, match=says) as refused:
        door(settings)
    assert time.monotonic() - started < 25  # unsaid, it is 60, or the client's own 30
    assert threading.active_count() <= threads
    assert secure.passwords["admin"] not in str(refused.value)


def test_a_broker_is_trusted_by_its_authority_and_its_name(secure: SecureKafka) -> None:
    for ca in (secure.other_ca, None):  # None: what the system trusts
        with pytest.raises(BadSettings, match="its certificate is not trusted: .*ssl_cafile"):
            recognise(secure.settings(ssl_cafile=ca))
    port = secure.node.bootstrap_servers.rpartition(":")[2]
    elsewhere = {"bootstrap_servers": f"localhost:{port}"}
    with pytest.raises(BadSettings, match="not valid for 'localhost'"):
        recognise(secure.settings(**elsewhere))
    assert recognise(secure.settings(**elsewhere, ssl_check_hostname=False)).hides_aborted


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_who_has_no_right_is_refused_by_name(
    secure: SecureKafka, door: Callable[[KafkaSettings], object]
) -> None:
    with pytest.raises(NotAllowed, match=r"(icd\.snapshots\.v1|never).*docs/security\.md"):
        door(secure.settings("stranger"))


def test_a_missing_right_ends_a_worker_and_names_what_it_is_for(secure: SecureKafka) -> None:
    """A worker that may read may still not publish, nor join a group, nor use transactions."""
    read_it, group = ("Topic", SNAPSHOTS, "Read"), ("Group", "g", "Read")
    transactions, result = ("TransactionalId", "g-*", "Write"), OutgoingRecord(LABELS, b"x")
    publish(secure.settings())
    # Of two that are missing, that of the group is named as a rule: it is asked for meanwhile.
    either = "consume .*Group|transactions as g-"
    missing = {either: read_it, "transactions as g-": group, LABELS: transactions}
    for missed, granted in missing.items():
        secure.grant("worker", [granted])
        with pytest.raises(NotAllowed, match=missed):
            consume(secure.settings("worker"), "g", lambda _: [result], "exactly-once")


@pytest.mark.parametrize(
    ("kind", "name", "delivery"),
    [
        ("Topic", SNAPSHOTS, "at-least-once"),  # the commit
        ("Group", "taken", "at-least-once"),
        ("Topic", LABELS, "exactly-once"),
        ("TransactionalId", "taken-", "exactly-once"),
    ],
)
def test_a_right_that_is_taken_from_a_worker_at_work_ends_it_and_is_named(
    secure: SecureKafka, kind: str, name: str, delivery: Delivery
) -> None:
    rights = [("Topic", SNAPSHOTS, "Read"), ("Topic", LABELS, "Write"), ("Group", "taken", "Read")]
    secure.grant("worker", [*rights, ("TransactionalId", "taken-*", "Write")])
    publish(secure.settings())

    def handle(_: object) -> list[OutgoingRecord]:
        secure.revoke("worker", kind, name)
        return [OutgoingRecord(LABELS, b"x")]

    settings = secure.settings("worker")
    with pytest.raises(NotAllowed, match=r"docs/security\.md"):
        consume(settings, "taken", handle, delivery)


def test_of_a_transaction_the_topic_is_named_that_may_not_be_written(secure: SecureKafka) -> None:
    """Not that of the first record."""
    rights = [("Topic", LABELS, "Write"), ("TransactionalId", "two-*", "Write")]
    secure.grant("worker", [*rights, ("Topic", COMMUNITIES, "Read")])
    settings = secure.settings("worker")
    records = [OutgoingRecord(LABELS, b"x"), OutgoingRecord(COMMUNITIES, b"x")]
    with (
        closing(open_sink(settings, "exactly-once", "two", "1")) as sink,
        pytest.raises(NotAllowed, match=f"publish to {COMMUNITIES}"),
    ):
        sink.publish(records, {}, None)
    with closing(open_sink(settings, "exactly-once", "two", "2")) as sink:
        secure.revoke("worker", "TransactionalId", "two-")
        with pytest.raises(NotAllowed):  # it may not be undone either, which hides no error
            sink.publish(records, {}, None)


def test_what_may_not_be_seen_is_said(secure: SecureKafka, tmp_path: Path) -> None:
    secure.grant("creator", [("Topic", "unseen", "Create")])
    with pytest.raises(NotAllowed, match="may not describe unseen"):
        create_topics(secure.settings("creator"), [TopicSpec("unseen")])
    rights = documented_rights("topics detect-anew")
    secure.grant("operator", [right for right in rights if right[1] != SNAPSHOTS])
    log = tmp_path / "operator.log"
    assert start(secure, "operator", log, "topics", "detect-anew", "g").wait(60) == 78
    (line,) = log.read_text().splitlines()
    assert f"may not describe {SNAPSHOTS}" in line


def test_a_certificate_of_ones_own_does_instead_of_a_password(secure: SecureKafka) -> None:
    mtls = {"bootstrap_servers": secure.mtls_servers, "security_protocol": "SSL"}
    certified = secure.settings(**mtls, ssl_certfile=secure.client_certificate)
    with pytest.raises(NotAllowed, match="icd.labels.v1"):
        read(certified, LABELS)
    secure.grant(CERTIFIED, [("Topic", LABELS, "Read"), ("Topic", LABELS, "Write")])
    publish(certified, LABELS)
    assert b"x" in read(certified, LABELS)
    with pytest.raises(BadSettings, match="ssl_certfile where it asks for a certificate"):
        read(secure.settings(**mtls), LABELS)


def test_no_log_at_any_level_holds_a_password(
    secure: SecureKafka, caplog: pytest.LogCaptureFixture
) -> None:
    """PLAIN sends the password itself, and the client logs at DEBUG what it sends."""
    settings = secure.settings(sasl_mechanism="PLAIN")
    # A program that ran in this process may have quietened the client.
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, logger="kafka"):
        publish(settings)
        assert read(settings)
        with pytest.raises(BadSettings):
            recognise(secure.settings("detector", sasl_mechanism="PLAIN", sasl_username="nobody"))
    assert "Starting KafkaAdminClient with configuration" in caplog.text  # it was at DEBUG
    for user in ("admin", "detector"):
        assert secure.passwords[user] not in caplog.text


def test_who_was_let_in_once_waits_until_the_password_is_right_again(secure: SecureKafka) -> None:
    """Unlike at the start, where a wrong password ends a program: this one was right."""
    user, got = "subscriber", []
    secure.grant(user, [("Topic", LABELS, "Read")])
    reader = open_reader(secure.settings(user), LABELS, start="latest", limit=1)
    with reader as records:
        following = threading.Thread(target=lambda: got.extend(records), daemon=True)
        following.start()
        secure.change_password(user, "another")
        secure.node.kill()
        secure.node.start()
        time.sleep(3)
        assert following.is_alive()
        publish(secure.settings(), LABELS)
        assert not got
        secure.change_password(user, secure.passwords[user])
        following.join(60)
    assert [record.value for record in got] == [b"x"]
