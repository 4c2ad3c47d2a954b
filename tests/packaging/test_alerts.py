"""Each alert fires on what a worker serves while the fault lasts, and on nothing else."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from stream_icd.core.errors import BadInput, BadSnapshot, kinds_of
from stream_icd.history.archiver import Archiver
from stream_icd.kafka.delivery.handler import BatchDone
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.learning.retraining.retrain import OUTCOMES
from stream_icd.streaming.dead_letters.letters import dead_letter, possible
from stream_icd.streaming.execution.processes import InHand
from stream_icd.streaming.metrics.metrics import Health, Metrics, RoundsHealth, RoundsMetrics
from stream_icd.streaming.metrics.server import Respond, responding
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.track import Tracker
from tests.testbed.programs import PROMTOOL

PROMETHEUS = Path(__file__).parents[2] / "deploy" / "monitoring" / "prometheus"
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None,
    reason="install promtool to check the alerts: on Debian and Ubuntu, apt install prometheus",
)
LATEST = 125
"""The minute at which a fault that lasts must have fired."""

Labels = dict[str, str]
Fired = tuple[str, Labels, str, str]
"""An alert: name, labels, summary, description."""
Series = dict[str, list[str]]
"""Values of each series by the minute, `_` where there was none."""


def promtool(*arguments: str, folder: Path = PROMETHEUS) -> None:
    """Run promtool; fail with what it says if something is wrong."""
    done = subprocess.run(
        ("promtool", *arguments), cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.fail(done.stdout + done.stderr)


@dataclass
class Worker:
    """A worker whose metrics are served and scraped, a minute after the other.

    Attributes:
        minute: the present one; `record` and `metrics` use it as the clock.
    """

    instance: str = "a"
    model: str | None = "as@1"
    group: str = "detect"
    minute: int = 0
    metrics: Metrics = field(init=False)
    _offset: int = 0
    _generation: int = 1

    def __post_init__(self) -> None:
        health = Health(300, 10, clock=lambda: 60.0 * self.minute)
        self.metrics = Metrics(health, now=health.clock)
        self.loop = self.metrics.watch("t", self.group, stages=Detector.stages)
        if self.model is not None:
            self.metrics.model(self.model, self.group)
        self.heard()
        self.waiting(0)

    def done(
        self, *, good: int = 0, bad: int = 0, age_s: float = 1, evidence: str = "strong"
    ) -> None:
        """Publish and commit a batch."""
        records = [self._record(age_s) for _ in range(good + bad)]
        result = OutgoingRecord("out", b"", b"g", (("icd_evidence", evidence.encode()),))
        letters = (dead_letter(record, "decode", BadSnapshot("why")) for record in records[good:])
        self.loop.done(BatchDone(tuple(records), (*[result] * good, *letters), 0.02))

    def waiting(self, records: int) -> None:
        self.loop.lagged({0: records})

    def heard(self, silence_s: float = 0.1) -> None:
        """Poll; the broker answered so long ago."""
        self.loop.polled(self._generation, silence_s)

    def rejoined(self) -> None:
        self._generation += 1
        self.heard()

    def skipped(self) -> None:
        """Commit a record of another graph than the only one, `g`."""
        loop = replace(self.loop, key=b"g")
        loop.done(BatchDone((replace(self._record(1), key=b"other"),), (), 0.02))

    def _record(self, age_s: float) -> Record:
        self._offset += 1
        received = round(1000 * (60 * self.minute - age_s))
        return Record("t", 0, self._offset, max(received, 0), b"g", b"")


@dataclass
class Retrainer:
    """A retrainer whose metrics are served and scraped; `minute` is the present one."""

    instance: str = "r"
    minute: int = 0
    metrics: RoundsMetrics = field(init=False)

    def __post_init__(self) -> None:
        health = RoundsHealth(36_000, clock=lambda: 60.0 * self.minute)
        self.metrics = RoundsMetrics(health, OUTCOMES, now=lambda: 60.0 * self.minute)

    def begins(self, step: str) -> None:
        self.metrics.health.begin(step)
        self.metrics.health.since -= 1  # second

    def decided(self, outcome: str) -> None:
        self.metrics.decided(outcome, windows=10, champion="as@1")


Scene = Callable[[int, Worker], bool]
"""What a worker does in a minute; returns whether it answers Prometheus."""


def usual(_minute: int, worker: Worker) -> bool:
    worker.heard()
    worker.done(good=10)
    return True


def gone(minute: int, worker: Worker) -> bool:
    return usual(minute, worker) and minute < 100


def more_waits(minute: int, worker: Worker) -> bool:
    worker.waiting(60 * minute)
    return usual(minute, worker)


def stuck(minute: int, worker: Worker) -> bool:
    worker.waiting(5)
    worker.heard()
    return usual(minute, worker) if minute < 100 else True


def stuck_from_the_start(_minute: int, worker: Worker) -> bool:
    worker.heard()
    worker.waiting(5)
    return True


def skips(_minute: int, worker: Worker) -> bool:
    """Records of other graphs come all the time."""
    worker.heard()
    worker.waiting(1)
    worker.skipped()
    return True


def without_broker(minute: int, worker: Worker) -> bool:
    if minute < 100:
        return usual(minute, worker)
    worker.heard(silence_s=60.0 * (minute - 100))
    return True


def first_dead_letters(minute: int, worker: Worker) -> bool:
    if minute == LATEST - 5:
        worker.done(bad=2)
    return usual(minute, worker)


def late(_minute: int, worker: Worker) -> bool:
    worker.heard()
    worker.done(good=10, age_s=120)
    return True


def long(minute: int, worker: Worker) -> bool:
    worker.metrics.in_hand(lambda: [InHand("g/1", 301.0, 900.0)])
    return usual(minute, worker)


def unstable(minute: int, worker: Worker) -> bool:
    worker.rejoined()
    return usual(minute, worker)


def replaced(minute: int, worker: Worker) -> bool:
    """Another member of the group ends and starts again."""
    if minute in (LATEST - 3, LATEST - 2):
        worker.rejoined()
    return usual(minute, worker)


def joins_once(minute: int, worker: Worker) -> bool:
    if minute == 50:
        worker.rejoined()
    return usual(minute, worker)


def no_evidence(_minute: int, worker: Worker) -> bool:
    worker.heard()
    worker.done(good=4)
    worker.done(good=6, evidence="none")
    return True


JOB = {"job": "stream-icd", "instance": "a"}
OF_GROUP = {"group": "detect", "topic": "t"}
NOTHING_PROCESSED: Fired = (
    "StreamIcdNothingProcessed",
    {"severity": "critical", **OF_GROUP, "instance": "a"},
    "Records wait, and none is processed.",
    "Records of t wait at a, of detect, and it committed none for ten minutes.",
)
NO_DETECTOR: Fired = (
    "StreamIcdNoDetector",
    {"severity": "critical"},
    "There is no detector.",
    "No worker that Prometheus knows has a model; snapshots wait.",
)
SCENES: dict[str, tuple[Scene, list[Fired]]] = {
    "usual": (usual, []),
    "a rebalance": (joins_once, []),
    "only other graphs": (skips, []),
    "no broker": (
        without_broker,
        [
            (
                "StreamIcdNotReady",
                {"severity": "critical", **JOB},
                "A worker is not ready.",
                "No results can be expected of a; its /readyz says why, such as a broker that does "
                "not answer.",
            )
        ],
    ),
    "gone": (
        gone,
        [
            (
                "StreamIcdWorkerGone",
                {"severity": "critical", **JOB},
                "A worker does not answer.",
                "Prometheus gets no metrics from a; snapshots wait unless another member took its "
                "partitions.",
            ),
            NO_DETECTOR,
        ],
    ),
    "more waits": (
        more_waits,
        [
            (
                "StreamIcdLagGrows",
                {"severity": "warning", **OF_GROUP},
                "Records come faster than they are processed.",
                "1 more records of t wait for detect every second.",
            )
        ],
    ),
    "stuck": (stuck, [NOTHING_PROCESSED]),
    "stuck from the start": (stuck_from_the_start, [NOTHING_PROCESSED]),
    "the first dead letters": (
        first_dead_letters,
        [
            (
                "StreamIcdDeadLetters",
                {
                    "severity": "warning",
                    **OF_GROUP,
                    "stage": "decode",
                    "exception": "BadSnapshot",
                },
                "Records became dead letters.",
                "2 records of t failed in detect, stage decode, with BadSnapshot.",
            )
        ],
    ),
    "late": (
        late,
        [
            (
                "StreamIcdResultsLate",
                {"severity": "warning", **OF_GROUP},
                "Results are late.",
                "detect commits 5 % of its results more than a minute after Kafka received the "
                "record of t.",
            )
        ],
    ),
    "long": (
        long,
        [
            (
                "StreamIcdSnapshotTakesLong",
                {"severity": "warning", **JOB},
                "A snapshot takes more than five minutes.",
                "a has worked on one snapshot for 5m 1s.",
            )
        ],
    ),
    "unstable": (
        unstable,
        [
            (
                "StreamIcdGroupUnstable",
                {"severity": "warning", **OF_GROUP},
                "Members of the group come and go.",
                "10 rebalances of detect on t in ten minutes.",
            )
        ],
    ),
    "no evidence": (
        no_evidence,
        [
            (
                "StreamIcdNoEvidence",
                {"severity": "warning"},
                "Most graphs show no evidence of communities.",
                "The graphs have become too small or too random for communities to be found.",
            )
        ],
    ),
}
CHAMPION_NOT_USED: Fired = (
    "StreamIcdChampionNotUsed",
    {"severity": "warning", **JOB},
    "A detector does not use the champion.",
    "a has used another model than the registry's champion for ten minutes; its log says why.",
)
TWO_MODELS: Fired = (
    "StreamIcdTwoModels",
    {"severity": "warning", "group": "detect"},
    "Workers of a group publish with different models.",
    "2 versions of the model have been in use in detect for half an hour.",
)


def decides(_minute: int, retrainer: Retrainer) -> None:
    retrainer.decided("not now")


def fails_once(minute: int, retrainer: Retrainer) -> None:
    retrainer.decided("failed" if minute == LATEST - 30 else "not now")


def registry_gone(minute: int, retrainer: Retrainer) -> None:
    if minute < 20:
        retrainer.decided("not now")
    else:
        retrainer.metrics.unavailable("StoreUnreachable: the registry does not answer")


def registry_never_there(_minute: int, retrainer: Retrainer) -> None:
    retrainer.metrics.unavailable("StoreUnreachable: the registry does not answer")


def rounds_end(minute: int, retrainer: Retrainer) -> None:
    if minute < 20:
        retrainer.decided("not now")


def learns_long(minute: int, retrainer: Retrainer) -> None:
    if minute < 20:
        retrainer.decided("not now")
    elif minute in (20, LATEST - 5):
        retrainer.begins("learn" if minute == 20 else "prove")


def scores_long(_minute: int, retrainer: Retrainer) -> None:
    """As in a first round on a large archive: a batch of windows a minute."""
    retrainer.begins("score")


NOBODY: Fired = (
    "StreamIcdWorkerGone",
    {"severity": "critical", "job": "stream-icd"},
    "A worker does not answer.",
    "Prometheus gets no metrics from any worker; snapshots wait unless another member took its "
    "partitions.",
)
STOPPED: Fired = (
    "StreamIcdRetrainingStopped",
    {"severity": "warning", "job": "stream-icd", "instance": "r"},
    "The retrainer decides nothing.",
    "No round of r has ended with a decision for an hour, and none has been at work all the time.",
)
ROUNDS: dict[str, tuple[Callable[[int, Retrainer], None], list[Fired]]] = {
    "decides": (decides, []),
    "fails once": (
        fails_once,
        [
            (
                "StreamIcdRetrainingFails",
                {"severity": "warning", "instance": "r"},
                "A model could not be learned.",
                "The retrainer r failed to learn within the last hour; the champion stays.",
            )
        ],
    ),
    "the registry is gone": (registry_gone, [STOPPED]),
    "the registry was never there": (registry_never_there, [STOPPED]),
    "rounds end": (rounds_end, [STOPPED]),
    "learns long": (learns_long, []),
    "scores long": (scores_long, []),
}
RULES = (PROMETHEUS / "alerts.yml").read_text("utf-8")
ALERTS: list[str] = [rule["alert"] for rule in yaml.safe_load(RULES)["groups"][0]["rules"]]
READ = set(re.findall(r"stream_icd_\w+", RULES))
"""The metrics that alerts read."""


@needs_promtool
@pytest.mark.parametrize(
    "arguments", [("check", "config", "prometheus.yml"), ("check", "rules", "alerts.yml")]
)
def test_prometheus_accepts_its_files(arguments: tuple[str, ...]) -> None:
    promtool(*arguments)


def cases() -> Iterator[tuple[str, Series, list[Fired]]]:
    """What happens, what Prometheus sees of it, and the alerts that fire."""
    usually = scraped(usual, Worker())
    for name, (scene, fired) in SCENES.items():
        yield name, scraped(scene, Worker()), fired
    for name, (acts, fired) in ROUNDS.items():
        yield f"a retrainer: {name}", usually | scraped_retrainer(acts), fired

    tracker = scraped(usual, Worker("b", model=None))
    yield "a detector and a tracker", usually | tracker, []
    other_model = scraped(usual, Worker("b", "as@2"))
    yield "two models in a group", usually | other_model, [TWO_MODELS]
    other_group = scraped(usual, Worker("b", "as@2", "detect-as733"))
    yield "two groups with a model each", usually | other_group, []
    yield "only a tracker", scraped(usual, Worker(model=None)), [NO_DETECTOR]
    yield "no worker at all", {}, [NOBODY, NO_DETECTOR]

    working = scraped(usual, Worker("b")) | scraped(usual, Worker("c", None, group="archive"))
    yield "stuck beside workers that work", scraped(stuck, Worker()) | working, [NOTHING_PROCESSED]
    four = [scraped(replaced, Worker(instance)) for instance in "abcd"]
    yield "one of four starts again", four[0] | four[1] | four[2] | four[3], []
    follower = Worker()
    follower.metrics.follows_champion(lambda: follower.minute < 100)
    yield "the champion is not used", scraped(usual, follower), [CHAMPION_NOT_USED]


@needs_promtool
def test_a_fault_fires_its_alert_and_no_other(tmp_path: Path) -> None:
    check(cases(), tmp_path)


def test_every_alert_has_a_fault_that_fires_it() -> None:
    scenes = [expected for _, expected in (*SCENES.values(), *ROUNDS.values())]
    fired = {one[0] for expected in scenes for one in expected}
    fired |= {one[0] for one in (TWO_MODELS, CHAMPION_NOT_USED, NO_DETECTOR)}
    assert fired == set(ALERTS)


@pytest.mark.parametrize("step", [Detector, Tracker, Archiver])
def test_every_dead_letter_is_counted_from_the_start(step: Any) -> None:
    metrics = Metrics(Health(300, 10))
    metrics.watch("t", "g", stages=step.stages)
    for stage in step.stages:
        for error in kinds_of(BadInput):
            labels = {"group": "g", "topic": "t", "stage": stage, "exception": error.__name__}
            counted = metrics.registry.get_sample_value("stream_icd_dead_letters_total", labels)
            assert counted == (0 if (stage, error.__name__) in possible(step.stages) else None)
    assert ("crashed", "CrashedWorker") in possible(step.stages)


def scraped(scene: Callable[[int, Any], bool], worker: Worker | Retrainer) -> Series:
    """What Prometheus gets from a worker that it asks every minute."""
    series: Series = {}
    up = f"up{labelled(JOB | {'instance': worker.instance})}"
    respond = responding(worker.metrics)
    for worker.minute in range(LATEST + 1):
        # At first it is scraped before it has done anything, as a worker that starts.
        answers = worker.minute == 0 or scene(worker.minute, worker)
        found = {up: str(int(answers))}
        if answers:
            found |= dict(samples(answered(respond), worker.instance))
        for name in found.keys() | series.keys():
            series.setdefault(name, ["_"] * worker.minute).append(found.get(name, "_"))
    return series


def scraped_retrainer(acts: Callable[[int, Retrainer], None]) -> Series:
    retrainer = Retrainer()

    def told(minute: int, _: Any) -> bool:
        acts(minute, retrainer)
        return True

    return scraped(told, retrainer)


def answered(respond: Respond) -> str:
    """What the port of a worker would answer, without a connection."""
    statuses: list[str] = []
    request = {"REQUEST_METHOD": "GET", "PATH_INFO": "/metrics"}
    body = respond(request, lambda status, _: statuses.append(status))
    assert statuses == ["200 OK"]
    return b"".join(body).decode()


def samples(text: str, instance: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        if line.startswith("stream_icd_"):
            series, _, value = line.rpartition(" ")
            if name := named(series, instance):
                yield name, repr(float(value))


@cache
def named(series: str, instance: str) -> str | None:
    """The name under which Prometheus keeps a series, each read once; None if no alert needs it."""
    (family,) = text_string_to_metric_families(f"{series} 0\n")
    (sample,) = family.samples
    if sample.name not in READ:
        return None
    return sample.name + labelled({**sample.labels, **JOB, "instance": instance})


def labelled(labels: Labels) -> str:
    return "{" + ", ".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


def check(cases: Iterable[tuple[str, Series, list[Fired]]], folder: Path) -> None:
    """Check with promtool that in each case these alerts fire at `LATEST`, and no others."""
    files = [str(PROMETHEUS / "alerts.yml")]
    for name, series, fired in cases:
        expected = {
            alert: [{"exp_labels": labels, "exp_annotations": {"summary": one, "description": two}}]
            for alert, labels, one, two in fired
        }
        test = {
            "interval": "1m",
            "input_series": [{"series": one, "values": " ".join(v)} for one, v in series.items()],
            "alert_rule_test": [
                {
                    "eval_time": f"{LATEST}m",
                    "alertname": alert,
                    "exp_alerts": expected.get(alert, []),
                }
                for alert in ALERTS
            ],
        }
        rules = {"rule_files": files, "evaluation_interval": "1m", "tests": [test]}
        (folder / f"{name}.yml").write_text(json.dumps(rules))  # JSON is YAML
    promtool("test", "rules", *(file.name for file in folder.iterdir()), folder=folder)
