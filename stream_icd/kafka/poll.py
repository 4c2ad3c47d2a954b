"""Take from a consumer what has come, or learn why it never will."""

from __future__ import annotations

from typing import Any

from kafka import TopicPartition
from kafka import errors as client

from stream_icd.errors import MessageTooLarge


def poll(consumer: Any, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
    """What has come, by partition; where nothing has, wait so long for it.

    Raises:
        MessageTooLarge: the next record is larger than any answer that the client takes.
        KafkaError: any of the client's, as they are.
    """
    polled = dict(consumer.poll(timeout_ms=timeout_ms))
    # The client (3.0.12) says so in its log only, and asks for that record again for ever.
    failure = consumer._client.failure
    if isinstance(failure, client.InvalidReceiveError) and not polled and not consumer.paused():
        ours = ", ".join(f"{p.topic}[{p.partition}]" for p in sorted(consumer.assignment()))
        raise MessageTooLarge(
            f"the next record of {ours} is too large: at most "
            f"{consumer.config['receive_message_max_bytes']} bytes are taken as one answer "
            f"({failure.args[0]}). Set STREAM_ICD_MAX_MESSAGE_BYTES to that length here, and a "
            "store of claims where large snapshots are sent (docs/big_snapshots.md)"
        )
    return polled
