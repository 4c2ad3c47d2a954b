"""States of a detector's memory survive the wire, and nothing else passes for one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.core.errors import BadMemory, LimitExceeded
from stream_icd.wire.states import (
    MemoryState,
    decode_state,
    encode_state,
    read_state_key,
)
from tests.wire.samples import DAY, with_header

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=16)


def state(group: str = "detect", graph: str = "as733", value: bytes = b"memory") -> MemoryState:
    return MemoryState(group, graph, f"{graph}/1", DAY, "as@5b1f09c2", "3f9c1a2b4d5e", "0@7", value)


@given(names, names, st.binary(min_size=1), st.booleans())
def test_a_state_is_read_as_it_was_written(
    group: str, graph: str, value: bytes, is_first: bool
) -> None:
    sent = replace(state(group, graph, value), is_first=is_first)
    message = encode_state(sent)
    assert decode_state(message.key, message.value, message.headers) == sent
    assert message == encode_state(sent)
    assert encode_state(sent, by_graph=True).key == graph.encode()


@given(names, names, names, names)
def test_graphs_and_groups_have_keys_of_their_own(a: str, b: str, c: str, d: str) -> None:
    keys = [encode_state(state(*names)).key for names in ((a, b), (c, d))]
    assert (keys[0] == keys[1]) == ((a, b) == (c, d))
    assert read_state_key(keys[0]) == (a, b)


@given(st.one_of(st.none(), st.binary(max_size=60)))
def test_other_keys_are_refused(key: bytes | None) -> None:
    try:
        group, graph = read_state_key(key)
    except (BadMemory, LimitExceeded):
        return
    assert group is not None
    assert graph


def test_what_a_state_lacks_or_has_too_much_of_is_named() -> None:
    for graph, said in (("g" * 2000, "2000 bytes; the limit"), ("g" * 201, "the limit is 200")):
        with pytest.raises(LimitExceeded, match=said):
            read_state_key(encode_state(state(graph=graph)).key)
    message = encode_state(state())
    for left_out in ("ce_type", "icd_snapshot_id", "icd_window_end", "icd_model"):
        headers = with_header(message.headers, left_out, None)
        with pytest.raises(BadMemory, match=f"{left_out} is missing"):
            decode_state(message.key, message.value, headers)
    for value in (None, b""):
        with pytest.raises(BadMemory, match="has no value"):
            decode_state(message.key, value, message.headers)
