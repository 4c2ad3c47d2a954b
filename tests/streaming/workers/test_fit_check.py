"""A detector says where a model does not fit the graphs that it is given."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from structlog.testing import capture_logs

from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.registry.find import open_model
from stream_icd.registry.model import VersionedModel
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.detection.snapshot import detect_snapshot, misfit

Checked = set[tuple[str, str]]

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def stars(graph: str, n_stars: int = 12, size: int = 20) -> Snapshot:
    """Mails of offices in which all write to the head: no model of dense communities fits them."""
    heads = np.repeat(np.arange(n_stars), size)
    members = np.arange(n_stars * size) + n_stars
    return snapshot_from_pairs(
        np.concatenate([heads, np.arange(n_stars - 1)]),
        np.concatenate([members, np.arange(1, n_stars)]),
        graph=graph,
        id=f"{graph}/noon",
        window=Window(NOON, NOON),
    )


@pytest.fixture(scope="module")
def too_fine() -> VersionedModel:
    """A model of communities much smaller than those stars."""
    opened = open_model("gn")
    model = replace(opened.model, bp=BpParameters(resolution=64))
    return VersionedModel("fine@1", model)


def warnings_of(checked: Checked, model: VersionedModel, *snapshots: Snapshot) -> list[str]:
    with capture_logs() as logs:
        for snapshot in snapshots:
            detect_snapshot(snapshot, model, DetectSettings(), checked=checked)
    found = [log for log in logs if log["log_level"] == "warning"]
    assert all(log["event"] == "model does not fit" for log in found)
    assert all("models list" in log["advice"] for log in found)
    return [log["graph"] for log in found]


def test_a_model_that_does_not_fit_is_named_once_for_each_graph(too_fine: VersionedModel) -> None:
    checked: Checked = set()
    assert warnings_of(checked, too_fine, stars("a"), stars("a"), stars("b")) == ["a", "b"]


def test_another_model_is_checked_anew(too_fine: VersionedModel) -> None:
    checked: Checked = set()
    assert warnings_of(checked, too_fine, stars("a")) == ["a"]
    other = VersionedModel("fine@2", too_fine.model)
    assert warnings_of(checked, other, stars("a")) == ["a"]


def test_a_model_is_not_checked_on_graphs_that_it_is_proved_on(too_fine: VersionedModel) -> None:
    proved = replace(too_fine, proved_on=frozenset({"a"}))
    assert warnings_of(set(), proved, stars("a"), stars("b")) == ["b"]


def test_the_defaults_fit_everything() -> None:
    assert warnings_of(set(), open_model("as"), stars("a")) == []


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("gn", lambda seed: generate_gn(np.random.default_rng(seed), 1000, 50, p_in=0.5)),
        (
            "lfr",
            lambda seed: generate_lfr(np.random.default_rng(seed), LfrSettings(1000, mixing=0.3)),
        ),
    ],
)
def test_a_model_on_its_own_kind_of_graph_is_not_warned_of(
    name: str, make: Callable[[int], object]
) -> None:
    """Though modularity finds a higher modularity than the model does."""
    for seed in range(3):
        adjacency = make(seed).adjacency()  # type: ignore[attr-defined]
        found = find_communities(adjacency, open_model(name).model.bp)
        assert misfit(adjacency, found) is None


def test_the_reason_gives_both_modularities(too_fine: VersionedModel) -> None:
    adjacency = stars("a").adjacency()
    reason = misfit(adjacency, find_communities(adjacency, too_fine.model.bp))
    assert reason is not None
    assert "bits per edge more" in reason
    assert re.search(r"\(modularity -?0\.\d\d; without a model 0\.\d\d\)", reason)
