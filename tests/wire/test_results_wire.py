"""All messages but snapshots survive the wire, and broken ones are named."""

from __future__ import annotations

import base64
import json
import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, get_args, get_type_hints

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.core.communities import MOST_IDS, Communities, Labels
from stream_icd.core.errors import (
    BadAnnouncement,
    BadCommunities,
    BadEvents,
    BadKnown,
    BadMember,
    BadMemory,
    LimitExceeded,
)
from stream_icd.core.events import CommunityEvent, CommunityEvents
from stream_icd.core.headers import Headers
from stream_icd.wire.announcements import Announcement, decode_announcement, encode_announcement
from stream_icd.wire.arrow_stream import write_table
from stream_icd.wire.communities import (
    decode_communities,
    decode_labels,
    encode_communities,
    encode_labels,
)
from stream_icd.wire.events import decode_events, encode_events, event_table, is_late
from stream_icd.wire.message import Message
from stream_icd.wire.nodes import (
    MemberRow,
    decode_known,
    decode_member,
    encode_known,
    encode_member,
)
from stream_icd.wire.states import decode_state, encode_state, read_state_key
from tests.testbed.windows import window
from tests.wire.samples import ANNOUNCEMENT, DAY, EVERY_MESSAGE, STATE, decoded, with_header


def table_of(message: Message) -> pa.Table:
    return pa.ipc.open_stream(message.value).read_all()


def column(message: Message, name: str, values: pa.Array) -> dict[str, bytes]:
    table = table_of(message)
    return {"value": write_table(table.set_column(table.column_names.index(name), name, values))}


def header(message: Message, name: str, text: str | None) -> dict[str, Headers]:
    return {"headers": with_header(message.headers, name, text)}


def communities(labels: list[int], nodes: pa.Array | None = None) -> Communities:
    spent = {"decode": 1.0, "features": 0.5, "encode": 2.25, "cluster": 3.0}
    return replace(window(0, labels, nodes), milliseconds=spent, evidence="weak", bits_saved=0.125)


@given(st.data())
def test_communities_are_read_as_they_were_sent(data: st.DataObject) -> None:
    k = data.draw(st.integers(1, 12))
    labels = [*range(k), *data.draw(st.lists(st.integers(0, k - 1), max_size=9))]
    names = pa.array([f"AS{i}" for i in range(len(labels))][::-1])  # in any order
    ids = data.draw(st.lists(st.integers(0, MOST_IDS - 1), min_size=k, max_size=k, unique=True))
    ended = sorted(data.draw(st.sets(st.integers(0, 2**63 - 1), max_size=5)))
    merged_into = [data.draw(st.integers(-1, 2**63 - 1)) for _ in ended]
    replaced = np.array([ended, merged_into], np.int64).T.reshape(-1, 2)
    sent = replace(
        communities(labels, data.draw(st.sampled_from([None, names]))),
        community_ids=np.array(ids, np.int64),
        replaced=replaced,
    )
    message = encode_communities(sent)
    got = decoded(message, decode_communities)
    assert got.nodes.equals(sent.nodes)
    assert got.ids_of_nodes.tolist() == [ids[label] for label in labels]
    for name in ("window", "milliseconds", "detected_at", "n_communities", "bits_saved"):
        assert getattr(got, name) == getattr(sent, name)
    assert encode_communities(got) == message


def test_labels_are_read_as_labels_only() -> None:
    sent = Labels("as733", "as733/1", DAY, pa.array(["b", "a"]), np.array([1, 0]), "urn:lfr")
    message = encode_labels(sent)
    got = decoded(message, decode_labels)
    for name in ("graph", "snapshot_id", "window", "source"):
        assert getattr(got, name) == getattr(sent, name)
    assert (got.nodes.to_pylist(), got.labels.tolist()) == (["b", "a"], [1, 0])
    with pytest.raises(BadCommunities, match="ce_type is .stream_icd"):
        decoded(message, decode_communities)


