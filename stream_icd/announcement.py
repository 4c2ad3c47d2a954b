"""Announcements about the models of a registry: what was decided, and why."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from stream_icd.lineage import Gate

Kind = Literal["published", "promoted", "rolled back", "refused", "kept"]


@dataclass(frozen=True, slots=True)
class Announcement:
    """One event of a registry. The registry itself holds the truth; an announcement may be lost.

    Attributes:
        kind: `published`: a version was added. `promoted`, `rolled back`: the champion is now
            `version`. `refused`: a detector cannot use `version`. `kept`: a trigger or a gate
            decided to keep the champion for now.
        registry: the registry, as its users name it.
        reason: why, in one sentence, for people.
        by: the program that decided.
        at: when.
        version: the version that it is about; None for `kept` before anything was learned.
        champion: the champion after it; None if there is none.
        generation: of the aliases after it (`registry.aliases`); 0 if there is no champion.
        gate: the comparison that decided, if there was one.
    """

    kind: Kind
    registry: str
    reason: str
    by: str
    at: datetime
    version: str | None = None
    champion: str | None = None
    generation: int = 0
    gate: Gate | None = None

    @property
    def id(self) -> str:
        """Equal for two announcements of one event, such as a repetition after a crash."""
        match self.kind:
            case "published":
                return f"published/{self.version}"
            case "promoted" | "rolled back":
                return f"champion/{self.generation}"
            case "refused":
                return f"refused/{self.version}/{self.generation}"
            case "kept":
                return f"kept/{self.at.isoformat()}"
