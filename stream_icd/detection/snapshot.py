"""The communities of one snapshot, with their quality."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.bp.evidence import evidence_for
from stream_icd.communities import Communities, MemoryUse, kind_of_memory, revision_of
from stream_icd.detection.detect import detect, finding, stage_ms
from stream_icd.detection.fit_check import FitCheck
from stream_icd.detection.remembering import Remembering
from stream_icd.detection.settings import DetectSettings, result_version
from stream_icd.memory.changes import Moved
from stream_icd.memory.detect import Remembered
from stream_icd.quality.cuts import community_weights, modularity_by, ncut_by
from stream_icd.registry.shipped import VersionedModel
from stream_icd.snapshot import Snapshot
from stream_icd.times import utc_now


def detect_snapshot(
    snapshot: Snapshot,
    model: VersionedModel,
    settings: DetectSettings,
    clock: Callable[[], datetime] = utc_now,
    fit_check: FitCheck | None = None,
    memory: Remembering | None = None,
) -> Communities:
    """Return the communities of one snapshot (paper, algorithm 4), with their quality.

    K is the snapshot's own, else the settings' (at most the number of nodes), else estimated from
    the graph.

    Args:
        fit_check: warns if the model does not fit the graph; None: no check.
        memory: of earlier windows; None: detect without memory.
    """
    started = perf_counter()
    adjacency = snapshot.adjacency()
    prepared = perf_counter() - started
    k = snapshot.n_communities or settings.n_communities
    at_most = None if k is None else min(k, snapshot.n_nodes)
    if memory is not None:
        spent: dict[str, float] = {}
        find = finding(
            settings.method,
            model.model,
            seed=settings.seed,
            threads=settings.threads,
            spent=spent,
        )
        remembered, use = memory.detect(
            snapshot,
            adjacency,
            model.model,
            at_most,
            settings.horizon,
            find,
            settings.seed,
            settings.threads,
        )
        found = remembered_labels(remembered, use, spent)
    else:
        detection = detect(
            adjacency,
            model.model,
            at_most,
            method=settings.method,
            seed=settings.seed,
            threads=settings.threads,
        )
        found = Labelling(detection.communities, detection.milliseconds)
    if fit_check is not None and settings.method == "bp":
        fit_check.check(snapshot.graph, model, adjacency, found.labels, k, settings.seed)
    found.milliseconds["decode"] = 1000 * prepared
    return communities_with(found, snapshot, adjacency, model, settings, clock)


@dataclass(frozen=True, slots=True, eq=False)
class Labelling:
    """The labels of one snapshot, and how they were found; see `Communities`."""

    labels: NDArray[np.int32]
    milliseconds: dict[str, float]
    community_ids: NDArray[np.int64] | None = None
    replaced: NDArray[np.int64] | None = None
    memory: MemoryUse | None = None
    horizon: float | None = None
    predicted_bits: float | None = None
    moved: Moved | None = None


def remembered_labels(
    remembered: Remembered, use: MemoryUse, spent: Mapping[str, float] | None = None
) -> Labelling:
    """Return the labels that were found with memory; see `stage_ms`."""
    return Labelling(
        remembered.communities,
        stage_ms(remembered.milliseconds, spent),
        remembered.community_ids,
        remembered.replaced,
        use,
        remembered.horizon,
        remembered.predicted_bits,
        remembered.moved,
    )


def communities_with(
    found: Labelling,
    snapshot: Snapshot,
    adjacency: csr_array,
    model: VersionedModel,
    settings: DetectSettings,
    clock: Callable[[], datetime] = utc_now,
) -> Communities:
    """Return the communities with these labels, and their quality."""
    k = snapshot.n_communities or settings.n_communities
    evidence = evidence_for(adjacency, found.labels, settings.seed)
    weights = community_weights(adjacency, found.labels)
    return Communities(
        graph=snapshot.graph,
        snapshot_id=snapshot.id,
        window=snapshot.window,
        nodes=snapshot.nodes,
        labels=found.labels,
        n_edges=snapshot.n_edges,
        model=result_version(model, settings),
        modularity=modularity_by(weights),
        ncut=ncut_by(weights),
        milliseconds=found.milliseconds,
        detected_at=clock(),
        revision=revision_of(
            snapshot.content, k, settings.seed, kind_of_memory(found.memory), settings.horizon
        ),
        content=snapshot.content,
        k_given=k,
        seed=settings.seed,
        evidence=evidence.strength,
        bits_saved=evidence.bits_saved,
        community_ids=found.community_ids,
        replaced=found.replaced,
        memory=found.memory,
        horizon=found.horizon,
        predicted_bits=found.predicted_bits,
        moved=None if found.moved is None else found.moved.pairs,
        moved_bits=None if found.moved is None else found.moved.bits,
    )
