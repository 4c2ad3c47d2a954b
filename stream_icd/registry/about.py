"""A short description of a model for lists of models: `about.toml` in its folder."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass

import pyarrow as pa
import tomli_w

from stream_icd.errors import ModelDamaged
from stream_icd.store.store import Store

ABOUT_FILE, CARD_FILE = "about.toml", "card.md"
UNSAID = "not said"

MOST_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class About:
    """A short description of a model, in plain text; at most one sentence per field.

    Attributes:
        purpose: the graphs it is for.
        learned_on: its training data.
        figures: its quality, and on which graphs.
    """

    purpose: str = UNSAID
    learned_on: str = UNSAID
    figures: str = UNSAID


def write_about(about: About, store: Store) -> None:
    """Write the description to a model's folder."""
    store.put(ABOUT_FILE, pa.py_buffer(tomli_w.dumps(asdict(about)).encode()))


def read_about(store: Store) -> About:
    """Read the description from a model's folder; empty if there is none.

    Raises:
        ModelDamaged: the file is not TOML, holds something else, or is too large.
    """
    if not store.exists(ABOUT_FILE):
        return About()
    try:
        values = tomllib.loads(_text(store, ABOUT_FILE))
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
    try:
        return _text(store, CARD_FILE)
    except FileNotFoundError as error:
        raise ModelDamaged(f"{store.place} holds no {CARD_FILE}") from error
    except ValueError as error:
        raise ModelDamaged(f"{store.place}/{CARD_FILE}: {error}") from error


def _text(store: Store, name: str) -> str:
    size = store.size(name)
    if size > MOST_BYTES:
        raise ValueError(f"{size} bytes; at most {MOST_BYTES} are read")
    return (store.read(name, size) or b"").decode()
