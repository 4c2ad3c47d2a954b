"""What a model's folder says about it: a short description, a card, and a lineage."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass

import pyarrow as pa
import tomli_w

from stream_icd.errors import ModelDamaged, RegistryDamaged
from stream_icd.lineage import Lineage
from stream_icd.registry.json_file import read_json
from stream_icd.store.store import Store

ABOUT_FILE, CARD_FILE, LINEAGE_FILE = "about.toml", "card.md", "lineage.json"
LINEAGE_FORMAT = 1
UNSAID = "not said"

MOST_BYTES = 2**20


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


def write_about(about: About, store: Store) -> None:
    """Write the description to a model's folder."""
    store.put(ABOUT_FILE, pa.py_buffer(about.to_toml()))


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
    path, size = f"{store.place}/{name}", store.size(name)
    if size > MOST_BYTES:
        raise ModelDamaged(f"{path}: {size} bytes; at most {MOST_BYTES} are read")
    try:
        return (store.read(name, size) or b"").decode()
    except FileNotFoundError as error:
        raise ModelDamaged(f"{store.place} holds no {name}") from error
    except ValueError as error:
        raise ModelDamaged(f"{path}: {error}") from error


def lineage_in(folder: Store) -> Lineage:
    """The lineage of the model in a folder.

    Raises:
        RegistryDamaged: there is none, or it cannot be read.
    """
    try:
        return read_json(folder, LINEAGE_FILE, Lineage, LINEAGE_FORMAT)
    except FileNotFoundError as error:
        raise RegistryDamaged(f"{folder.place} holds no {LINEAGE_FILE}") from error


def proved_on(folder: Store) -> frozenset[str]:
    """The graphs that a model learned from before a gate promoted it.

    These need no further check whether the model fits them. A lineage that is missing or damaged
    proves nothing.
    """
    try:
        lineage = lineage_in(folder)
    except RegistryDamaged:
        return frozenset()
    if lineage.gate is None or not lineage.gate.passed or lineage.data is None:
        return frozenset()
    return frozenset(lineage.data.graphs)
