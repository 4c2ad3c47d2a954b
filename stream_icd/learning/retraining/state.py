"""What a retrainer must remember from run to run: one small file in the registry.

    REGISTRY/retraining/NAME.json

If it is lost, nothing breaks: a champion that was promoted is watched as if it had just been.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

import structlog
from pydantic import AliasChoices, Field

from stream_icd.core.errors import RegistryDamaged
from stream_icd.core.store.store import Store
from stream_icd.learning.retraining.windows import Marks
from stream_icd.registry.json_file import read_json, to_json

_FORMAT = 3


@dataclass(frozen=True, slots=True)
class ScoredWindow:
    """How good the champion is in a window."""

    graph: str
    window: str  # its snapshot id
    # Bits per edge; None if the window cannot be read, or takes too long. "evidence" in format 2.
    hidden_edges: Annotated[
        float | None, Field(validation_alias=AliasChoices("hidden_edges", "evidence"))
    ]
    labelled: bool = False  # whether labels were known when it was scored
    nmi: float | None = None  # with these labels, 0..1

    @property
    def name(self) -> tuple[str, str]:
        return self.graph, self.window


@dataclass(frozen=True, slots=True)
class BegunTraining:
    """A training that has not ended, and goes on with the same windows: those up to the marks.

    `reason` and `since` are those of the trigger (`Due`), which counts the windows that begin after
    `attempted`.
    """

    marks: Marks
    reason: str
    since: int | None
    attempted: Marks = field(default_factory=dict)
    paused: bool = False  # its budget was used up: it goes on with the next trigger


@dataclass(frozen=True, slots=True)
class ComparedWindows:
    """What a watch said of so many windows since the promotion: it compares them once."""

    windows: int
    reason: str


@dataclass(frozen=True, slots=True)
class RetrainerState:
    """The memory of a retrainer.

    Attributes:
        generation_id: of these aliases: a generation that was deleted leaves its number to another
            one. None: not known.
        attempted_at, attempted: when it last learned, whatever came of it, and how far each graph
            had come in the archive then.
        watched: how far each graph had come when the champion was promoted: later windows show
            whether it keeps its promise. None: it is confirmed, or no previous one is known.
        rolled_back: how far each graph had come at the last rollback: only later windows may prove
            a challenger, so that a model that failed is not promoted again on the same windows.
        announced: generation of the aliases up to which all promotions and rollbacks by retrainers
            are announced; None: not known.
    """

    generation: int = 0  # of the aliases that it saw last; 0: none
    generation_id: str | None = None
    attempted_at: datetime | None = None
    attempted: Marks = field(default_factory=dict)
    watched: Marks | None = None
    rolled_back: Marks | None = None
    scored: tuple[ScoredWindow, ...] = ()  # the windows since the last attempt
    begun: BegunTraining | None = None  # a training of the encoder that was interrupted
    compared: ComparedWindows | None = None  # by the watch so far
    announced: int | None = None

    @classmethod
    def read(cls, registry: Store, name: str) -> RetrainerState:
        """That of a new retrainer if there is none, or, with a warning, if it is damaged."""
        try:
            return read_json(registry, _path(name), cls, _FORMAT)
        except FileNotFoundError:
            return cls()
        except RegistryDamaged as error:
            structlog.get_logger().warning("the retrainer begins anew", reason=str(error))
            return cls()

    def write(self, registry: Store, name: str) -> None:
        registry.put(_path(name), to_json(self, _FORMAT))


def _path(name: str) -> str:
    return f"retraining/{name}.json"
