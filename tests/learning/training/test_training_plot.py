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


def test_the_picture_shows_what_happened(tmp_path: Path) -> None:
    for name, scores in (("up", (0.5, 0.7, 0.9)), ("down", (0.9, 0.7, 0.5))):
        draw_training(history(*scores), tmp_path / f"{name}.png", "toy")
    up, down = (matplotlib.image.imread(tmp_path / f"{name}.png") for name in ("up", "down"))
    assert up.shape == down.shape
    assert up.std() > 0.05
    assert (up != down).any()


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_the_ending_names_the_format(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"training.{ending}"
    draw_training(history(0.5, 0.6), path)
    start = path.read_bytes()[:4]
    assert start == {"png": b"\x89PNG", "svg": b"<?xm", "pdf": b"%PDF"}[ending]


def test_an_untrained_model_can_be_drawn_too(tmp_path: Path) -> None:
    draw_training(history(0.5), tmp_path / "untrained.png")
    assert matplotlib.image.imread(tmp_path / "untrained.png").std() > 0.01


def test_without_matplotlib_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in ("matplotlib", "matplotlib.backends.backend_agg", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, part, None)
    with pytest.raises(MissingExtra, match=r"pip install 'stream-icd\[plot\]'"):
        draw_training(history(0.5), tmp_path / "training.png")