def test_values_that_no_message_may_hold_are_refused() -> None:
    ids, integers = pa.array([1, 2]), "labels must be a NumPy array of integers"
    for nodes, labels, reason in (
        ([1, 2], np.zeros(2, np.int32), "nodes are a list; give pyarrow.array"),
        (ids, np.array([0.5, 1]), integers),
    ):
        with pytest.raises(BadCommunities, match=reason):
            Labels("as733", "as733/1999-04-02", DAY, nodes, labels)  # type: ignore[arg-type]
    pairs = np.array([[0, 1], [2, 1]])
    for bits in (np.nan, -1e308):  # which may add up to infinity
        with pytest.raises(BadCommunities, match="bits between"):
            replace(communities([0, 1]), moved=pairs, moved_bits=np.array([bits, bits]))
    assert replace(communities([0, 1]), moved=pairs, moved_bits=np.array([-3.5, 1e90]))
    with pytest.raises(BadCommunities, match="second_ids need probabilities and community_ids"):
        replace(SURE, community_ids=None, replaced=None)


SURE = replace(
    communities([0, 1, 1]),
    community_ids=np.array([7, 3]),
    replaced=np.empty((0, 2), np.int64),
    probabilities=np.array([1, 0.5, 0.75], np.float32),
    second_ids=np.array([-1, 7, 900]),
    second_probabilities=np.array([0, 0.5, 0.25], np.float32),
    horizon=1.0,
    predicted_bits=-0.25,
)
SENT = encode_communities(SURE)


def test_ids_and_probabilities_are_columns_that_any_reader_of_arrow_sees() -> None:
    assert table_of(SENT).to_pydict() == {
        "node": [0, 1, 2],
        "community": [0, 1, 1],
        "community_id": [7, 3, 3],
        "probability": [1, 0.5, 0.75],
        "second_id": [None, 7, 900],
        "second_probability": [None, 0.5, 0.25],
    }
    got = decoded(SENT, decode_communities)
    for name in ("probabilities", "second_ids", "second_probabilities"):
        assert getattr(got, name).tolist() == getattr(SURE, name).tolist()
    assert (got.horizon, got.predicted_bits) == (1.0, -0.25)
    assert encode_communities(got) == SENT


def test_what_is_not_known_is_null_or_not_there_as_in_earlier_versions() -> None:
    plain = encode_communities(replace(communities([0, 1]), evidence=None, bits_saved=None))
    optional = ("evidence", "bits_saved", "community_ids", "replaced")
    assert not {f"icd_{name}" for name in optional} & dict(plain.headers).keys()
    assert [column.null_count for column in table_of(plain).columns] == [0, 0, 2, 2, 2, 2]
    got = decoded(plain, decode_communities)
    for name in (*optional, "probabilities", "second_ids", "second_probabilities"):
        assert getattr(got, name) is None
    assert table_of(SENT).schema.equals(table_of(plain).schema)
    value = write_table(table_of(SENT).select(["node", "community"]))
    got = decoded(SENT, decode_communities, value=value)
    assert (got.ids_of_nodes.tolist(), got.probabilities) == ([7, 3, 3], None)


def metadata(name: str, value: list[int] | str | None) -> dict[str, bytes]:
    entries: dict[Any, Any] = table_of(SENT).schema.metadata | {name.encode(): value}
    if isinstance(value, list):
        entries[name.encode()] = base64.b64encode(np.array(value, np.int64))
    elif value is None:
        del entries[name.encode()]
    return {"value": write_table(table_of(SENT).replace_schema_metadata(entries))}


def nodes(ids: object, labels: object = (0, 1, 1), kind: object = "int32") -> dict[str, bytes]:
    return {"value": write_table(pa.table({"node": ids, "community": pa.array(labels, kind)}))}


