"""What a retrainer must remember from run to run: one small file in the registry.

    REGISTRY/retraining/NAME.json

If it is lost, nothing breaks: the retrainer counts windows from the champion's gate on.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from stream_icd.errors import RegistryDamaged
from stream_icd.registry.json_file import read_json, to_json
from stream_icd.store.store import Store

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Scored:
    """How good the champion is in a window.

    Attributes:
        window: its snapshot id.
        evidence: bits per edge; None if the window cannot be read, or takes too long.
        labelled: whether labels were known when it was scored.
        nmi: with these labels, 0..1; None without usable ones.
    """

    window: str
    evidence: float | None
    labelled: bool = False
    nmi: float | None = None


@dataclass(frozen=True, slots=True)
class Begun:
    """A training that began and has not ended: it goes on with the same windows.

    Attributes:
        until: end of the newest window that was archived then.
        reason, since: those of the trigger; see `Due`.
    """

    until: datetime
    reason: str
    since: int | None


@dataclass(frozen=True, slots=True)
class State:
    """The memory of a retrainer.

    Attributes:
        generation: generation of the aliases that it saw last; 0: none.
        attempted_at: when it last learned, whatever came of it; None: never.
        attempted_until: end of the newest window that was archived then.
        watch_from: windows that begin at this time or later show whether the champion keeps its
            promise; None: it is confirmed, or nothing is known of a previous one.
        prove_from: windows that begin at this time or later may prove a challenger; None: all. It
            is the end of the newest window at the last rollback, so that a model that failed is not
            promoted again on the same windows.
        scored: how good the champion is in the windows since the last attempt.
        begun: a training of the encoder that was interrupted; None: none was.
    """

    generation: int = 0
    attempted_at: datetime | None = None
    attempted_until: datetime | None = None
    watch_from: datetime | None = None
    prove_from: datetime | None = None
    scored: tuple[Scored, ...] = ()
    begun: Begun | None = None


def read_state(registry: Store, name: str) -> State:
    """Return the state; that of a new retrainer if there is none, or if it cannot be read."""
    try:
        return read_json(registry, _path(name), State, FORMAT)
    except (FileNotFoundError, RegistryDamaged):
        return State()


def write_state(registry: Store, name: str, state: State) -> None:
    """Write the state.

    Raises:
        StoreUnwritable, StoreUnreachable: see `Store.put`.
    """
    registry.put(_path(name), to_json(State, state, FORMAT))


def _path(name: str) -> str:
    return f"retraining/{name}.json"
