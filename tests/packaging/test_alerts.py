"""The alerts: promtool runs `alerts_test.yml`, whose series are those that workers serve."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from stream_icd.core.errors import BadInput, kinds_of
from stream_icd.history.archiver import Archiver
from stream_icd.learning.retraining.retrain import OUTCOMES
from stream_icd.streaming.dead_letters.letters import possible
from stream_icd.streaming.metrics.metrics import Health, Metrics
from stream_icd.streaming.metrics.programs import RoundsHealth, RoundsMetrics
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.track import Tracker
from tests.testbed.programs import PROMTOOL

FOLDER = Path(__file__).parent
PROMETHEUS = FOLDER.parents[1] / "deploy" / "monitoring" / "prometheus"
RULES = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text("utf-8"))["groups"][0]["rules"]
CASES = yaml.safe_load((FOLDER / "alerts_test.yml").read_text("utf-8"))["tests"]


@pytest.mark.skipif(
    PROMTOOL is None,
    reason="install promtool to check the alerts: on Debian and Ubuntu, apt install prometheus",
)
def test_prometheus_accepts_its_files_and_a_fault_fires_its_alert_and_no_other() -> None:
    for folder, *arguments in (
        (PROMETHEUS, "check", "config", "prometheus.yml"),
        (PROMETHEUS, "check", "rules", "alerts.yml"),
        (FOLDER, "test", "rules", "alerts_test.yml"),
    ):
        done = subprocess.run(("promtool", *arguments), cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_fault_that_fires_it() -> None:
    fired = {alert["alertname"] for case in CASES for alert in case.get("alert_rule_test", ())}
    assert fired == {rule["alert"] for rule in RULES}


def test_the_faults_are_told_in_series_that_workers_and_retrainers_serve() -> None:
    metrics = Metrics(Health(300, 10))
    metrics.watch("t", "detect", stages=Detector.stages).lagged({0: 0})
    metrics.model("as@1", "detect")
    metrics.follows_champion(lambda: True)
    rounds = RoundsMetrics(RoundsHealth(36_000), OUTCOMES)
    served = {
        (sample.name, frozenset(sample.labels) | {"job", "instance"})
        for registry in (metrics.registry, rounds.registry)
        for family in registry.collect()
        for sample in family.samples
    }
    told = [series["series"] for case in CASES for series in case["input_series"]]
    for series in set(told):
        ((sample,),) = (
            family.samples for family in text_string_to_metric_families(f"{series} 0\n")
        )
        assert sample.name == "up" or (sample.name, frozenset(sample.labels)) in served, series


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