NUMBERS = ("icd_modularity", "icd_ms_encode", "icd_predicted_bits")
NO_NUMBERS = ("nan", "-Infinity", "1e999", "1_0", "١.٥", " 1")
TWICE = "a node is in the table more than once"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (column(SENT, "community_id", pa.array([7, 3, 4])), "community_id is not what"),
        (column(SENT, "community_id", pa.array([7, 3, None])), "community_id is not what"),
        (column(SENT, "community_id", pa.array(["7", "3", "3"])), "has type string"),
        (column(SENT, "probability", pa.array([1, 1.5, 1], pa.float32())), "need one of prob"),
        (column(SENT, "probability", pa.nulls(3, pa.float32())), "need probabilities"),
        (column(SENT, "second_id", pa.array([None, 3, 900])), "another one than"),
        (column(SENT, "second_id", pa.array([None, 7, 2**62])), "second_ids each, in -1"),
        (column(SENT, "second_id", pa.array([None, None, 900])), "not null in the same rows"),
        (column(SENT, "second_id", pa.nulls(3, pa.int64())), "both, or neither"),
        (metadata("icd_community_ids", "???"), "icd_community_ids is not base64 of int64"),
        (metadata("icd_community_ids", [4]), "2 communities need one stable id each"),
        (metadata("icd_community_ids", [4, 4]), "there are 1 different ones"),
        (metadata("icd_community_ids", [4, 10**15 - 1]), "in 0..999999999999998; there are"),
        (metadata("icd_replaced", [4]), "icd_replaced is not base64 of pairs"),
        (metadata("icd_replaced", [4, -2]), "replaced needs ascending ids"),
        (metadata("icd_replaced", None), "both, or neither"),
        (header(SENT, "icd_evidence", "certain"), "one of none, weak, strong"),
        (header(SENT, "icd_bits_saved", "-0.5"), "icd_bits_saved is -0.5"),
        (header(SENT, "icd_horizon", "0.5"), "icd_horizon is 0.5"),
        *(
            (header(SENT, name, text), f"{name} is '.*'; expected a finite number")
            for name in NUMBERS
            for text in NO_NUMBERS
        ),
        (nodes([1], [0], "int64"), "expected ids and int32"),
        (nodes(pa.array([], pa.int64()), []), "0 rows"),
        (nodes([1], [None]), "nulls"),
        (nodes([1], [-1]), "run from -1"),
        (nodes([7, 3, 7]), TWICE),
        (nodes(["a", "b", "a"]), TWICE),
        (nodes([1, 2, 3], [0, 1, 2]), "icd_k says 2 communities; the table has 3"),
    ],
)
def test_broken_communities_say_why(changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadCommunities, match=reason):
        decoded(SENT, decode_communities, **changed)


def tracked(communities: list[int], named: bool = False) -> CommunityEvents:
    """Each community twice among the events, and one that is gone."""
    nodes = [f"AS{i:03}" if named else i for i in range(len(communities))]
    merged, split = [], []
    for label, community in enumerate(sorted(set(communities))):
        size = communities.count(community)
        merged.append(CommunityEvent("merged", community, label, size, 3, 0.5, (community, 90)))
        split.append(CommunityEvent("split", community, label, size, 3, 0.5, (), (4, 5), 2))
    return CommunityEvents(
        graph="as733",
        snapshot_id="as733/1999-04-02",
        window=DAY,
        model="as@1",
        nodes=pa.array(nodes, pa.string() if named else pa.int32()),
        communities=np.array(communities, np.int64),
        events=(*merged, *split, CommunityEvent("died", 99, None, 0, 7)),
        next_community=100,
        missed=2,
        model_before="as@0",
    )


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.booleans())
def test_events_are_read_as_they_were_sent(communities: list[int], named: bool) -> None:
    sent = tracked(communities, named)
    message = encode_events(sent)
    got = decoded(message, decode_events)
    for name in sent.__dataclass_fields__.keys() - {"nodes", "communities"}:
        assert getattr(got, name) == getattr(sent, name)
    assert got.nodes.equals(sent.nodes)
    assert got.communities.tolist() == communities
    assert encode_events(got) == message


def test_a_return_is_a_birth_for_earlier_readers_and_a_late_window_has_no_events() -> None:
    back = CommunityEvent("returned", 1, 0, 8, 7, 0.5, (), (), 2)
    born = CommunityEvent("born", 2, 1, 8, 0)
    message = encode_events(replace(tracked([1, 2]), events=(back, born)))
    table = table_of(message)
    assert table["event"].to_pylist() == ["born", "born"]
    assert table["members"].to_pylist() == [[0], [1]]
    assert decoded(message, decode_events).events == (back, born)
    members = event_table(tracked([7, 8, 7]))["members"]
    assert members.to_pylist() == [[0, 2], [1], None, None, None]  # once for each
    late = encode_events(replace(tracked([]), late=True, events=()))  # an empty table
    got = decoded(late, decode_events)
    assert (got.late, got.events, len(got.nodes)) == (True, (), 0)
    assert is_late(late.headers)
    assert not is_late(message.headers)


