"""Our settings, partitions and positions as kafka-python takes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import kafka
from pydantic import SecretStr

from stream_icd.kafka.port.topic import TopicPartition
from stream_icd.kafka.settings import KafkaSettings


def client_options(settings: KafkaSettings) -> dict[str, Any]:
    """The options common to all kinds of clients (producer, consumer, admin)."""
    return {
        "bootstrap_servers": settings.servers,
        "client_id": settings.client_id,
        "bootstrap_timeout_ms": milliseconds(settings.connect_timeout_s),
        "request_timeout_ms": milliseconds(settings.request_timeout_s),
        "reconnect_backoff_max_ms": 1000,
        "security_protocol": settings.security_protocol,
        **_tls_options(settings),
        **_sasl_options(settings),
    }


def _tls_options(settings: KafkaSettings) -> dict[str, Any]:
    if "SSL" not in settings.security_protocol:
        return {}
    return {
        "ssl_cafile": _text(settings.ssl_cafile),
        "ssl_certfile": _text(settings.ssl_certfile),
        "ssl_keyfile": _text(settings.ssl_keyfile),
        # Without a password, an encrypted key would prompt for it at the terminal, and wait.
        "ssl_password": _hidden(settings.ssl_password) or _Hidden(""),
        "ssl_check_hostname": settings.ssl_check_hostname,
    }


def _sasl_options(settings: KafkaSettings) -> dict[str, Any]:
    if not settings.security_protocol.startswith("SASL"):
        return {}
    return {
        "sasl_mechanism": settings.sasl_mechanism,
        "sasl_plain_username": settings.sasl_username,
        "sasl_plain_password": _hidden(settings.sasl_password),
    }


class _Hidden(str):
    """A secret with a hidden `repr`: the client logs its whole configuration at DEBUG."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'**********'"


def milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _hidden(secret: SecretStr | None) -> str | None:
    return None if secret is None else _Hidden(secret.get_secret_value())


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def theirs(partition: TopicPartition) -> Any:
    return kafka.TopicPartition(*partition)


def all_theirs(partitions: Iterable[TopicPartition]) -> list[Any]:
    return [theirs(partition) for partition in partitions]


def positions(offsets: Mapping[TopicPartition, int]) -> dict[Any, Any]:
    return {theirs(p): kafka.OffsetAndMetadata(offset, "", -1) for p, offset in offsets.items()}
