"""Choose the implementation of the port; only this module knows them all."""

from __future__ import annotations

from stream_icd.kafka.port.broker import Broker
from stream_icd.kafka.settings import MEMORY_SCHEME, KafkaSettings


def connect(settings: KafkaSettings) -> Broker:
    """The broker that the settings name; it connects when you open something on it.

    `memory://NAME` is the in-memory broker of that name; anything else is reached by kafka-python,
    which is loaded only then.

    Raises:
        BrokerUnavailable: no such in-memory broker runs.
    """
    if settings.bootstrap_servers.startswith(MEMORY_SCHEME):
        from stream_icd.kafka.in_process.broker import MemoryConnection

        return MemoryConnection(settings)
    from stream_icd.kafka.client.broker import ClientBroker

    return ClientBroker(settings)