def test_many_events_take_the_memory_that_they_need() -> None:
    (event, *_) = tracked([0]).events
    many = replace(tracked([0]), events=(event,) * 10_000)
    message = encode_events(many)
    tracemalloc.start()
    got = decoded(message, decode_events)
    of_events, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert got.events == many.events
    assert most < 1.5 * of_events


EVENTS = encode_events(tracked([7, 8, 7]))


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (column(EVENTS, "event", pa.array(["eaten", *["born"] * 4])), "unknown event 'eaten'"),
        (column(EVENTS, "community", pa.array([1, None, 3, 4, 5])), "nulls in community"),
        (column(EVENTS, "community", pa.array([1] * 5, pa.int32())), "community has type int32"),
        (column(EVENTS, "community", pa.array([7, 8, 7, 8, 100])), "community is 100"),
        (column(EVENTS, "parents", pa.array([[100]] * 5)), "parents is 100"),
        (column(EVENTS, "parents", pa.array([[None]] * 5, pa.list_(pa.int64()))), "in parents"),
        (column(EVENTS, "members", pa.array([[0.5]] * 5)), "a list of ids"),
        (column(EVENTS, "members", pa.array([[1], [1], None, None, None])), "two communities"),
        (column(EVENTS, "members", pa.array([[1], [None], None, None, None])), "null"),
        (column(EVENTS, "size", pa.array([-1, 1, 1, 1, 1])), "size is -1"),
        (column(EVENTS, "overlap", pa.array([float("nan")] * 5)), "overlap is nan"),
        (header(EVENTS, "icd_missed", "-1"), "icd_missed"),
        (header(EVENTS, "icd_late", "maybe"), "icd_late"),
        (header(EVENTS, "icd_next_community", "1e3"), "icd_next_community"),
    ],
)
def test_broken_events_say_why(changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadEvents, match=reason):
        decoded(EVENTS, decode_events, **changed)


NOON = datetime(2026, 1, 1, 12, 30, 0, 5, tzinfo=UTC)
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=16)


@given(names, names, names, names, st.binary(min_size=1), st.booleans())
def test_a_state_is_read_as_it_was_written_under_a_key_of_its_graph_and_group(
    group: str, graph: str, other_group: str, other_graph: str, value: bytes, is_first: bool
) -> None:
    sent = replace(STATE, group=group, graph=graph, value=value, is_first=is_first)
    message = encode_state(sent)
    assert decoded(message, decode_state) == sent
    assert message == encode_state(sent)
    assert encode_state(sent, by_graph=True).key == graph.encode()
    assert read_state_key(message.key) == (group, graph)
    other = encode_state(replace(STATE, group=other_group, graph=other_graph))
    assert (message.key == other.key) == ((group, graph) == (other_group, other_graph))


def test_what_a_state_lacks_or_has_too_much_of_is_named() -> None:
    for key in (None, b"\xff", b"7", b'["group"]', b'["group", ""]'):
        with pytest.raises(BadMemory, match="the key|has no key"):
            read_state_key(key)
    for graph, reason in (("g" * 2000, "2000 bytes; the limit"), ("g" * 201, "the limit is 200")):
        with pytest.raises(LimitExceeded, match=reason):
            read_state_key(encode_state(replace(STATE, graph=graph)).key)
    message = encode_state(STATE)
    with pytest.raises(BadMemory, match="icd_model is missing"):
        decoded(message, decode_state, **header(message, "icd_model", None))
    with pytest.raises(BadMemory, match="has no value"):
        decoded(message, decode_state, value=b"")


KINDS = get_args(get_type_hints(Announcement)["kind"])


def test_what_is_announced_is_what_is_read_and_each_event_has_one_id() -> None:
    for kind in KINDS:
        bare = Announcement(kind, "/a/é", "", "retrain", NOON)
        for sent in (bare, replace(ANNOUNCEMENT, kind=kind)):
            assert decoded(encode_announcement(sent), decode_announcement) == sent
    later = ANNOUNCEMENT.at + timedelta(hours=1)
    assert replace(ANNOUNCEMENT, at=later, reason="sent again").id == ANNOUNCEMENT.id
    assert replace(ANNOUNCEMENT, generation=8).id != ANNOUNCEMENT.id
    kept = replace(ANNOUNCEMENT, kind="kept")
    assert replace(kept, at=later).id != kept.id
    of_kinds = {replace(ANNOUNCEMENT, kind=kind).id for kind in KINDS}
    assert len(of_kinds) == len(KINDS) - 1  # promoted and rolled back: one generation


