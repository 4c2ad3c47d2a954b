"""stream_icd: detect communities in a stream of graphs, within seconds of each graph.

The names below are the public API. Each is imported on first use, so that
`from stream_icd import subscribe` does not load the detection code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stream_icd.imports import lazy_imports

if TYPE_CHECKING:
    from stream_icd.communities import Communities, Labels
    from stream_icd.estimator import ICD
    from stream_icd.events import CommunityEvent, CommunityEvents
    from stream_icd.interop.cdlib_result import to_cdlib
    from stream_icd.kafka.in_process.broker import memory_broker
    from stream_icd.kafka.settings import KafkaSettings
    from stream_icd.snapshot import Snapshot, Window, snapshot_from_pairs
    from stream_icd.subscribers.subscribe import (
        NodeChange,
        subscribe,
        subscribe_events,
        subscribe_node,
    )
    from stream_icd.subscribers.subscription import SubscribeOptions
    from stream_icd.version import __version__ as __version__

__all__ = [
    "ICD",
    "Communities",
    "CommunityEvent",
    "CommunityEvents",
    "KafkaSettings",
    "Labels",
    "NodeChange",
    "Snapshot",
    "SubscribeOptions",
    "Window",
    "memory_broker",
    "snapshot_from_pairs",
    "subscribe",
    "subscribe_events",
    "subscribe_node",
    "to_cdlib",
]

__getattr__, __dir__ = lazy_imports(
    __name__,
    {
        "stream_icd.communities": ("Communities", "Labels"),
        "stream_icd.estimator": ("ICD",),
        "stream_icd.events": ("CommunityEvent", "CommunityEvents"),
        "stream_icd.interop.cdlib_result": ("to_cdlib",),
        "stream_icd.kafka.in_process.broker": ("memory_broker",),
        "stream_icd.kafka.settings": ("KafkaSettings",),
        "stream_icd.snapshot": ("Snapshot", "Window", "snapshot_from_pairs"),
        "stream_icd.subscribers.subscribe": (
            "NodeChange",
            "subscribe",
            "subscribe_events",
            "subscribe_node",
        ),
        "stream_icd.subscribers.subscription": ("SubscribeOptions",),
        "stream_icd.version": ("__version__",),
    },
)
