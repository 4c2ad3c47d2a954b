"""A conditional PUT that meets another one is repeated; other refusals are errors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from stream_icd.core.store import store
from stream_icd.core.store.store import ATTEMPTS, CONFLICT, TAKEN, create_object


def refused(status: int) -> ClientError:
    answer: Any = {
        "Error": {"Code": "X", "Message": f"status {status}"},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return ClientError(answer, "PutObject")


def create(monkeypatch: pytest.MonkeyPatch, *answers: Exception | None) -> tuple[bool, int]:
    """Whether it was created, and how many requests that took; the store gives these answers."""
    left = list(answers)

    def put_object(**_: object) -> None:
        if (answer := left.pop(0)) is not None:
            raise answer

    monkeypatch.setattr(store, "_client", lambda *_: SimpleNamespace(put_object=put_object))
    created = create_object("s3://b", "eu", "b/key", pa.py_buffer(b"x"))
    return created, len(answers) - len(left)


def test_a_conflict_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert create(monkeypatch, refused(CONFLICT), None) == (True, 2)
    assert create(monkeypatch, refused(CONFLICT), refused(TAKEN)) == (False, 2)
    with pytest.raises(OSError, match="status 409"):
        create(monkeypatch, *[refused(CONFLICT)] * ATTEMPTS)


def test_other_refusals_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError, match="status 403"):
        create(monkeypatch, refused(403))
    with pytest.raises(OSError, match="Could not connect"):
        create(monkeypatch, EndpointConnectionError(endpoint_url="http://127.0.0.1:9"))
