"""`stream-icd retrain`, and what it announces."""

import multiprocessing
import os
import shutil
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import structlog

from stream_icd.core.errors import HistoryDamaged, StoreUnreachable
from stream_icd.core.lineage import Figure, Gate, Lineage
from stream_icd.core.store.store import Store, open_store
from stream_icd.history.archive import Archive
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.learning.retraining import run
from stream_icd.learning.retraining.retrain import Decision
from stream_icd.learning.retraining.run import Rounds, announce_in_topic, log_decision
from stream_icd.learning.retraining.settings import Retraining
from stream_icd.registry.aliases import champion, current, promote
from stream_icd.registry.announce import announcements
from stream_icd.registry.find import find_version, folder_of
from stream_icd.registry.versions import (
    existing_folder,
    import_folder,
    pack_folder,
    publish,
    version_folder,
)
from stream_icd.wire.snapshots import encode_snapshot
from tests.run_here import run_here
from tests.testbed.brokers import Broker
from tests.testbed.lessons import small_windows

AT = datetime(2026, 3, 1, tzinfo=UTC)
GATE = Gate("a@1", "b@2", AT, AT, 8, False, "no better", (Figure("NMI, %", 1, 2, -1, 3),))
KEPT = Decision("kept", "no better", AT, "a@1", "b@2", 7, gate=GATE)


def _archive(place: str, count: int) -> None:
    archive = Archive(open_store(place))
    for snapshot, _ in small_windows(count):
        archive.add("snapshots", encode_snapshot(snapshot))


def _retrain(tmp_path: Path, *more: str) -> str:
    archive, registry = str(tmp_path / "archive"), str(tmp_path / "registry")
    fixed = ("retrain", archive, "--registry", registry, "--no-announce", "--no-drift")
    done = run_here(*fixed, *more)
    return f"{done.returncode} {done.stdout}{done.stderr}"


def test_a_round_for_cron(tmp_path: Path) -> None:
    _archive(str(tmp_path / "archive"), 3)
    first = _retrain(tmp_path, "--once", "--every-windows", "9")
    assert first.startswith("0 not now: 3 of 9 new windows")
    assert "first champion" in first  # in the log
    now = _retrain(tmp_path, "--once", "--now")
    assert now.startswith("0 not now: asked by command, but there are 3 of 8 windows")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("--now",), "give --once too"),
        (("--once", "--every", "soon"), "'soon' is not a duration"),
        (("--once", "--name", "a/b"), "use letters, digits, - and _"),
        (("--once", "--name", "n" * 201), "at most 200 characters"),
        (("--once", "--confidence", "1"), "confidence"),
        (("--once", "--epochs", "2"), "give --encoder too"),
        (("--once", "--encoder", "mine"), "no recipe for 'mine'"),
        (("--once", "--first", "nothing-there"), "no model 'nothing-there'"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, wrong: tuple[str, ...], said: str) -> None:
    done = _retrain(tmp_path, *wrong)
    assert done.startswith("78 ")
    assert said in done


def _announcing(
    broker: Broker, topic: str, folder: Path
) -> tuple[Store, Retraining, list[Callable[[Decision], None]]]:
    """A registry, settings without a trigger, and what announces decisions in the topic."""
    registry = open_store(str(folder / "registry"))
    settings = Retraining(str(folder / "archive"), drift=False)
    announce = announce_in_topic(broker.settings(), registry, settings.name, topic)
    return registry, settings, [announce]


