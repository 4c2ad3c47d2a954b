"""What the broker's refusal of a record says: what to change, where that is known."""

from __future__ import annotations

import pytest
from kafka.errors import BrokerResponseError, InvalidRecordError, InvalidTimestampError

from stream_icd.core.errors import BadSettings
from stream_icd.kafka.client.broker import _refusal

OUT_OF_RANGE = "Timestamp 0 of message with offset 0 is out of range"


@pytest.mark.parametrize(
    ("refusal", "setting"),
    [
        (InvalidTimestampError(OUT_OF_RANGE), "message.timestamp"),
        (InvalidRecordError(OUT_OF_RANGE), "message.timestamp"),  # of one record among several
        (InvalidRecordError("Compacted topic cannot accept message without key"), "cleanup.policy"),
    ],
)
def test_it_names_the_setting_of_the_topic(refusal: BrokerResponseError, setting: str) -> None:
    said = _refusal(refusal, "mine")
    assert isinstance(said, BadSettings)
    assert f"change the topic's {setting}" in str(said)