def test_later_fields_are_ignored_and_other_announcements_refused() -> None:
    message = EVERY_MESSAGE["announcement"][0]
    value = message.value.replace(b'{"kind"', b'{"colour": "red", "kind"')
    assert decoded(message, decode_announcement, value=value) == ANNOUNCEMENT
    sold = message.value.replace(b"promoted", b"sold")
    broken = (None, b"[]", b"{}", b"{", b"\xff", sold, b"[" * 100_000)
    for other in broken:
        with pytest.raises(BadAnnouncement):
            decoded(message, decode_announcement, value=other)
    with pytest.raises(LimitExceeded, match="at most 1 MiB"):
        decoded(message, decode_announcement, value=bytes(2**20 + 1))


ids = st.integers(-(2**63), 2**64 - 1) | names
KNOWN, ROW = EVERY_MESSAGE["known"][0], EVERY_MESSAGE["member"][0]


@given(names, ids, st.none() | st.floats(0, 1), st.none() | st.text())
def test_what_is_written_is_read(
    graph: str, node: int | str, probability: float | None, name: str | None
) -> None:
    row = MemberRow(graph, node, 4, NOON, NOON, "g/1", probability, name)
    assert decoded(encode_member(row, "g/1@m#0"), decode_member) == row
    known = encode_known(graph, str(node), name or "east", NOON, "noc")
    assert decoded(known, decode_known) == (graph, str(node), name or "east")


def test_times_are_of_utc_numbers_are_texts_and_no_value_takes_a_community_back() -> None:
    since = NOON.astimezone(timezone(timedelta(hours=2)))
    message = encode_member(MemberRow("g", 1, 0, since, NOON, "g/1"), "g/1#0")
    assert json.loads(message.value)["since"] == "2026-01-01T12:30:00.000005Z"
    known = decoded(KNOWN, decode_known, value=b'{"community": 7, "more": []}')
    assert known == ("a/b", "7018", "7")
    assert decoded(KNOWN, decode_known, value=None, headers=()) == ("a/b", "7018", None)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"graph": "other"}, "no JSON object of graph 'a/b'"),
        ({"node": 702}, "but the node 702"),
        ({"node": True}, "node is True; expected int"),
        ({"community_id": None}, "community_id is None; expected int"),
        ({"community_id": -1}, "is not in 0..999999999999998"),
        ({"probability": 1.5}, "expected a number from 0 to 1"),
        ({"since": "yesterday"}, "cannot be read"),
        ({"since": "2026-01-01T00:00:00"}, "needs a time zone"),
        ({"name": 7}, "name is 7; expected str"),
    ],
)
def test_a_broken_row_says_why(wrong: dict[str, object], reason: str) -> None:
    with pytest.raises(BadMember, match=reason):
        decoded(ROW, decode_member, value=json.dumps(json.loads(ROW.value) | wrong).encode())


def test_what_breaks_the_contract_is_refused() -> None:
    no_community = (b"", b"[]", b"{}", b'{"community": ""}', b'{"community": true}')
    for value in (*no_community, b'{"community": 1.5}', b'"%s"' % (b"x" * (1 << 17))):
        with pytest.raises(BadKnown):
            decoded(KNOWN, decode_known, value=value)
    for key in (b"as733", b"as733/", b"/7", b"\xff/1"):
        with pytest.raises(BadMember):
            decoded(ROW, decode_member, key=key)
        with pytest.raises(BadKnown):
            decoded(KNOWN, decode_known, key=key)
    with pytest.raises(LimitExceeded, match="at most 65536"):
        decoded(ROW, decode_member, value=ROW.value + b" " * 70_000)
    with pytest.raises(LimitExceeded):
        decoded(KNOWN, decode_known, key=b"g" * 2000 + b"/7")
