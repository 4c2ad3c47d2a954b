"""What a model is for, in a few lines: `about.toml` in its folder, for lists of models."""

from __future__ import annotations

import os
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path

import tomli_w

from stream_icd.errors import ModelDamaged

ABOUT_FILE = "about.toml"
UNSAID = "not said"


@dataclass(frozen=True, slots=True)
class About:
    """A model in a few words; plain text, a sentence at the most.

    Attributes:
        purpose: what graphs it is for.
        learned_on: what it learned from.
        figures: how good it is, and on what.
    """

    purpose: str = UNSAID
    learned_on: str = UNSAID
    figures: str = UNSAID


def write_about(about: About, folder: str | os.PathLike[str]) -> None:
    """Write it to a model's folder."""
    Path(folder, ABOUT_FILE).write_text(tomli_w.dumps(asdict(about)), encoding="utf-8")


def read_about(folder: str | os.PathLike[str]) -> About:
    """Read it back; a model without it says nothing.

    Raises:
        ModelDamaged: the file is not TOML, or holds something else.
    """
    path = Path(folder, ABOUT_FILE)
    if not path.is_file():
        return About()
    try:
        return About(**tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, TypeError) as error:
        raise ModelDamaged(f"{path}: {error}") from error
