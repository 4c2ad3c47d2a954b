"""What a retrainer does: its places, when it learns, sizes and rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal
from urllib.parse import quote

from stream_icd.core.errors import BadSettings
from stream_icd.core.printable import shortened
from stream_icd.methods.icd.recipe import EDGES, Recipe
from stream_icd.methods.model import MethodChoice
from stream_icd.streaming.execution.budget import Allowance


@dataclass(frozen=True, slots=True)
class Rules:
    """When a challenger is better; NMI and churn are in 0..1.

    The churn vetoes only a challenger whose gain on hidden edges is at most ten
    margins (`gate._FAR_BETTER`): a champion that finds nothing never changes anything. Raises
    `BadSettings` if a value is out of range.
    """

    margin: float = 0.005  # to exceed on hidden edges, as a fraction of the champion's score
    confidence: float = 0.99  # probability that the gain really exceeds it (one-sided)
    labelled: int = 4  # windows with labels from which NMI counts
    nmi_loss: float = 0.01  # vetoes the challenger
    nmi_gain: float = 0.01  # promotes a challenger as good on hidden edges
    churn_loss: float = 0.1  # rise that vetoes the challenger
    slowdown: float = 10.0  # factor of processor time that vetoes; an encoder costs bp 3 to 8

    def __post_init__(self) -> None:
        if not (self.margin >= 0 and 0.5 < self.confidence < 1 and self.slowdown >= 1):
            raise BadSettings(
                f"margin {self.margin}, confidence {self.confidence}, slowdown {self.slowdown}: "
                "the margin must be at least 0, the confidence above 0.5 and below 1, and the "
                "slowdown at least 1"
            )


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many windows to use; raises `BadSettings` if a number is out of range."""

    newest: int = 6  # to learn from, directly before those that prove
    older: int = 2  # to learn from, drawn at random from all earlier ones
    prove: int = 8  # the newest of all, which nothing is learned from
    least: int = 3  # fewest to learn from, also after a change of the law

    def __post_init__(self) -> None:
        if not (1 <= self.least <= self.newest and self.older >= 0 and self.prove >= 4):
            raise BadSettings(
                f"{self}: need 1 <= least <= newest, older of at least 0, and prove of at least 4"
            )


_BUDGET = Allowance(seconds=1800.0, memory_bytes=4 << 30)
"""For each job of a retraining, unless another is given."""

_MOST_LOOKED_AT = 10_000
"""Maximum of `most_windows`: what is known of each window is in one small file (`state`)."""

_MOST_NAME = 200
"""Bytes of a name, as in a URL: files of the registry have names of at most 255."""

_LEARNED = Recipe(name="retrained", encoder=EDGES)
"""Learns the encoder `edges`, unless another recipe is given."""


@dataclass(frozen=True, slots=True)
class Retraining:
    """Settings of a retrainer. It learns when one of `every_windows`, `every` and `drift` says so.

    Raises `BadSettings` if the name or a number is out of range.
    """

    archive: str  # a path or a URI
    name: str = "retrained"  # of the models that it learns, and of its state in the registry
    first: str = "default"  # champion of an empty registry: a shipped model, a path or a URI
    graph: str | None = None  # learn from this graph only
    every_windows: int | None = None  # new ones
    every: timedelta | None = None
    drift: bool = True  # of scores
    sizes: Sizes = field(default_factory=Sizes)
    rules: Rules = field(default_factory=Rules)
    budget: Allowance = _BUDGET
    # To look at, the newest ones: it bounds time and memory, also of a long archive.
    most_windows: int = 1000
    watch: int = 8  # windows after a swap that must confirm the new champion
    encoder: Recipe = _LEARNED  # says which encoder is learned, and how
    method: MethodChoice = "auto"  # of the detectors that use the models
    memory: Literal["auto", "off"] = "auto"  # of these detectors
    seed: int = 0
    threads: int = 1

    def __post_init__(self) -> None:
        is_plain = self.name.replace("-", "").replace("_", "").isalnum()
        if not is_plain or len(quote(self.name)) > _MOST_NAME:  # that of a folder in a registry
            raise BadSettings(
                f"name {shortened(self.name)!r}: use letters, digits, - and _, in a URL at most "
                f"{_MOST_NAME} characters"
            )
        is_rare = self.every_windows is None or self.every_windows >= 1
        is_long = self.every is None or self.every > timedelta(0)
        if not (is_rare and is_long):
            raise BadSettings(
                f"every {self.every_windows} windows, or every {self.every}: give windows of at "
                "least 1 and a period above 0"
            )
        least = self.sizes.prove + self.sizes.least
        if not least <= self.most_windows <= _MOST_LOOKED_AT:
            raise BadSettings(
                f"most_windows {self.most_windows} must be from {least} to {_MOST_LOOKED_AT}"
            )
        if not 1 <= self.watch <= self.most_windows:
            raise BadSettings(f"watch {self.watch} must be from 1 to {self.most_windows}")
