"""Producers: faults in their transactions, and in their end.

Seen in kafka-python 3.0.12:

- If the broker refuses an offset for a transaction because the group has a new generation, the
  client keeps that offset after the abort. It sends it with the offsets of the next transaction,
  and the broker accepts it, as the producer acts for a member again. So the group went back, or
  forward, in a partition of another member: results came twice, or never. Kafka's own client
  forgets such offsets when the request ends.
- `close` flushes first, and if that takes too long it raises KafkaTimeoutError without closing.
"""

from __future__ import annotations

import contextlib
from typing import Any

from kafka import errors as client


def begin_with_no_offsets(producer: Any) -> None:
    """Make each transaction of a producer start without the offsets of the one before."""
    transactions = producer._transaction_manager
    begin = transactions.begin_transaction

    def begin_transaction() -> None:
        transactions._pending_txn_offset_commits.clear()
        begin()

    transactions.begin_transaction = begin_transaction


def close_producer(producer: Any, timeout_s: float) -> None:
    """Close the producer within about twice `timeout_s`, even with unacknowledged records."""
    try:
        producer.close(timeout=timeout_s)
    except client.KafkaTimeoutError:
        producer._sender.force_close()
        with contextlib.suppress(client.KafkaTimeoutError):
            producer.close(timeout=timeout_s)
