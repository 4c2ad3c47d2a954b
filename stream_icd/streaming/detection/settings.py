"""Settings of a detector, wherever it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from stream_icd.core.errors import BadSettings
from stream_icd.core.snapshot import Snapshot
from stream_icd.kafka.messages.claims import MessageReader
from stream_icd.kafka.topics import COMMUNITIES, MEMORY
from stream_icd.methods.model import MethodChoice
from stream_icd.registry.model import VersionedModel
from stream_icd.streaming.execution.budget import Budget

if TYPE_CHECKING:
    from stream_icd.methods.bp.known import Known
    from stream_icd.methods.memory.horizon import Horizon


@dataclass(frozen=True, slots=True)
class DetectSettings:
    """Settings of a detector worker.

    Attributes:
        memory: auto: detect each window with the memory of the graph's last one, with bp only if
            the model's `stay` is above 0; off: detect each alone.
        horizon: how far back each graph looks with memory, in windows; auto: found for each graph;
            off: the last window and beliefs about it.
        known: communities of some nodes, by graph. K of these graphs is determined, whatever their
            snapshots say.
        follows_known: whether each relay brings these instead, since they may change.
    """

    topic: str = COMMUNITIES  # where communities are published
    memory: Literal["auto", "off"] = "off"
    horizon: Horizon = "auto"
    memory_topic: str = MEMORY  # where memory is published, with the communities
    group: str = ""  # the consumer group, which the memory belongs to
    n_communities: int | None = None  # K for snapshots without their own K; None: estimate it
    known: Mapping[str, Known] = field(default_factory=dict)
    follows_known: bool = False
    levels: bool = False  # whether results say which communities are one on further levels
    method: MethodChoice = "auto"  # the model's own, bp, or icd, the paper's: encode, then K-means
    threads: int = 2  # cores that one snapshot may use; bp uses one below 50,000 nodes
    seed: int = 0  # of the clustering; the same seed gives the same communities
    reader: MessageReader = field(default_factory=MessageReader)  # by default from the environment
    budget: Budget = field(default_factory=Budget)

    def __post_init__(self) -> None:
        for name in ("n_communities", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise BadSettings(f"{name}={value}; it must be at least 1")
        if self.known and self.n_communities is not None:
            raise BadSettings(
                f"n_communities={self.n_communities} beside known communities, with which K is "
                "determined: leave one of them out"
            )
        if self.horizon != "auto":
            from stream_icd.methods.memory.horizon import check_horizon  # it imports detection

            check_horizon(self.horizon)

    def k_of(self, snapshot: Snapshot) -> int | None:
        """Return K of a snapshot: its own, else that of the settings; None to determine it."""
        if snapshot.graph in self.known:
            return None
        return snapshot.n_communities or self.n_communities

    def version_of(self, model: VersionedModel) -> str:
        """Return the version that results are published under; it differs between the methods.

        It says which method is used, not whether it was asked for.
        """
        method = model.model.method_for(self.method)
        return f"{model.version}-icd" if method == "icd" else model.version
