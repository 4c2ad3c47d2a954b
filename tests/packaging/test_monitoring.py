"""The dashboard and the alerts ask for metrics that exist, and the documents explain each.

promtool runs `alerts_test.yml`, whose series are those that workers serve.
"""

from __future__ import annotations

import json
import re
import subprocess
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from stream_icd.core.errors import BadInput
from stream_icd.history.archiver import Archiver
from stream_icd.learning.retraining.retrain import OUTCOMES
from stream_icd.streaming.dead_letters.letters import possible
from stream_icd.streaming.metrics.metrics import Metrics
from stream_icd.streaming.metrics.programs import RoundsMetrics
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.track import Tracker
from tests.testbed.programs import PROMTOOL

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "deploy" / "monitoring"
PROMETHEUS = MONITORING / "prometheus"
DASHBOARD: dict[str, Any] = json.loads(
    (MONITORING / "grafana" / "dashboards" / "stream_icd.json").read_text("utf-8")
)
(_GROUP,) = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text("utf-8"))["groups"]
ALERTS: list[dict[str, Any]] = _GROUP["rules"]
FOLDER = Path(__file__).parent
CASES = yaml.safe_load((FOLDER / "alerts_test.yml").read_text("utf-8"))["tests"]
METRICS = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
GROUPED = re.compile(
    r"by \(([\w, ]+)\) \((?:\w+\()*(stream_icd_\w+?)(?:_total|_bucket|_sum|_count|_info)?[{\[)]"
)
NAME = re.compile(r"\b(?:stream_icd|process)_[a-z_]+\b")


def detecting() -> Metrics:
    """The metrics of a detector that starts."""
    metrics = Metrics(3600, 3600)
    metrics.watch("t", "g", stages=Detector.stages).lagged({0: 0})
    metrics.model("m@1", "g")
    metrics.follows_champion(lambda: True)
    return metrics


def retraining() -> RoundsMetrics:
    """The metrics of a retrainer that starts."""
    return RoundsMetrics(3600, OUTCOMES)


def served() -> list[Metric]:
    """What workers and retrainers serve from the start."""
    return [*detecting().registry.collect(), *retraining().registry.collect()]


def names() -> set[str]:
    """All series that they serve, with the labels' names left out."""
    endings = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
    endings["info"] = ("_info",)
    return {
        family.name + ending for family in served() for ending in endings.get(family.type, ("",))
    }


def questions() -> dict[str, str]:
    """What panels and alerts ask, by their name."""
    panels = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in DASHBOARD["panels"]
        for target in panel["targets"]
    }
    return {**panels, **{rule["alert"]: rule["expr"] for rule in ALERTS}}


def test_every_metric_asked_for_exists() -> None:
    for name, expression in questions().items():
        asked = set(NAME.findall(expression))
        assert asked <= names(), name
        assert asked or "up{" in expression, name


def test_labels_asked_for_exist() -> None:
    worker = detecting()
    labels = {
        f"{family.name}": set(getattr(collector, "_labelnames", ()))
        for metrics in (worker, worker.results, retraining())
        for collector in vars(metrics).values()
        if hasattr(collector, "describe")
        for family in collector.describe()
    }
    for name, expression in questions().items():
        for grouped, metric in re.findall(GROUPED, expression):
            wanted = {one.strip() for one in grouped.split(",")} - {"le", "version"}
            wanted -= {"group"} if metric == "stream_icd_model" else set()  # as all of an Info
            assert wanted <= labels[metric] | {"instance"}, name


def test_every_alert_says_what_is_wrong_the_documents_what_to_do_and_a_fault_fires_it() -> None:
    for rule in ALERTS:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert {"summary", "description"} == set(rule["annotations"])
        assert f"| `{rule['alert']}` | {rule['labels']['severity']} |" in METRICS
    fired = {alert["alertname"] for case in CASES for alert in case.get("alert_rule_test", ())}
    assert fired == {rule["alert"] for rule in ALERTS}


def test_panels_are_explained_and_do_not_overlap() -> None:
    assert all(panel["description"] for panel in DASHBOARD["panels"])
    cells = [
        (at["x"] + column, at["y"] + row)
        for at in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for column, row in product(range(at["w"]), range(at["h"]))
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


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


def test_the_faults_are_told_in_series_that_workers_and_retrainers_serve() -> None:
    labels_of = {
        sample.name: sample.labels.keys() | {"job", "instance"}
        for family in served()
        for sample in family.samples
    }
    told = [series["series"] for case in CASES for series in case["input_series"]]
    for series in set(told):
        (family,) = text_string_to_metric_families(f"{series} 0\n")
        (sample,) = family.samples
        assert sample.name == "up" or labels_of[sample.name] == sample.labels.keys(), series


@pytest.mark.parametrize("step", [Detector, Tracker, Archiver])
def test_every_dead_letter_is_counted_from_the_start(step: Any) -> None:
    metrics = Metrics(300, 10)
    metrics.watch("t", "g", stages=step.stages)
    for stage in step.stages:
        for error in BadInput.kinds():
            labels = {"group": "g", "topic": "t", "stage": stage, "exception": error.__name__}
            counted = metrics.registry.get_sample_value("stream_icd_dead_letters_total", labels)
            assert counted == (0 if (stage, error.__name__) in possible(step.stages) else None)
    assert ("crashed", "CrashedWorker") in possible(step.stages)
