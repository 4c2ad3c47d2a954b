"""Say at once that there is no broker, before a client tries for its whole timeout."""

from __future__ import annotations

import socket

from stream_icd.errors import BrokerUnavailable
from stream_icd.kafka.settings import MEMORY_SCHEME, KafkaSettings

ANSWERS_WITHIN_S = 1.0


def check_that_somebody_listens(settings: KafkaSettings) -> None:
    """Raise BrokerUnavailable if nobody listens at any address, or their names are unknown.

    Whether it is Kafka is not asked. A silent address counts as one where somebody listens: the
    client asks again.
    """
    if settings.bootstrap_servers.startswith(MEMORY_SCHEME):
        return
    if not any(map(listens, settings.servers)):
        raise nobody_listens(settings)


def nobody_listens(settings: KafkaSettings) -> BrokerUnavailable:
    return BrokerUnavailable(
        f"no broker listens at {settings.bootstrap_servers}: start one (for a trial: stream-icd "
        "broker), or give its address (--bootstrap-servers, or STREAM_ICD_BOOTSTRAP_SERVERS)"
    )


def listens(server: str) -> bool:
    """Whether a program listens at `server`, host:port, or the address is silent."""
    host, _, port = server.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWERS_WITHIN_S).close()
    except (ConnectionRefusedError, socket.gaierror):
        return False
    except OSError:
        return True
    return True
