"""Errors pass from process to process, with what they say and what they carry."""

from __future__ import annotations

import copy
import pickle

import pytest

from stream_icd.core.errors import RecordTooLarge, StreamIcdError
from stream_icd.kafka.port import TopicPartition, Undecodable


def carrying() -> list[StreamIcdError]:
    """An error of each kind that takes more than a message."""
    return [
        RecordTooLarge("too large", "icd.snapshots.v1", 2**20),
        Undecodable("strange", TopicPartition("icd.snapshots.v1", 3), 7),
    ]


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_each_error_can_be_copied_and_pickled(how) -> None:
    errors = carrying()
    plain = set(StreamIcdError.kinds()) - set(map(type, errors))
    for error in [*errors, *(kind("a message") for kind in plain)]:
        error.add_note("a note")
        again = how(error)
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)
