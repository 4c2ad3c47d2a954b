"""`stream-icd retrain`: its rounds, what they announce and log, numbers, health and traces."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs

from stream_icd.core.errors import HistoryDamaged, StoreUnreachable
from stream_icd.core.lineage import Figure, Gate, Lineage
from stream_icd.core.store.store import open_store
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.tracing import Tracing, context_of
from stream_icd.learning.retraining import run
from stream_icd.learning.retraining.retrain import OUTCOMES, Decision
from stream_icd.learning.retraining.run import Rounds, announce_in_topic
from stream_icd.learning.retraining.settings import Retraining
from stream_icd.registry.aliases import champion, current, promote
from stream_icd.registry.announce import announcements
from stream_icd.registry.find import folder_of, open_model
from stream_icd.registry.model import PackedModel
from stream_icd.registry.versions import existing_folder, import_folder, publish, version_folder
from stream_icd.streaming.metrics.server import serving
from stream_icd.wire.announcements import Announcement
from tests.run_here import run_here
from tests.testbed.brokers import Broker
from tests.testbed.children import die, run_until_killed
from tests.testbed.lessons import add_to_archive, small_windows
from tests.testbed.scraping import asked

pytestmark = pytest.mark.brokers("memory")
AT = datetime(2026, 3, 1, tzinfo=UTC)
GATE = Gate("a@1", "b@2", AT, AT, 8, False, "no better", (Figure("NMI, %", 1, 2, -1, 3),))
KEPT = Decision("kept", "no better", AT, "a@1", "b@2", 7, gate=GATE)


def _retrain(tmp_path: Path, *more: str) -> str:
    archive, registry = str(tmp_path / "archive"), str(tmp_path / "registry")
    fixed = ("retrain", archive, "--registry", registry, "--no-announce", "--no-drift")
    done = run_here(*fixed, *more)
    return f"{done.returncode} {done.stdout}{done.stderr}"


def test_a_round_for_cron(tmp_path: Path) -> None:
    add_to_archive(str(tmp_path / "archive"), small_windows(3))
    first = _retrain(tmp_path, "--once", "--every-windows", "9")
    assert first.startswith("0 not now: 3 of 9 new windows")
    assert "first champion" in first  # in the log
    now = _retrain(tmp_path, "--once", "--now")
    assert now.startswith("0 not now: asked by command, but there are 3 of 8 windows")
    assert "give --once too" in _retrain(tmp_path, "--now")


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (("--every", "soon"), "'soon' is not a duration"),
        (("--name", "a/b"), "use letters, digits, - and _"),
        (("--confidence", "1"), "confidence"),
        (("--most-windows", "10001"), "10001 must be from 11 to 10000"),
        (("--epochs", "2"), "give --encoder too"),
        (("--encoder", "mine"), "no recipe for 'mine'"),
        (("--first", "nothing-there"), "no model 'nothing-there'"),
        (("--metrics-port", "9464"), "--metrics-port is for rounds without --once"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, wrong: tuple[str, ...], reason: str) -> None:
    done = _retrain(tmp_path, "--once", *wrong)
    assert done.startswith("78 ")
    assert reason in done


class Announcing:
    """A registry, settings without a trigger, and rounds that announce decisions in a topic."""

    def __init__(self, broker: Broker, topic: str, folder: Path) -> None:
        self.kafka, self.topic = broker.settings(), topic
        self.registry = open_store(str(folder / "registry"))
        self.settings = Retraining(str(folder / "archive"), drift=False)
        self.announce = announce_in_topic(self.kafka, self.registry, self.settings.name, topic)

    def round(self, at: datetime = AT, *, quietly: bool = False, **more: Any) -> Decision:
        announce = () if quietly else (self.announce,)
        return Rounds(self.registry, self.settings, announce, **more).once(clock=lambda: at)

    def announced(self) -> list[Announcement]:
        return list(announcements(self.kafka, self.topic))

    def promote(self, name: str, at: datetime = AT) -> str:
        """Promote a shipped model as a retrainer does; return its version."""
        model = PackedModel.of(open_model(name).model)
        publish(self.registry, model, Lineage("retrain", AT, "0"))
        seen = current(self.registry)
        promote(self.registry, model.version, "better", at, by="retrain", seen=seen)
        return model.version


@pytest.fixture
def announcing(broker: Broker, make_topic: Callable[..., str], tmp_path: Path) -> Announcing:
    return Announcing(broker, make_topic(), tmp_path)


def test_decisions_are_announced(announcing: Announcing) -> None:
    first = announcing.round().champion
    announcing.announce(replace(KEPT, outcome="failed", at=AT + timedelta(1)))
    published, promoted, kept, failed = announcing.announced()
    assert [published.kind, promoted.kind, kept.kind] == ["published", "promoted", "kept"]
    assert {published.by, promoted.by, kept.by, failed.by} == {"retrain"}
    assert promoted.champion == first
    assert kept.reason.startswith("no trigger is set; there is no archive at ")
    assert (failed.kind, failed.reason) == ("kept", "failed: no better")
    assert (failed.version, failed.gate) == ("b@2", KEPT.gate)


def test_killed_between_promotion_and_announcement_the_next_start_makes_up_for_it(
    announcing: Announcing,
) -> None:
    run_until_killed(Rounds(announcing.registry, announcing.settings, [die]).once)
    promoted = champion(announcing.registry)
    for _ in range(2):  # the second start says nothing again
        announcing.round()
    announced = announcing.announced()
    assert [one.kind for one in announced] == ["published", "promoted", "kept"]
    of_change = announced[1].champion, announced[1].generation
    assert of_change == (promoted.champion, promoted.generation)
    with open_reader(announcing.kafka, announcing.topic, until="end") as records:
        assert len(list(records)) == 4  # both rounds decided to keep; the change came once


def test_a_later_promotion_is_made_up_for_too_also_beside_a_version_that_was_deleted(
    announcing: Announcing,
) -> None:
    first = announcing.round(quietly=True).champion
    second = announcing.promote("lfr")
    announcing.round(quietly=True)  # its state has seen the promotion
    shutil.rmtree(version_folder(announcing.registry, first).root)
    announcing.round(AT + timedelta(1))
    announced = [(one.kind, one.version, one.generation) for one in announcing.announced()]
    assert announced[:3] == [
        ("promoted", first, 1),
        ("published", second, 0),
        ("promoted", second, 2),
    ]


def test_a_promotion_with_the_number_of_a_deleted_one_is_announced(announcing: Announcing) -> None:
    add_to_archive(announcing.settings.archive, small_windows(1))
    announcing.round()
    versions = list[str]()
    for name, at in (("lfr", AT), ("as", AT + timedelta(1))):
        versions.append(announcing.promote(name, at))
        announcing.round(at)
        announcing.registry.delete("aliases/00000002.json")
        announcing.round(at)
    promoted = [one for one in announcing.announced() if one.kind == "promoted"]
    assert [one.version for one in promoted if one.generation == 2] == versions


def test_a_broker_that_does_not_answer_stops_nothing(tmp_path: Path) -> None:
    settings = KafkaSettings(bootstrap_servers="127.0.0.1:1", connect_timeout_s=0.2)
    registry = open_store(str(tmp_path / "registry"))
    announce = announce_in_topic(settings, registry, "retrained")
    nothing = Retraining(str(tmp_path / "archive"), drift=False)
    with capture_logs() as logs:
        Rounds(registry, nothing, [announce]).once(clock=lambda: AT)
    assert {log["event"] for log in logs} - {*OUTCOMES} == {"decision not announced"}


def test_the_service_says_each_thing_once_and_outlives_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, announced = threading.Event(), list[str]()
    damaged = HistoryDamaged("a file is no archive file")
    answer = MagicMock(side_effect=[KEPT, KEPT, StoreUnreachable("away"), KEPT, damaged])
    monkeypatch.setattr(run, "retrain", answer)
    announce = [lambda decision: announced.append(decision.outcome)]
    rounds = Rounds(open_store(str(tmp_path)), Retraining(str(tmp_path)), announce)
    with capture_logs() as logs, pytest.raises(HistoryDamaged):
        rounds.until(stop, 0.001)
    assert announced == ["kept", "kept"]  # after the trouble, again
    assert [log["event"] for log in logs] == ["kept", "no round now; the champion stays", "kept"]
    figure = {"measure": "NMI, %", "champion": 1, "challenger": 2, "low": -1, "high": 3}
    assert (logs[0]["reason"], logs[0]["figures"]) == ("no better", [figure])
    stop.set()
    rounds.until(stop, 0.001)  # ends at once


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
    with capture_logs() as logs:
        Rounds(registry, settings, [unmount]).until(stop, 0.05)
    assert not place.exists()
    troubles = [log for log in logs if log["event"] not in OUTCOMES]
    assert {log["event"] for log in troubles} == {"no round now; the champion stays"}
    assert "has no champion any more" in troubles[0]["reason"]


def test_numbers_and_health_of_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = [0.0]
    registry, settings = open_store(str(tmp_path)), Retraining(str(tmp_path))
    rounds = Rounds(registry, settings, limit_s=100, clock=lambda: times[0])
    shown: list[tuple[int, str]] = []

    with serving(rounds.metrics, 0) as port:

        def retrain(*_: object, on_step: Any, **__: object) -> Any:
            shown.append(asked(port, "/readyz"))
            if len(shown) == 2:
                raise StoreUnreachable("away")
            if len(shown) == 4:
                raise HistoryDamaged("a file is no archive file")
            on_step("learn")
            times[0] += 7
            assert asked(port, "/healthz") == (200, "ok\nlearn: 7 s\n")
            times[0] += 100
            assert asked(port, "/healthz") == (503, "learn has taken 107 s, the limit is 100\n")
            return KEPT

        monkeypatch.setattr(run, "retrain", retrain)
        with pytest.raises(HistoryDamaged):
            rounds.until(threading.Event(), 0.001)
        assert shown == [
            (503, "starting: the first round has not ended\n"),
            (200, "ok\n"),
            (503, "StoreUnreachable: away\n"),
            (200, "ok\n"),
        ]
        _, text = asked(port, "/metrics")
    for line in (
        'stream_icd_retrain_rounds_total{outcome="kept"} 2.0',
        'stream_icd_retrain_rounds_total{outcome="unavailable"} 2.0',
        'stream_icd_retrain_rounds_total{outcome="promoted"} 0.0',
        'stream_icd_retrain_step_seconds_sum{step="learn"} 214.0',
        "stream_icd_retrain_windows 7.0",
        'stream_icd_retrain_champion_info{version="a@1"} 1.0',
        "stream_icd_retrain_in_hand_seconds 0.0",
    ):
        assert line in text.splitlines()
    assert all(f'outcome="{outcome}"' in text for outcome in OUTCOMES)
    documented = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text(encoding="utf-8")
    for name in re.findall(r"^# TYPE (stream_icd_\w+)", text, re.MULTILINE):
        assert f"| `{name}` |" in documented or name.endswith("_created")


def test_a_round_is_a_trace_and_so_is_what_it_announces(
    announcing: Announcing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    spans = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    monkeypatch.setenv("STREAM_ICD_TRACES", "on")
    (tmp_path / "archive").mkdir()
    decision = announcing.round(tracing=Tracing())
    rounds = [span for span in spans.get_finished_spans() if span.name == "retrain"]
    said = [(one.attributes or {})["stream_icd.outcome"] for one in rounds]
    assert said == ["first champion", decision.outcome]
    assert "look" in {span.name for span in spans.get_finished_spans() if span.parent is not None}
    with open_reader(announcing.kafka, announcing.topic, until="end") as records:
        traces = {context_of(record.headers)["traceparent"].split("-")[1] for record in records}
    assert traces == {f"{one.get_span_context().trace_id:032x}" for one in rounds}
