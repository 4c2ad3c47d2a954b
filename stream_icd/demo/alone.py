"""Detect the snapshots of a demonstration once more, each alone: what they show without memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

from stream_icd.communities import Communities
from stream_icd.demo.run import DemoRun
from stream_icd.demo.timeline import communities_of
from stream_icd.demo.truth import snapshots
from stream_icd.detection.detect import Method, detect
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.model import Model


def found_alone(
    settings: KafkaSettings, run: DemoRun, model_of: Callable[[str], Model], method: Method = "bp"
) -> Iterator[Communities]:
    """Yield the result of each arrival as it would be without memory.

    Only its communities are found again; all else is that of the arrival.

    Args:
        model_of: returns the model of a version.
    """
    model = cache(model_of)
    arrivals = {one.result["snapshot_id"]: one for one in run.arrivals}
    for snapshot in snapshots(settings):
        if snapshot.id in arrivals:
            before = communities_of(arrivals[snapshot.id])
            found = detect(
                snapshot.adjacency(), model(before.model), snapshot.n_communities, method=method
            )
            yield replace(
                before,
                labels=found.communities,
                community_ids=None,
                replaced=None,
            )
