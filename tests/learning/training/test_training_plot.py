"""A training can be looked at."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.image
import pytest

from stream_icd.core.errors import MissingExtra
from stream_icd.learning.training.icd.epochs import Epoch, History, draw_training

LOSSES = {"discriminator": 1.4, "adversarial": 0.7, "reconstruction": 5.0, "regularisation": -3.0}


def history(*scores: float) -> History:
    return tuple(Epoch(n, s, LOSSES if n else {}, 1.0) for n, s in enumerate(scores))


def test_the_picture_shows_what_happened_in_the_format_of_its_name(tmp_path: Path) -> None:
    for name, scores in (("up", (0.5, 0.7, 0.9)), ("untrained", (0.5,))):
        draw_training(history(*scores), tmp_path / f"{name}.png", "toy")
    up, untrained = (
        matplotlib.image.imread(tmp_path / f"{name}.png") for name in ("up", "untrained")
    )
    assert up.shape == untrained.shape
    assert up.std() > 0.05
    assert (up != untrained).any()
    draw_training(history(0.5, 0.6), tmp_path / "training.svg")
    assert (tmp_path / "training.svg").read_bytes().startswith(b"<?xml")


def test_without_matplotlib_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in ("matplotlib", "matplotlib.backends.backend_agg", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, part, None)
    with pytest.raises(MissingExtra, match=r"pip install 'stream-icd\[plot\]'"):
        draw_training(history(0.5), tmp_path / "training.png")
