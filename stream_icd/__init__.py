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

_MODULES = {
    "__version__": "stream_icd.version",
    "ICD": "stream_icd.estimator",
    "Communities": "stream_icd.communities",
    "CommunityEvent": "stream_icd.events",
    "CommunityEvents": "stream_icd.events",
    "KafkaSettings": "stream_icd.kafka.settings",
    "Labels": "stream_icd.communities",
    "NodeChange": "stream_icd.subscribers.subscribe",
    "Snapshot": "stream_icd.snapshot",
    "SubscribeOptions": "stream_icd.subscribers.subscription",
    "Window": "stream_icd.snapshot",
    "memory_broker": "stream_icd.kafka.in_process.broker",
    "snapshot_from_pairs": "stream_icd.snapshot",
    "subscribe": "stream_icd.subscribers.subscribe",
    "subscribe_events": "stream_icd.subscribers.subscribe",
    "subscribe_node": "stream_icd.subscribers.subscribe",
    "to_cdlib": "stream_icd.interop.cdlib_result",
}

__getattr__ = lazy_imports(__name__, _MODULES)