@pytest.mark.brokers("memory")
def test_decisions_are_announced(
    broker: Broker, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic()
    registry, settings, announce = _announcing(broker, topic, tmp_path)
    first = Rounds(registry, settings, announce).once(clock=lambda: AT).champion
    announce[0](replace(KEPT, outcome="failed", at=AT + timedelta(1)))
    said = list(announcements(broker.settings(), topic))
    assert [announcement.kind for announcement in said] == ["published", "promoted", "kept", "kept"]
    assert {announcement.by for announcement in said} == {"retrain"}
    assert said[1].champion == first
    assert said[2].reason.startswith("no trigger is set; there is no archive at ")
    assert said[3].reason == "failed: no better"
    assert said[3].version == "b@2"
    assert said[3].gate == KEPT.gate


def _killed_before_it_announces(registry: str, settings: Retraining) -> None:
    def die(_decision: Decision) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    Rounds(open_store(registry), settings, [die]).once(clock=lambda: AT)


@pytest.mark.brokers("memory")
def test_killed_between_promotion_and_announcement_the_next_start_makes_up_for_it(
    broker: Broker, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic()
    registry, settings, announce = _announcing(broker, topic, tmp_path)
    killed = multiprocessing.get_context("fork").Process(
        target=_killed_before_it_announces, args=(registry.uri, settings)
    )
    killed.start()
    killed.join()
    assert killed.exitcode == -signal.SIGKILL
    promoted = champion(registry)
    for _ in range(2):  # the second start says nothing again
        Rounds(registry, settings, announce).once(clock=lambda: AT)
    said = list(announcements(broker.settings(), topic))
    assert [announcement.kind for announcement in said] == ["published", "promoted", "kept"]
    assert (said[1].champion, said[1].generation) == (promoted.champion, promoted.generation)
    assert said[2].reason.startswith("no trigger is set; there is no archive at ")
    with open_reader(broker.settings(), topic, until="end") as records:
        assert len(list(records)) == 4  # both rounds decided to keep; the change came once


def _promoted(registry: Store, name: str, at: datetime) -> str:
    """Promote a shipped model as a retrainer does; return its version."""
    publish(registry, pack_folder(folder_of(name)), Lineage("retrain", AT, "0"))
    version = find_version(registry, name)
    promote(registry, version, "better", at, by="retrain", seen=current(registry))
    return version


@pytest.mark.brokers("memory")
def test_a_later_promotion_that_was_not_announced_is_made_up_for_too(
    broker: Broker, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic()
    registry, settings, announce = _announcing(broker, topic, tmp_path)
    Rounds(registry, settings, announce).once(clock=lambda: AT)
    by_hand = _promoted(registry, "lfr", AT)
    Rounds(registry, settings, []).once(clock=lambda: AT)  # its state has seen the promotion
    Rounds(registry, settings, announce).once(clock=lambda: AT + timedelta(1))
    said = [
        announcement
        for announcement in announcements(broker.settings(), topic)
        if announcement.version == by_hand
    ]
    assert [(announcement.kind, announcement.generation) for announcement in said] == [
        ("published", 0),
        ("promoted", 2),
    ]


@pytest.mark.brokers("memory")
def test_a_version_that_was_deleted_keeps_no_other_from_being_announced(
    broker: Broker, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic()
    registry, settings, announce = _announcing(broker, topic, tmp_path)
    first = Rounds(registry, settings, []).once(clock=lambda: AT).champion
    second = _promoted(registry, "lfr", AT)
    shutil.rmtree(version_folder(registry, first).root)
    Rounds(registry, settings, announce).once(clock=lambda: AT)
    said = [(one.kind, one.version) for one in announcements(broker.settings(), topic)]
    assert said[:3] == [("promoted", first), ("published", second), ("promoted", second)]


@pytest.mark.brokers("memory")
def test_a_promotion_with_the_number_of_a_deleted_one_is_announced(
    broker: Broker, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic()
    registry, settings, announce = _announcing(broker, topic, tmp_path)
    _archive(settings.archive, 1)
    Rounds(registry, settings, announce).once(clock=lambda: AT)
    versions = list[str]()
    for name, at in (("lfr", AT), ("as", AT + timedelta(1))):
        versions.append(_promoted(registry, name, at))
        Rounds(registry, settings, announce).once(clock=lambda at=at: at)
        registry.delete("aliases/00000002.json")
        Rounds(registry, settings, announce).once(clock=lambda at=at: at)
    said = announcements(broker.settings(), topic)
    promoted = [one.version for one in said if (one.kind, one.generation) == ("promoted", 2)]
    assert promoted == versions


def test_a_broker_that_does_not_answer_stops_nothing(tmp_path: Path) -> None:
    settings = KafkaSettings(bootstrap_servers="127.0.0.1:1", connect_timeout_s=0.2)
    registry = open_store(str(tmp_path / "registry"))
    announce = announce_in_topic(settings, registry, "retrained")
    with structlog.testing.capture_logs() as logs:
        nothing = Retraining(str(tmp_path / "archive"), drift=False)
        Rounds(registry, nothing, [announce]).once(clock=lambda: AT)
    assert {log["event"] for log in logs} == {"decision not announced"}


def test_the_log_has_the_reason() -> None:
    with structlog.testing.capture_logs() as logs:
        log_decision(KEPT)
    assert logs[0]["event"] == "kept"
    assert logs[0]["reason"] == "no better"
    figure = {"measure": "NMI, %", "champion": 1, "challenger": 2, "low": -1, "high": 3}
    assert logs[0]["figures"] == [figure]


def test_the_service_says_each_thing_once_and_outlives_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, said = threading.Event(), list[str]()
    answers = iter(
        [KEPT, KEPT, StoreUnreachable("away"), KEPT, HistoryDamaged("a file is no archive file")]
    )

    def answer(*_: object, **__: object) -> Decision:
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(run, "retrain", answer)
    announce = [lambda decision: said.append(decision.outcome)]
    registry, settings = open_store(str(tmp_path)), Retraining(str(tmp_path))
    with structlog.testing.capture_logs() as logs, pytest.raises(HistoryDamaged):
        Rounds(registry, settings, announce).until(stop, 0.001)
    assert said == ["kept", "kept"]  # after the trouble, again
    assert [log["event"] for log in logs] == ["no round now; the champion stays"]
    stop.set()
    Rounds(registry, settings, announce).until(stop, 0.001)  # ends at once


@pytest.mark.parametrize("in_a_round", [False, True])
def test_the_service_begins_no_new_registry_where_one_vanished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, in_a_round: bool
) -> None:
    stop, place = threading.Event(), tmp_path / "registry"
    registry, settings = open_store(str(place)), Retraining(str(tmp_path / "archive"))
    version = import_folder(registry, folder_of("lfr"), "test", AT, "lfr")
    promote(registry, version, "test", AT, by="test", seen=None)

    def unmount(*_: object, **__: object) -> None:
        place.rename(tmp_path / "away")
        threading.Timer(0.2, stop.set).start()
        if in_a_round:
            existing_folder(registry, version)

    if in_a_round:
        monkeypatch.setattr(run, "retrain", unmount)
    with structlog.testing.capture_logs() as logs:
        Rounds(registry, settings, [unmount]).until(stop, 0.05)
    assert not place.exists()
    assert {log["event"] for log in logs} == {"no round now; the champion stays"}
    assert "has no champion any more" in logs[0]["reason"]
