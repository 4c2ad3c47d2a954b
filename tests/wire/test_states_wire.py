"""States of a detector's memory survive the wire, and nothing else passes for one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.core.errors import BadMemory, LimitExceeded
from stream_icd.wire.states import MemoryState, decode_state, encode_state, read_state_key
from tests.wire.samples import DAY, decoded, with_header

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=16)


def state(group: str = "detect", graph: str = "as733", value: bytes = b"memory") -> MemoryState:
    return MemoryState(group, graph, f"{graph}/1", DAY, "as@5b1f09c2", "3f9c1a2b4d5e", "0@7", value)


@given(names, names, names, names, st.binary(min_size=1), st.booleans())
def test_a_state_is_read_as_it_was_written_under_a_key_of_its_graph_and_group(
    group: str, graph: str, other_group: str, other_graph: str, value: bytes, is_first: bool
) -> None:
    sent = replace(state(group, graph, value), is_first=is_first)
    message = encode_state(sent)
    assert decoded(message, decode_state) == sent
    assert message == encode_state(sent)
    assert encode_state(sent, by_graph=True).key == graph.encode()
    assert read_state_key(message.key) == (group, graph)
    is_the_same = (group, graph) == (other_group, other_graph)
    assert (message.key == encode_state(state(other_group, other_graph)).key) == is_the_same


@given(st.one_of(st.none(), st.binary(max_size=60)))
def test_other_keys_are_refused(key: bytes | None) -> None:
    try:
        group, graph = read_state_key(key)
    except (BadMemory, LimitExceeded):
        return
    assert group is not None
    assert graph


def test_what_a_state_lacks_or_has_too_much_of_is_named() -> None:
    for graph, reason in (("g" * 2000, "2000 bytes; the limit"), ("g" * 201, "the limit is 200")):
        with pytest.raises(LimitExceeded, match=reason):
            read_state_key(encode_state(state(graph=graph)).key)
    message = encode_state(state())
    headers = with_header(message.headers, "icd_model", None)
    with pytest.raises(BadMemory, match="icd_model is missing"):
        decoded(message, decode_state, headers=headers)
    for value in (None, b""):
        with pytest.raises(BadMemory, match="has no value"):
            decoded(message, decode_state, value=value)
