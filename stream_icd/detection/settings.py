"""Settings of a detector, and what follows from them and the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from stream_icd.errors import BadSettings
from stream_icd.execution.budget import Budget
from stream_icd.kafka.topics import COMMUNITIES, MEMORY
from stream_icd.messages.claims import MessageReader
from stream_icd.registry.model import VersionedModel

if TYPE_CHECKING:
    from stream_icd.detection.detect import Method
    from stream_icd.memory.horizon import Horizon


@dataclass(frozen=True, slots=True)
class DetectSettings:
    """Settings of a detector worker.

    Attributes:
        topic: where communities are published.
        memory: auto: detect each window with the memory of the graph's last one, with bp only if
            the model's `stay` is above 0; off: detect each alone.
        horizon: how far back each graph looks with memory, in windows; auto: found for each graph;
            off: the last window and beliefs about it.
        memory_topic: where memory is published, with the communities.
        group: the consumer group, which the memory belongs to.
        n_communities: K for snapshots without their own K; None: estimate it.
        method: bp (the default), or icd, the paper's: encode, then K-means.
        threads: cores that one snapshot may use; bp uses one below 50,000 nodes.
        seed: random seed of the clustering; the same seed gives the same communities.
        reader, budget: by default from the environment.
    """

    topic: str = COMMUNITIES
    memory: Literal["auto", "off"] = "off"
    horizon: Horizon = "auto"
    memory_topic: str = MEMORY
    group: str = ""
    n_communities: int | None = None
    method: Method = "bp"
    threads: int = 2
    seed: int = 0
    reader: MessageReader = field(default_factory=MessageReader)
    budget: Budget = field(default_factory=Budget)

    def __post_init__(self) -> None:
        for name in ("n_communities", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise BadSettings(f"{name}={value}; it must be at least 1")
        if self.horizon != "auto":
            from stream_icd.memory.horizon import check_horizon  # it imports detection

            check_horizon(self.horizon)


def has_memory(model: VersionedModel, settings: DetectSettings) -> bool:
    """Return whether windows are detected with the memory of earlier ones."""
    return settings.memory == "auto" and (settings.method == "icd" or model.model.bp.stay > 0)


def result_version(model: VersionedModel, settings: DetectSettings) -> str:
    """Return the version that results are published under; it differs between the two methods."""
    return f"{model.version}-icd" if settings.method == "icd" else model.version
