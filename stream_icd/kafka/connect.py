"""Choose the implementation of the port; only this module knows them all."""

from __future__ import annotations

from stream_icd.kafka.port import Broker, Capabilities
from stream_icd.kafka.settings import MEMORY_SCHEME, KafkaSettings


def connect(settings: KafkaSettings) -> Broker:
    """The broker that the settings name; it connects when you open something on it.

    `memory://NAME` is the in-memory broker of that name; others are reached by kafka-python. With a
    `topic_prefix`, all names have it there.

    Raises:
        BrokerUnavailable: no such in-memory broker runs.
    """
    broker = _reached(settings)
    if not settings.topic_prefix:
        return broker
    from stream_icd.kafka.tenant import TenantBroker

    return TenantBroker(broker, settings.topic_prefix)


def _reached(settings: KafkaSettings) -> Broker:
    if settings.bootstrap_servers.startswith(MEMORY_SCHEME):
        from stream_icd.kafka.in_process.broker import MemoryConnection

        return MemoryConnection(settings)
    from stream_icd.kafka.client.broker import ClientBroker

    return ClientBroker(settings)


_SHORT_SESSION_S = 2.0
"""The embedded broker looks once a second whether half a session has passed: here, a second."""


def recognise(settings: KafkaSettings) -> Capabilities:
    """The capabilities of this kind of broker; reads its API versions and writes nothing."""
    with connect(settings).admin() as admin:
        return admin.known_capabilities()


def joining_quickly(settings: KafkaSettings, known: Capabilities) -> KafkaSettings:
    """The settings with which a member soon joins a group of this broker.

    They differ only where joining takes half a session timeout, and nobody has set this.
    """
    if "session_timeout_s" in settings.model_fields_set or known.joins_at_once:
        return settings
    shorter = {
        "session_timeout_s": _SHORT_SESSION_S,
        "heartbeat_interval_s": min(settings.heartbeat_interval_s, _SHORT_SESSION_S / 3),
    }
    return settings.model_copy(update=shorter)
