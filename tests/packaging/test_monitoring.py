"""The dashboard and the alerts ask for metrics that exist, and the documents explain each."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from stream_icd.learning.retraining.retrain import OUTCOMES
from stream_icd.streaming.metrics.metrics import Health, Metrics
from stream_icd.streaming.metrics.programs import RoundsHealth, RoundsMetrics

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "monitoring" / "prometheus" / "alerts.yml"
DASHBOARD: dict[str, Any] = json.loads(
    (ROOT / "deploy" / "monitoring" / "grafana" / "dashboards" / "stream_icd.json").read_text(
        "utf-8"
    )
)
ALERTS: list[dict[str, Any]] = yaml.safe_load(RULES.read_text("utf-8"))["groups"][0]["rules"]
METRICS = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
GROUPED = re.compile(
    r"by \(([\w, ]+)\) \((?:\w+\()*(stream_icd_\w+?)(?:_total|_bucket|_sum|_count|_info)?[{\[)]"
)
METRIC = re.compile(r"\b(?:stream_icd|process)_[a-z_]+\b")


def detecting() -> Metrics:
    """The metrics of a detector that starts."""
    metrics = Metrics(Health(3600, 3600))
    metrics.watch("t", "g")
    metrics.model("m@1", "g")
    metrics.follows_champion(lambda: True)
    return metrics


def retraining() -> RoundsMetrics:
    """The metrics of a retrainer that starts."""
    return RoundsMetrics(RoundsHealth(3600), OUTCOMES)


def names() -> set[str]:
    """All series that workers and retrainers serve, with the labels' names left out."""
    found = set()
    for family in (*detecting().registry.collect(), *retraining().registry.collect()):
        endings = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
        endings["info"] = ("_info",)
        found |= {family.name + ending for ending in endings.get(family.type, ("",))}
    return found


def questions() -> dict[str, str]:
    """What panels and alerts ask, by their name."""
    panels = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in DASHBOARD["panels"]
        for target in panel["targets"]
    }
    return {**panels, **{rule["alert"]: rule["expr"] for rule in ALERTS}}


@pytest.mark.parametrize("name", questions())
def test_every_metric_asked_for_exists(name: str) -> None:
    expression = questions()[name]
    asked = set(METRIC.findall(expression))
    assert asked <= names(), asked - names()
    assert asked or "up{" in expression


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


@pytest.mark.parametrize("panel", DASHBOARD["panels"], ids=lambda panel: panel["title"])
def test_every_panel_is_explained(panel: dict[str, Any]) -> None:
    assert panel["description"]


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_every_alert_says_what_is_wrong_and_the_documents_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert {"summary", "description"} == set(rule["annotations"])
    assert f"| `{rule['alert']}` | {rule['labels']['severity']} |" in METRICS


def test_panels_do_not_overlap() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
