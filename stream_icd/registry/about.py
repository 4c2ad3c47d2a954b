"""What a model is for, in a few lines: `about.toml` in its folder, for lists of models."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass

import pyarrow as pa
import tomli_w

from stream_icd.errors import ModelDamaged
from stream_icd.store import Store

ABOUT_FILE, CARD_FILE = "about.toml", "card.md"
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


def write_about(about: About, store: Store) -> None:
    """Write it to a model's folder."""
    store.put(ABOUT_FILE, pa.py_buffer(tomli_w.dumps(asdict(about)).encode()))


def read_about(store: Store) -> About:
    """Read it back; a model without it says nothing.

    Raises:
        ModelDamaged: the file is not TOML, or holds something else.
    """
    if not store.exists(ABOUT_FILE):
        return About()
    try:
        content = store.read(ABOUT_FILE, store.size(ABOUT_FILE)) or b""
        return About(**tomllib.loads(content.decode()))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, TypeError) as error:
        raise ModelDamaged(f"{store.place}/{ABOUT_FILE}: {error}") from error


def read_card(store: Store) -> str:
    """The card for people of the model in a folder, as Markdown.

    Raises:
        ModelDamaged: there is none.
    """
    try:
        return (store.read(CARD_FILE, store.size(CARD_FILE)) or b"").decode()
    except FileNotFoundError as error:
        raise ModelDamaged(f"{store.place} holds no {CARD_FILE}") from error
