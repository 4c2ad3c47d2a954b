"""The GPU benchmark is right at toy size on a processor, and goes on where it stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.train_paper import ARMS, GENERATORS, main
from stream_icd.icd.presets import PRESETS
from stream_icd.registry.find import open_model

TOY = ["GN-0.3", "--toy", "--samples", "3", "--graphs", "10", "--rows", "50"]


def run(folder: Path, *more: str) -> list[dict[str, object]]:
    main([*TOY, "--folder", str(folder), *more])
    lines = (folder / "progress.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_every_arm_trains_and_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(tmp_path, "--epochs", "2")
    seen = [(line["epoch"], line["arm"]) for line in lines]
    assert seen == [(epoch, arm) for epoch in (0, 1, 2) for arm in ARMS]
    assert {line["steps"] for line in lines} == {0, 3, 6}
    assert all(0 < line["validation_nmi"] <= 1 for line in lines)
    printed = capsys.readouterr().out
    for arm in ARMS:
        assert f"{arm:18} test NMI" in printed
        assert (tmp_path / arm / "training.png").exists()
        opened = open_model(str(tmp_path / arm / "model-2"))
        assert opened.model.recipe.schedule.epochs == 2


def test_the_time_budget_ends_it_and_the_next_call_goes_on(tmp_path: Path) -> None:
    lines = run(tmp_path, "--arms", "paper", "--minutes", "0", "--epochs", "5")
    assert [line["epoch"] for line in lines] == [0]
    lines = run(tmp_path, "--arms", "paper", "--epochs", "1")
    assert [line["epoch"] for line in lines] == [0, 1]


def test_every_generated_data_set_of_the_paper_is_there() -> None:
    assert set(GENERATORS) == {name for name in PRESETS if name.startswith(("GN", "L("))}
