"""What a producer carries from one transaction into the next.

Seen in kafka-python 3.0.12: an offset that the broker refused to take into a transaction, because
the group had moved on, is not forgotten when that transaction is aborted. It goes along with the
offsets of the next one, which the broker takes, as the producer speaks for a member again. So the
group went back, or forward, in a partition that belonged to another member: its results came twice,
or never. No issue was found upstream. Kafka's own client forgets such offsets when the request
ends.
"""

from __future__ import annotations

from typing import Any


def begin_with_no_offsets(producer: Any) -> None:
    """Have each transaction of a producer begin without the offsets of the one before."""
    transactions = producer._transaction_manager
    begin = transactions.begin_transaction

    def begin_transaction() -> None:
        transactions._pending_txn_offset_commits.clear()
        begin()

    transactions.begin_transaction = begin_transaction
