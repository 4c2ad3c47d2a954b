"""What is known of a graph between windows: its evidence, its communities, and how far back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_icd.core.arrays import NOBODY, Ids, Labels, n_distinct
from stream_icd.core.communities import MOST_IDS
from stream_icd.core.errors import BadMemory
from stream_icd.core.snapshot import Window, checked_ids
from stream_icd.methods.bp.level_graph import Rows
from stream_icd.methods.bp.posterior import Posterior
from stream_icd.methods.memory.horizon import By, HypothesisKind

MOST_COUNTED = 2**31
"""Maximum of the counts of windows and rounds; windows beyond it are not counted."""

MOST_READ_IDS = MOST_IDS - MOST_COUNTED
"""Maximum of `next_id` in bytes from outside: memory goes on from it, as one window adds fewer."""

COUNTS = ("n_windows", "n_lacking", "credit", "model", "leader", "since")

_MOST_SAVED = 2.0**100
"""Nats that a hypothesis can have saved, less than."""

CERTAIN = 255
"""The share that is 1; shares are multiples of its inverse."""

BEFORE_ALL = Window(datetime.min.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC))
"""The window of a memory without windows: the graph starts anew."""

FAR_IDS = MOST_IDS // 2 + 1
"""The first id of a graph of which it is not known which ids are used up."""

_FAR_IDS_A_MESSAGE = 1 << 14
"""How far these ids rise with each message before: more new communities than messages have, on
average. So they are not used again if that happens to a graph twice."""


@dataclass(frozen=True, slots=True, eq=False)
class Hypothesis:
    """A way to look back, and what it has found.

    labels: `(n_nodes,)` the communities that it found last; `NOBODY` if it says nothing of a node.
    saved: nats that its communities saved on the edges of the windows after each, which count less
        with each window; of the filter, how far it is ahead of the best sum.
    """

    kind: HypothesisKind
    evidence: Rows  # the decayed sum of the windows; its weights have 8 significant bits
    labels: Labels
    saved: float = 0.0
    n_vain: int = 0  # how often it has been followed in vain; of the leader, how often searched
    wait: int = 0  # windows until that happens again


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """What is known of a graph after a window.

    Communities have stable ids: 0, 1, 2, ... over the life of the graph, never reused.

    Attributes:
        nodes: the source's own ids (`node_ids.widened`), `(n_nodes,)`, ascending: of the last
            window, and of earlier ones that are not yet forgotten.
        seen: the nodes that have edges in the last window that does not lack most of those before
            (`nodes`), `(n_nodes,)`; n_lacking: windows since then.
        hypotheses: none before the first window.
    """

    window: Window  # the last one
    nodes: pa.Array
    seen: NDArray[np.bool_]
    posterior: Posterior  # the communities of the hypothesis that leads
    community_ids: Ids  # the stable id of each of its communities, (K,)
    next_id: int  # the first id not yet used, at most `MOST_IDS`
    hypotheses: tuple[Hypothesis, ...] = ()
    leader: int = 0  # which of them leads
    since: int = 0  # for how many windows
    n_windows: int = 1  # since the graph began, or began anew
    n_lacking: int = 0
    credit: int = 0  # nodes that may be remembered for a window beyond their bound (`nodes`)
    model: int = 0  # `BpParameters.checksum` of what the last window was detected with

    @classmethod
    def empty(cls, window: Window, nodes: pa.Array, next_id: int) -> Memory:
        """Return the memory of a graph of which nothing is known but which ids are used up."""
        n_nodes = len(nodes)
        no_ids, seen = np.empty(0, np.int64), np.ones(n_nodes, np.bool_)
        return cls(window, nodes, seen, Posterior.uninformed(n_nodes), no_ids, next_id, n_windows=0)

    @classmethod
    def forgotten(cls, next_id: int) -> Memory:
        """Return the memory of a graph that starts anew: no nodes, but which ids are used up.

        No id may serve two communities, so the next id must be known even if what was remembered is
        lost: the message of a state says it beside its value, and the value says it before its
        table. If neither can be read, ids go on far above those that streams reach (`far_id`).
        """
        return cls.empty(BEFORE_ALL, pa.array([], pa.int64()), next_id)

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", checked_ids(self.nodes))

    def __repr__(self) -> str:
        """In short, for notebooks."""
        return (
            f"<Memory of {self.n_nodes:,} nodes in {len(self.community_ids):,} communities, after "
            f"{self.n_windows:,} windows up to {self.window.end}>"
        )

    def checked(self) -> Memory:
        """Return the memory, read from bytes; raises `BadMemory` if a value is out of range."""
        import pyarrow.compute as pc

        if len(self.nodes) > 1 and not pc.all(pc.less(self.nodes[:-1], self.nodes[1:])).as_py():
            raise BadMemory("the ids of the nodes must ascend, none twice")
        _check_posterior(self.posterior, self.n_nodes)
        for hypothesis in self.hypotheses:
            _check(hypothesis)
        if not 0 <= self.leader < max(len(self.hypotheses), self.n_nodes == 0):
            raise BadMemory(f"hypothesis {self.leader} of {len(self.hypotheses)} leads")
        ids, k = self.community_ids, self.posterior.n_communities
        if not 0 <= self.next_id <= MOST_IDS:
            raise BadMemory(f"next_id must be in 0..{MOST_IDS}, not {self.next_id}")
        if ids.shape != (k,) or n_distinct(ids) < k:
            raise BadMemory(f"{k} communities need one id each, all different")
        if k and not 0 <= ids.min() <= ids.max() < self.next_id:
            raise BadMemory(
                f"community ids must be in 0..{self.next_id - 1} (next_id - 1), not "
                f"{ids.min()}..{ids.max()}"
            )
        for name in COUNTS:
            least = int(name == "n_windows" and self.n_nodes > 0)
            if not least <= (count := getattr(self, name)) <= MOST_COUNTED:
                raise BadMemory(f"{name} must be in {least}..{MOST_COUNTED}, not {count}")
        return self

    @property
    def n_nodes(self) -> int:
        """Number of remembered nodes."""
        return len(self.nodes)

    @property
    def n_bytes(self) -> int:
        """Bytes of its arrays."""
        arrays = [self.seen, self.community_ids, *self.posterior[:2]]
        for hypothesis in self.hypotheses:
            arrays += [hypothesis.labels, *hypothesis.evidence]
        return int(self.nodes.nbytes) + sum(array.nbytes for array in arrays)

    @property
    def leading(self) -> Hypothesis | None:
        """The hypothesis that leads; None before the first window."""
        return self.hypotheses[self.leader] if self.hypotheses else None

    @property
    def horizon(self) -> float:
        """How many windows the evidence is worth that leads: Σ λ^k over the windows seen."""
        decay = self.leading.kind.decay if self.leading else 0.0
        return float((1 - decay**self.n_windows) / (1 - decay))


def far_id(n_messages: int) -> int:
    """Return an id far above those of streams, after so many messages."""
    return min(FAR_IDS + _FAR_IDS_A_MESSAGE * n_messages, MOST_READ_IDS)


def _check(hypothesis: Hypothesis) -> None:
    """Raise `BadMemory` unless all numbers are such as detection leaves."""
    kind, labels = hypothesis.kind, hypothesis.labels
    if kind.by not in get_args(By):
        raise BadMemory(f"there is no hypothesis by {kind.by!r:.80}")
    for name, value in kind._asdict().items():
        if name != "by" and not 0 <= value <= 1 - (name == "decay") * 1e-6:
            raise BadMemory(f"{name} must be in 0..1, not {value}")
    if not abs(hypothesis.saved) < _MOST_SAVED:
        raise BadMemory(f"a hypothesis has saved {hypothesis.saved} nats")
    for name, count in (("n_vain", hypothesis.n_vain), ("wait", hypothesis.wait)):
        if not 0 <= count <= MOST_COUNTED:
            raise BadMemory(f"{name} must be in 0..{MOST_COUNTED}, not {count}")
    if not NOBODY <= labels.min(initial=0) <= labels.max(initial=0) < max(len(labels), 1):
        raise BadMemory("communities must be from 0 to the number of nodes, or none")


def _check_posterior(posterior: Posterior, n_nodes: int) -> None:
    for name, share in {"mixing": posterior.mixing, "stay": posterior.stay}.items():
        if not 0 <= share <= 1:
            raise BadMemory(f"{name} must be in 0..1, not {share}")
    if not 0 < posterior.resolution < float("inf"):
        raise BadMemory(f"resolution must be positive and finite, not {posterior.resolution}")
    labels, k = posterior.communities[:, 0], posterior.n_communities
    if (
        posterior.communities.min(initial=0) < NOBODY
        or k > n_nodes  # before a place is made for each
        or not (np.bincount(labels[labels >= 0], minlength=k) > 0).all()
    ):
        raise BadMemory("communities must be 0..K-1, each the most probable one of a node")
    if (np.rint(posterior.shares * CERTAIN).sum(axis=1) > CERTAIN).any():
        raise BadMemory("the shares of a node must add up to 1 at most")
    if posterior.shares[posterior.communities == NOBODY].any():
        raise BadMemory("there is a share without a community")
    names = np.sort(posterior.communities, axis=1)
    if ((np.diff(names) == 0) & (names[:, 1:] != NOBODY)).any():
        raise BadMemory("a community is named twice for a node")
