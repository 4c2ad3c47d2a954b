"""What a model's folder says about it to people: a short description, and a card."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass

import tomli_w

from stream_icd.errors import ModelDamaged
from stream_icd.registry.model import read_file
from stream_icd.store.store import Store

ABOUT_FILE, CARD_FILE = "about.toml", "card.md"
UNSAID = "not said"


@dataclass(frozen=True, slots=True)
class About:
    """A short description for lists of models, in plain text, at most a sentence each.

    It says which graphs the model is for, what it learned from, and how good it is on which graphs.
    """

    purpose: str = UNSAID
    learned_on: str = UNSAID
    figures: str = UNSAID

    def to_toml(self) -> bytes:
        """The content of `about.toml`."""
        return tomli_w.dumps(asdict(self)).encode()


def read_about(store: Store) -> About:
    """Read the description from a model's folder; empty if there is none.

    Raises:
        ModelDamaged: the file is not TOML, holds something else, or is too large.
    """
    if not store.exists(ABOUT_FILE):
        return About()
    text = _text(store, ABOUT_FILE)
    try:
        values = tomllib.loads(text)
        about = About(**values)
    except (ValueError, TypeError, RecursionError) as error:
        raise ModelDamaged(f"{store.place}/{ABOUT_FILE}: {error}") from error
    if not all(isinstance(value, str) for value in values.values()):
        raise ModelDamaged(f"{store.place}/{ABOUT_FILE}: its values must be texts")
    return about


def read_card(store: Store) -> str:
    """The model card in a folder, as Markdown.

    Raises:
        ModelDamaged: there is no card, or it is too large or not UTF-8.
    """
    return _text(store, CARD_FILE)


def _text(store: Store, name: str) -> str:
    try:
        return read_file(store, name).decode()
    except UnicodeDecodeError as error:
        raise ModelDamaged(f"{store.place}/{name}: {error}") from error
