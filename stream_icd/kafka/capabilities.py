"""Find out what the broker guarantees; not every Kafka-protocol broker gives all guarantees."""

from __future__ import annotations

from stream_icd.kafka.connect import connect
from stream_icd.kafka.port.broker import Capabilities
from stream_icd.kafka.settings import KafkaSettings

SHORT_SESSION_S = 3.0


def recognise(settings: KafkaSettings) -> Capabilities:
    """The capabilities of this kind of broker; reads its API versions and writes nothing."""
    with connect(settings).admin() as admin:
        return admin.known_capabilities()


def joining_quickly(settings: KafkaSettings) -> KafkaSettings:
    """The settings with which a member joins a group soon.

    They differ only where joining takes half a session timeout, and nobody has set this.
    """
    if "session_timeout_s" in settings.model_fields_set or recognise(settings).joins_at_once:
        return settings
    shorter = {
        "session_timeout_s": SHORT_SESSION_S,
        "heartbeat_interval_s": min(settings.heartbeat_interval_s, SHORT_SESSION_S / 3),
    }
    return settings.model_copy(update=shorter)
