"""stream_icd: detect communities in a stream of graphs, within seconds of each graph.

The names below are the public API. Each is imported on first use, so that
`from stream_icd import subscribe` does not load the detection code. Other modules may move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stream_icd.core.imports import lazy_imports

if TYPE_CHECKING:
    from stream_icd.commands import programs
    from stream_icd.core import errors
    from stream_icd.core.communities import Communities, Labels
    from stream_icd.core.events import CommunityEvent, CommunityEvents
    from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
    from stream_icd.core.version import __version__ as __version__
    from stream_icd.interfaces.estimator import ICD, NotFitted
    from stream_icd.interfaces.interop.cdlib_result import to_cdlib, to_cdlib_stream
    from stream_icd.interfaces.interop.temporal import temporal_snapshots
    from stream_icd.interfaces.updates import Update
    from stream_icd.kafka.embedded import embedded_broker
    from stream_icd.kafka.in_process.broker import MemoryBroker, memory_broker
    from stream_icd.kafka.publisher import Publisher
    from stream_icd.kafka.reader import open_reader
    from stream_icd.kafka.record import OutgoingRecord, Record
    from stream_icd.kafka.settings import KafkaSettings
    from stream_icd.kafka.topics import create_topics
    from stream_icd.kafka.waiting import Clock
    from stream_icd.methods.bp.evidence import evidence_for
    from stream_icd.methods.graphs.adjacency import as_adjacency
    from stream_icd.methods.memory.detect import Remembered, detect_remembering
    from stream_icd.methods.memory.encoding import decode_memory, encode_memory
    from stream_icd.methods.memory.memory import Memory
    from stream_icd.methods.memory.smoothing import detect_smoothed
    from stream_icd.methods.names import Attributes, Name, NamedWindow, Part, attributes_of, named
    from stream_icd.methods.quality.agreement import nmi
    from stream_icd.methods.synthetic.lfr import LfrSettings, generate_drifting_lfr, generate_lfr
    from stream_icd.methods.tracking.explain import Explanation, explain
    from stream_icd.methods.tracking.explain_community import (
        CommunityExplanation,
        explain_community,
    )
    from stream_icd.sources.node_tables import read_attributes
    from stream_icd.streaming.subscribers.subscribe import (
        NodeChange,
        subscribe,
        subscribe_events,
        subscribe_node,
    )
    from stream_icd.streaming.subscribers.subscription import SubscribeOptions
    from stream_icd.wire.communities import decode_communities
    from stream_icd.wire.snapshots import decode_snapshot, encode_snapshot

__all__ = [
    "ICD",
    "Attributes",
    "Clock",
    "Communities",
    "CommunityEvent",
    "CommunityEvents",
    "CommunityExplanation",
    "Explanation",
    "KafkaSettings",
    "Labels",
    "LfrSettings",
    "Memory",
    "MemoryBroker",
    "Name",
    "NamedWindow",
    "NodeChange",
    "NotFitted",
    "OutgoingRecord",
    "Part",
    "Publisher",
    "Record",
    "Remembered",
    "Snapshot",
    "SubscribeOptions",
    "Update",
    "Window",
    "as_adjacency",
    "attributes_of",
    "create_topics",
    "decode_communities",
    "decode_memory",
    "decode_snapshot",
    "detect_remembering",
    "detect_smoothed",
    "embedded_broker",
    "encode_memory",
    "encode_snapshot",
    "errors",
    "evidence_for",
    "explain",
    "explain_community",
    "generate_drifting_lfr",
    "generate_lfr",
    "memory_broker",
    "named",
    "nmi",
    "open_reader",
    "programs",
    "read_attributes",
    "snapshot_from_pairs",
    "subscribe",
    "subscribe_events",
    "subscribe_node",
    "temporal_snapshots",
    "to_cdlib",
    "to_cdlib_stream",
]

__getattr__, __dir__ = lazy_imports(
    __name__,
    {
        "stream_icd.commands": ("programs",),
        "stream_icd.core": ("errors",),
        "stream_icd.core.communities": ("Communities", "Labels"),
        "stream_icd.core.events": ("CommunityEvent", "CommunityEvents"),
        "stream_icd.core.snapshot": ("Snapshot", "Window", "snapshot_from_pairs"),
        "stream_icd.core.version": ("__version__",),
        "stream_icd.interfaces.estimator": ("ICD", "NotFitted"),
        "stream_icd.interfaces.updates": ("Update",),
        "stream_icd.interfaces.interop.cdlib_result": ("to_cdlib", "to_cdlib_stream"),
        "stream_icd.interfaces.interop.temporal": ("temporal_snapshots",),
        "stream_icd.kafka.embedded": ("embedded_broker",),
        "stream_icd.kafka.in_process.broker": ("MemoryBroker", "memory_broker"),
        "stream_icd.kafka.publisher": ("Publisher",),
        "stream_icd.kafka.reader": ("open_reader",),
        "stream_icd.kafka.record": ("OutgoingRecord", "Record"),
        "stream_icd.kafka.settings": ("KafkaSettings",),
        "stream_icd.kafka.topics": ("create_topics",),
        "stream_icd.kafka.waiting": ("Clock",),
        "stream_icd.methods.bp.evidence": ("evidence_for",),
        "stream_icd.methods.graphs.adjacency": ("as_adjacency",),
        "stream_icd.methods.memory.detect": ("Remembered", "detect_remembering"),
        "stream_icd.methods.memory.encoding": ("decode_memory", "encode_memory"),
        "stream_icd.methods.memory.memory": ("Memory",),
        "stream_icd.methods.memory.smoothing": ("detect_smoothed",),
        "stream_icd.methods.names": (
            "Attributes",
            "Name",
            "NamedWindow",
            "Part",
            "attributes_of",
            "named",
        ),
        "stream_icd.methods.quality.agreement": ("nmi",),
        "stream_icd.methods.synthetic.lfr": (
            "LfrSettings",
            "generate_drifting_lfr",
            "generate_lfr",
        ),
        "stream_icd.methods.tracking.explain": ("Explanation", "explain"),
        "stream_icd.methods.tracking.explain_community": (
            "CommunityExplanation",
            "explain_community",
        ),
        "stream_icd.sources.node_tables": ("read_attributes",),
        "stream_icd.streaming.subscribers.subscribe": (
            "NodeChange",
            "subscribe",
            "subscribe_events",
            "subscribe_node",
        ),
        "stream_icd.streaming.subscribers.subscription": ("SubscribeOptions",),
        "stream_icd.wire.communities": ("decode_communities",),
        "stream_icd.wire.snapshots": ("decode_snapshot", "encode_snapshot"),
    },
)
