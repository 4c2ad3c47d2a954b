"""The communities of one snapshot, alone or with memory of earlier windows, with their quality."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import structlog
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.core.arrays import NOBODY, Ids
from stream_icd.core.communities import Communities, MemoryUse, revision_of
from stream_icd.core.errors import BadMemory, BadSettings, LimitExceeded
from stream_icd.core.node_ids import change_of_kind
from stream_icd.core.snapshot import Snapshot
from stream_icd.core.times import too_far_ahead, utc_now
from stream_icd.kafka.messages.records import outgoing
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.methods.bp.evidence import evidence_for
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.level_graph import finest_level
from stream_icd.methods.bp.levels import levels_of
from stream_icd.methods.bp.memberships import Memberships
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.weights import comparable
from stream_icd.methods.memory.detect import Remembered, detect_remembering
from stream_icd.methods.memory.encoding import decode_memory, encode_memory
from stream_icd.methods.memory.memory import BEFORE_ALL, Memory
from stream_icd.methods.memory.nodes import cut
from stream_icd.methods.memory.recent import RecentMemories
from stream_icd.methods.model import Model
from stream_icd.methods.quality.partition import (
    CommunityWeights,
    description_length,
    modularity,
)
from stream_icd.registry.model import VersionedModel
from stream_icd.streaming.detection.detect import detect, finding, stage_ms
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.work import Relay
from stream_icd.wire.states import MemoryState, encode_state

_BITS_WORSE = 0.1
"""A model does not fit if its description of a graph is longer by this, in bits per edge."""

_MOST_GRAPHS = 100
"""Maximum number of graphs that are checked; later graphs are rarely of a new kind."""

_DIGITS = 2
"""Decimals of a published probability. Memory keeps 1/255; more would not compress."""

_CAUTION = 0.9
"""How much of its share a memory that is too large keeps: its bytes follow its nodes roughly."""


def detect_snapshot(
    snapshot: Snapshot,
    model: VersionedModel,
    settings: DetectSettings,
    checked: set[tuple[str, str]] | None = None,
    memory: SnapshotMemory | None = None,
    decode_ms: float = 0.0,
    place: str = "",
) -> Communities:
    """Return the communities of one snapshot (paper, algorithm 3), with their quality.

    K is the snapshot's own, else the settings' (at most the number of nodes), else estimated from
    the graph, as it is if communities of its nodes are known.

    Args:
        checked: graphs, each with a model, for which it was checked whether the model fits, as a
            graph's first snapshot is; None: nothing is checked.
        memory: of earlier windows; None: detect without memory.
        decode_ms: how long it took to fetch the snapshot.
        place: `PARTITION@OFFSET` of the snapshot, if it was read from a topic.
    """
    started = perf_counter()
    adjacency = snapshot.adjacency()
    decode_ms += 1000 * (perf_counter() - started)
    k = settings.k_of(snapshot)
    at_most = None if k is None else min(k, snapshot.n_nodes)
    if memory is None:
        detection = detect(
            adjacency,
            model.model,
            at_most,
            method=settings.method,
            seed=settings.seed,
            threads=settings.threads,
            **_known_in(snapshot, settings),
        )
        labels, milliseconds, remembered = detection.communities, detection.milliseconds, None
        memberships = detection.memberships
    else:
        spent: dict[str, float] = {}
        remembered = memory.detect(snapshot, adjacency, model.model, at_most, spent)
        labels, memberships = remembered[0].communities, None
        milliseconds = stage_ms(remembered[0].milliseconds, spent)
    is_new = checked is not None and _is_new(snapshot.graph, model, checked)
    # To compare takes as long as to detect it once more.
    if (
        is_new
        and model.model.method_for(settings.method) == "bp"
        and (reason := misfit(adjacency, labels, k, settings.seed))
    ):
        structlog.get_logger().warning(
            "model does not fit",
            graph=snapshot.graph,
            model=model.version,
            reason=reason,
            advice="stream-icd models list shows others; stream-icd train learns one for it",
        )
    milliseconds["decode"] = decode_ms
    return communities_with(
        labels, milliseconds, snapshot, adjacency, model, settings, remembered, place, memberships
    )


def _known_in(snapshot: Snapshot, settings: DetectSettings) -> dict[str, Any]:
    if (of_graph := settings.known.get(snapshot.graph)) is None:
        return {}
    of_nodes = of_graph.of(snapshot.nodes)
    return {"known": of_nodes.labels, "fixed": of_nodes.fixed} if len(of_nodes.present) else {}


def _is_new(graph: str, model: VersionedModel, checked: set[tuple[str, str]]) -> bool:
    """Whether to check that the model fits the graph; adds both to what was `checked`.

    It is proved to fit some graphs (`VersionedModel.proved_on`), so a champion that the gate
    promoted has no slower first snapshot.
    """
    pair, bp = (graph, model.version), model.model.bp
    if graph in model.proved_on or pair in checked or len(checked) >= _MOST_GRAPHS:
        return False
    checked.add(pair)
    return bp != BpParameters() and not bp.search  # there is a model, and it has not compared yet


def misfit(
    adjacency: csr_array,
    communities: NDArray[np.int32],
    n_communities: int | None = None,
    seed: int = 0,
) -> str | None:
    """Return why these communities are worse than those of the defaults; None if they are not.

    Compares description lengths, since modularity prefers communities that maximise modularity
    even where a model's are right.
    """
    plain = find_communities(adjacency, BpParameters(), n_communities, seed=seed)
    weighed = comparable(adjacency)
    bits, plain_bits = (description_length(weighed, labels) for labels in (communities, plain))
    if bits <= plain_bits + _BITS_WORSE:
        return None
    return (
        f"its communities need {bits - plain_bits:.2f} bits per edge more to describe this graph "
        f"than those found without a model (modularity {modularity(adjacency, communities):.2f}; "
        f"without a model {modularity(adjacency, plain):.2f})"
    )


def communities_with(
    labels: NDArray[np.int32],
    milliseconds: dict[str, float],
    snapshot: Snapshot,
    adjacency: csr_array,
    model: VersionedModel,
    settings: DetectSettings,
    remembered: tuple[Remembered, MemoryUse] | None = None,
    place: str = "",
    memberships: Memberships | None = None,
) -> Communities:
    """Return the communities with these labels, and their quality.

    `remembered` is what was found with memory, and what memory contributed; `memberships` is known
    without it.
    """
    k, of_known = settings.k_of(snapshot), settings.known.get(snapshot.graph)
    memory, use = remembered or (None, None)
    evidence = evidence_for(adjacency, labels)
    weights = CommunityWeights.of(adjacency, labels)
    optional: dict[str, Any] = {}
    if memory is not None:
        optional = _found_with(memory)
    elif memberships is not None:
        optional["probabilities"] = memberships.probabilities.round(_DIGITS)
    if settings.levels:
        optional["levels"] = _levels(adjacency, labels, model, memory)
    return Communities(
        graph=snapshot.graph,
        snapshot_id=snapshot.id,
        window=snapshot.window,
        nodes=snapshot.nodes,
        labels=labels,
        n_edges=snapshot.n_edges,
        model=settings.version_of(model),
        modularity=weights.modularity(),
        ncut=weights.ncut(),
        milliseconds=milliseconds,
        detected_at=utc_now(),
        revision=revision_of(
            snapshot.content,
            k,
            settings.seed,
            "smoothed" if use == "smoothed" else "memory" if use else "none",
            settings.horizon,
            "" if of_known is None else of_known.digest,
            settings.levels,
        ),
        content=snapshot.content,
        k_given=k,
        seed=settings.seed,
        snapshot_place=place,
        evidence=evidence.strength,
        bits_saved=evidence.bits_saved,
        memory=use,
        **optional,
    )


def _found_with(memory: Remembered) -> dict[str, Any]:
    optional: dict[str, Any] = {}
    own, ids, second = memory.probabilities, memory.second_ids, memory.second_probabilities
    if own is not None and ids is not None and second is not None:
        second = second.round(_DIGITS)
        optional = {
            "probabilities": own.round(_DIGITS),
            # After rounding: a community whose probability is 0 then is not named.
            "second_ids": np.where(second > 0, ids, NOBODY),
            "second_probabilities": second,
        }
    return {
        **optional,
        "community_ids": memory.community_ids,
        "replaced": memory.replaced,
        "horizon": memory.horizon,
        "horizon_for": memory.memory.since or None,
        "predicted_bits": memory.predicted_bits,
        "moved": None if memory.moved is None else memory.moved.pairs,
        "moved_bits": None if memory.moved is None else memory.moved.bits,
    }


def _levels(
    adjacency: csr_array,
    labels: NDArray[np.int32],
    model: VersionedModel,
    memory: Remembered | None,
) -> Ids:
    if memory is not None:
        return memory.levels.ancestors(memory.community_ids)
    graph = finest_level(comparable(adjacency, model.model.bp.weight_exponent))
    return levels_of(graph, labels, "above").ancestors(np.arange(int(labels.max()) + 1))


@dataclass(slots=True)
class SnapshotMemory:
    """The memory for one snapshot: before it, and after it (None: the snapshot changes nothing)."""

    relay: Relay
    settings: DetectSettings
    recent: RecentMemories
    before: Memory | None = None
    after: Memory | None = None

    @property
    def is_used(self) -> bool:
        """Whether a failure may be due to what is remembered."""
        return self.before is not None and self.before.window != BEFORE_ALL

    def detect(
        self,
        snapshot: Snapshot,
        adjacency: csr_array,
        model: Model,
        n_communities: int | None,
        spent: dict[str, float],
    ) -> tuple[Remembered, MemoryUse]:
        """Return the communities, and what memory contributed; for `spent`, see `finding`."""
        method, seed, threads = self.settings.method, self.settings.seed, self.settings.threads
        if (encoded := self.relay.memory) is not None:
            self.before = self._read(snapshot.graph, encoded)
            if warning := change_of_kind(self.before.nodes, snapshot.nodes):
                structlog.get_logger().warning(warning, graph=snapshot.graph, snapshot=snapshot.id)
        remembered = detect_remembering(
            snapshot,
            model,
            self.before,
            n_communities,
            horizon=self.settings.horizon,
            known=self.settings.known.get(snapshot.graph),
            levels="above" if self.settings.levels else "none",
            find=finding(method, model, seed=seed, threads=threads, spent=spent),
            seed=seed,
            threads=threads,
            adjacency=adjacency,
        )
        # A window of the far future would make all later ones late.
        if remembered.memory is self.before or too_far_ahead(snapshot.window, utc_now()):
            return remembered, "late"
        self.after = remembered.memory
        if self.before is None:
            return remembered, "first"
        if self.before.window == BEFORE_ALL:
            return remembered, "anew"
        if remembered.damaged:
            return remembered, "damaged"
        return remembered, "continued" if remembered.n_continued else "broken"

    def hand_on(self, communities: Communities) -> OutgoingRecord | None:
        """Hand on the memory after the snapshot; return its message, None if it changes nothing.

        It is cut until it fits into its topic. What is handed on is what is published, so that
        results do not depend on when a detector starts again.

        Raises:
            BadSettings: its topic has no room for any memory.
        """
        if self.after is None:
            return None
        record = self._message(communities, self.after)
        while (size := record.size_as_sent) > self.relay.most_bytes and self.after.n_nodes:
            n_nodes = int(_CAUTION * self.after.n_nodes * self.relay.most_bytes / size)
            structlog.get_logger().warning(
                "memory is too large for its topic, and is cut",
                graph=communities.graph,
                bytes=size,
                most=self.relay.most_bytes,
                nodes=self.after.n_nodes,
                kept=n_nodes,
            )
            self.after = cut(self.after, n_nodes)
            record = self._message(communities, self.after)
        if size > self.relay.most_bytes:  # without its ids, later windows would give them again
            raise BadSettings(
                f"memory without any node takes {size} bytes, above the limit of "
                f"{self.relay.most_bytes:.0f} of its topic {self.settings.memory_topic!r}: raise "
                "the topic's max.message.bytes and STREAM_ICD_MAX_MESSAGE_BYTES, set "
                "STREAM_ICD_CLAIMS_URI, or detect with --memory off"
            )
        encoded = record.value or b""
        self.recent.put(communities.graph, encoded, self.after)
        self.relay.memory = encoded
        return record

    def _read(self, graph: str, encoded: bytes) -> Memory:
        memory = self.recent.get(graph, encoded)
        if memory is None:
            try:
                memory = decode_memory(encoded, self.settings.reader.limits)
            # As bad memory: the snapshot itself is within the limits, and must not be refused.
            except LimitExceeded as error:
                raise BadMemory(str(error)) from error
        if too_far_ahead(memory.window, utc_now()):
            raise BadMemory(
                f"the last window ends at {memory.window.end}, too far in the future: all windows "
                "would be late"
            )
        return memory

    def _message(self, communities: Communities, memory: Memory) -> OutgoingRecord:
        state = MemoryState(
            group=self.settings.group,
            graph=communities.graph,
            snapshot_id=communities.snapshot_id,
            window=communities.window,
            model=communities.model,
            revision=communities.revision,
            snapshot_place=communities.snapshot_place,
            value=encode_memory(memory),
            next_id=memory.next_id,
            is_first=self.before is None,
        )
        return outgoing(self.settings.memory_topic, encode_state(state))
