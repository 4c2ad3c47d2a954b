"""A decision of a retrainer, as it is logged and announced."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from stream_icd.lineage import Gate

RoundOutcome = Literal[
    "not now", "kept", "promoted", "confirmed", "rolled back", "failed", "first champion"
]
"""`kept`: a challenger was learned and is not better. `failed`: learning failed; the champion
stays."""

OUTCOMES: tuple[RoundOutcome, ...] = get_args(RoundOutcome)


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided, and why.

    Attributes:
        outcome: what was decided.
        reason: why, in one sentence.
        at: when.
        champion: the champion after the decision; empty if there is none.
        challenger: the model that was compared with it; empty if there was none.
        windows: number of archived windows that were looked at.
        until: end of the newest of them; None if there are none.
        labelled: how many of them have labels.
        strayed: labels of windows that the archive does not have.
        ahead: number of windows too far in the future to be used.
        gate: the comparison with all its figures; None if there was none.
        generation: of the aliases that were in force at the decision; 0 if there was no champion.
    """

    outcome: RoundOutcome
    reason: str
    at: datetime
    champion: str = ""
    challenger: str = ""
    windows: int = 0
    until: datetime | None = None
    labelled: int = 0
    strayed: int = 0
    ahead: int = 0
    gate: Gate | None = None
    generation: int = 0
