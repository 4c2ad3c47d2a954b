"""docs/wire.md and docs/asyncapi.yaml say what the code does, and what they say is enough."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import jsonschema
import pyarrow as pa
import pytest
import yaml

from stream_icd.core.errors import BadInput, BadSnapshot
from stream_icd.core.events import KINDS
from stream_icd.core.headers import Headers
from stream_icd.core.lineage import Figure, Gate
from stream_icd.core.members import MemberRow
from stream_icd.core.snapshot import MOST_GRAPH_BYTES, MOST_NODE_BYTES, snapshot_from_pairs
from stream_icd.kafka.messages.claims import Claim
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import DEFAULT_TOPICS
from stream_icd.kafka.tracing import MOST_BYTES, Tracing, context_of
from stream_icd.methods.tracking.rules import MOVED
from stream_icd.streaming.dead_letters.letters import DeadLetter, dead_letter
from stream_icd.wire.alerts import Alert, decode_alert, encode_alert
from stream_icd.wire.announcements import Announcement, Kind, encode_announcement
from stream_icd.wire.arrow_stream import write_table
from stream_icd.wire.communities import MEMBERSHIP
from stream_icd.wire.events import FIELDS
from stream_icd.wire.known import MOST_LABEL_BYTES, KnownNode, decode_known, encode_known
from stream_icd.wire.limits import DEFAULT_LIMITS
from stream_icd.wire.members import decode_member, encode_member
from stream_icd.wire.message import NAMES_IN_AN_ID, Message
from stream_icd.wire.snapshots import decode_snapshot, encode_snapshot
from tests.wire.samples import DAY, MESSAGES

DOCS = Path(__file__).parents[2] / "docs"
PROSE = (DOCS / "wire.md").read_text(encoding="utf-8")
CONTRACT: dict[str, Any] = yaml.safe_load((DOCS / "asyncapi.yaml").read_text(encoding="utf-8"))
TOLD = Announcement(
    "promoted",
    "s3://bucket/models",
    "better",
    "retrain",
    DAY.end,
    version="as@5b1f09c2",
    champion="as@5b1f09c2",
    generation=3,
    gate=Gate(
        "as@00000000",
        "as@5b1f09c2",
        DAY.start,
        DAY.end,
        windows=10,
        passed=True,
        reason="better",
        figures=(Figure("NMI, %", 70, 71, 0.5, 1.5),),
    ),
)
ALERT = Alert(
    group="stream-icd-alert",
    graph="as733",
    snapshot_id="as733/1999-04-02",
    window_start=DAY.start,
    window_end=DAY.end,
    model="as@1",
    event="merged",
    community=12,
    size=60,
    size_before=40,
    confirmed=3,
    rules=("merged and bits >= 20",),
    text="community 3 (20 nodes) joined community 12 (31 bits)",
    bits=31.4,
    parents=(12, 3),
)
EVERYWHERE = "On every message about a window:"


def dead_letter_headers() -> dict[str, str]:
    record = Record("icd.snapshots.v1", 3, 41, 0, b"g", b"")
    outgoing = dead_letter(record, "decode", BadSnapshot("header ce_id is missing or empty"))
    return {name: (value or b"").decode() for name, value in outgoing.headers}


def texts(headers: Headers) -> dict[str, str]:
    return {name: value.decode() for name, value in headers}


def resolved(node: Any) -> Any:
    """The contract with every `$ref` replaced by what it names; a dangling one is a KeyError."""
    if isinstance(node, list):
        return [resolved(item) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target: Any = CONTRACT
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        return resolved(target)
    return {name: resolved(item) for name, item in node.items()}


def headers_schema(message: str) -> dict[str, Any]:
    schema: dict[str, Any] = resolved(CONTRACT["components"]["messages"][message]["headers"])
    return schema


def rows_under(heading: str) -> dict[str, str]:
    """First column and the rest of the table that follows `heading` in the prose."""
    section = PROSE.split(heading, 1)[1]
    table = re.search(r"(?:^.* \| .*\n)+", section, re.MULTILINE)
    assert table is not None, f"no table under {heading!r}"
    rows = table.group().splitlines()[2:]
    return {row.split(" | ")[0].strip("`"): row.split(" | ", 1)[1] for row in rows}


@pytest.mark.parametrize("name", MESSAGES)
def test_the_schema_of_each_message_takes_its_real_headers_and_knows_them_all(name: str) -> None:
    headers = texts(MESSAGES[name][0].headers)
    schema = headers_schema(name)
    jsonschema.validate(headers, schema)
    assert set(headers) == set(schema["properties"])
    assert headers["ce_type"] == CONTRACT["components"]["messages"][name]["name"]


@pytest.mark.parametrize("name", MESSAGES)
def test_the_prose_lists_exactly_the_headers_of_each_message(name: str) -> None:
    headers = texts(MESSAGES[name][0].headers)
    common = rows_under(EVERYWHERE)
    own = rows_under(f"`{headers['ce_type']}`\n")
    assert set(common) | set(own) == set(headers)
    required = {
        header for header, text in (common | own).items() if not text.startswith("optional")
    }
    assert required == set(headers_schema(name)["required"])


@pytest.mark.parametrize("name", MESSAGES)
def test_what_the_contract_calls_optional_may_be_left_out_and_no_reader_asks_for_more(
    name: str,
) -> None:
    message, decode, _ = MESSAGES[name]
    demanded = set()
    for left_out, _ in message.headers:
        headers = tuple(h for h in message.headers if h[0] != left_out)
        try:
            decode(message.key, message.value, headers)
        except BadInput:
            demanded.add(left_out)
    assert demanded <= set(headers_schema(name)["required"])
    # What a snapshot's producer must send is what the reader insists on, no more and no less.
    if name == "snapshot":
        assert demanded == set(headers_schema(name)["required"])


def test_a_dead_letter_carries_the_headers_that_are_documented() -> None:
    headers = dead_letter_headers()
    schema = headers_schema("deadLetter")
    jsonschema.validate(headers, schema)
    rows = rows_under("header of a dead letter")
    assert set(headers) == set(schema["properties"]) == set(rows)
    stages = schema["properties"]["icd_dlq_stage"]["enum"]
    assert re.findall(r"`(\w+)`", rows["icd_dlq_stage"]) == stages


def test_the_marker_of_a_dead_letter_that_was_sent_again_is_documented() -> None:
    letter = DeadLetter.of(Record("icd.snapshots.v1.dlq", 0, 7, 0, b"g", b""))
    headers = texts(letter.marker("icd.snapshots.v1", DAY.end).headers)
    schema = headers_schema("retried")
    jsonschema.validate(headers, schema)
    assert set(headers) == set(schema["properties"]) == set(rows_under("header of a marker"))


def test_a_claim_has_the_headers_that_are_documented_and_any_message_may_have_one() -> None:
    headers = texts(Claim("s3://bucket/claims/x.arrows", 5, "ab" * 32).headers())
    schema = resolved(CONTRACT["components"]["schemas"]["claimHeaders"])
    draft = jsonschema.Draft7Validator(schema)  # AsyncAPI's
    draft.validate(headers)
    assert set(headers) == set(schema["properties"]) == set(rows_under("header of a claim"))
    for left_out in headers:
        with pytest.raises(jsonschema.ValidationError):
            draft.validate({name: text for name, text in headers.items() if name != left_out})
    for name in MESSAGES:
        assert schema in headers_of_traits(name)


def headers_of_traits(message: str) -> list[dict[str, Any]]:
    traits = CONTRACT["components"]["messages"][message]["traits"]
    return [resolved(trait)["headers"] for trait in traits]


def test_a_trace_has_the_headers_that_are_documented_and_any_message_may_have_one() -> None:
    context = {"traceparent": f"00-{1:032x}-{2:016x}-01", "tracestate": "vendor=1"}
    headers = texts(Tracing.with_context((), context))
    schema = resolved(CONTRACT["components"]["schemas"]["traceHeaders"])
    jsonschema.Draft7Validator(schema).validate(headers)
    assert set(headers) == set(schema["properties"])
    assert set(headers) == set(rows_under("## Traces"))
    assert context_of(tuple(Tracing.with_context((), context))) == context
    for name, (message, decode, *_) in MESSAGES.items():
        assert schema in headers_of_traits(name)
        traced = Tracing.with_context(message.headers, context)
        decode(message.key, message.value, traced)  # no reader minds


def test_a_trace_that_others_made_long_takes_no_room_from_a_result() -> None:
    context = {"traceparent": f"00-{1:032x}-{2:016x}-01", "tracestate": "vendor=" + 8000 * "1"}
    headers = Tracing.with_context((), context)
    assert [name for name, _ in headers] == ["ce_traceparent"]
    kept = Tracing.with_context((), {**context, "tracestate": "vendor=" + 505 * "1"})
    assert [name for name, _ in kept] == ["ce_traceparent", "ce_tracestate"]
    assert sum(len(name) + len(value) for name, value in kept) < MOST_BYTES


def documented(kind: str, heading: str, message: Message) -> tuple[dict[str, str], Any]:
    """The prose about the headers of a message, and its contract; both fit what is sent."""
    headers, schema = texts(message.headers), headers_schema(kind)
    jsonschema.validate(headers, schema)
    rows = rows_under(heading)
    assert set(headers) == set(schema["properties"]) == set(rows)
    required = {name for name, text in rows.items() if not text.startswith("optional")}
    assert required == set(schema["required"])
    contract = resolved(CONTRACT["components"]["messages"][kind])
    jsonschema.validate(json.loads(message.value), contract["payload"])
    return rows, contract


def test_announcements_have_the_headers_and_fields_that_are_documented() -> None:
    rows, contract = documented(
        "announcement", "header of an announcement", encode_announcement(TOLD)
    )
    value = json.loads(encode_announcement(TOLD).value)
    fields = rows_under("field of an announcement")
    assert set(value) == set(contract["payload"]["properties"]) == set(fields)
    named = set(re.findall(r"`(\w+)`", fields["gate"]))
    assert named == {*value["gate"], *value["gate"]["figures"][0]}
    for kind in get_args(Kind):
        said = texts(encode_announcement(replace(TOLD, kind=kind)).headers)["icd_kind"]
        assert said in headers_schema("announcement")["properties"]["icd_kind"]["enum"]
        assert f"`{said}`" in rows["icd_kind"]
        assert kind in contract["payload"]["properties"]["kind"]["enum"]


def test_alerts_have_the_headers_and_fields_that_are_documented() -> None:
    message = encode_alert(ALERT)
    _, contract = documented("alert", "## Alerts", message)
    payload, value = contract["payload"], json.loads(message.value)
    fields = rows_under("field of an alert")
    named = {name for row in fields for name in row.split("`, `")}
    assert set(value) == set(payload["properties"]) == named
    assert payload["properties"]["event"]["enum"] == [*KINDS, MOVED]
    kept = json.dumps({name: value[name] for name in payload["required"]} | {"new": 1}).encode()
    assert decode_alert(message.key, message.value, message.headers) == ALERT
    assert decode_alert(message.key, kept, message.headers).text == ALERT.text


def test_known_nodes_have_the_headers_that_are_documented_and_a_reader_asks_for_no_more() -> None:
    said = KnownNode("a/b", "7018", "east")
    message = encode_known(said, DAY.end, "noc")
    _, contract = documented("known", "## Known nodes", message)
    assert contract["payload"]["properties"]["community"]["maxLength"] == MOST_LABEL_BYTES
    key = contract["bindings"]["kafka"]["key"]
    assert key["minLength"] <= len(message.key) <= key["maxLength"] == DEFAULT_LIMITS.name_bytes
    assert message.key == b"a%2Fb/7018"
    required = headers_schema("known")["required"]
    kept = tuple(pair for pair in message.headers if pair[0] in required)
    assert decode_known(message.key, message.value, kept) == said
    assert decode_known(message.key, None, ()) == replace(said, community=None)


def test_rows_of_members_have_the_headers_and_fields_that_are_documented() -> None:
    said = MemberRow("a/b", 7018, 4, DAY.start, DAY.end, "a/b/1", 0.97, "RU, UA")
    message = encode_member(said, "a/b/1@m@1#7")
    _, contract = documented("member", "header of a row", message)
    value = json.loads(message.value)
    fields = rows_under("field of a row")
    assert list(value) == list(contract["payload"]["properties"]) == list(fields)
    key = contract["bindings"]["kafka"]["key"]
    assert key["maxLength"] == MOST_GRAPH_BYTES + 1 + MOST_NODE_BYTES
    assert message.key == b"a%2Fb/7018"
    required = headers_schema("member")["required"]
    kept = tuple(pair for pair in message.headers if pair[0] in required)
    assert decode_member(message.key, message.value, kept) == said


def test_topics_are_those_that_topics_create_makes() -> None:
    made = {topic.name for topic in DEFAULT_TOPICS}
    addresses = {channel["address"] for channel in CONTRACT["channels"].values()}
    assert addresses <= made
    assert set(rows_under("## Topics")) == addresses


def test_limits_are_those_of_the_code() -> None:
    limits = rows_under("## Limits")
    numbers = [int(match) for row in limits.values() for match in re.findall(r"\b\d{4,}\b", row)]
    ours = DEFAULT_LIMITS
    record = KafkaSettings.model_fields["max_message_bytes"].default
    names = [ours.name_bytes, NAMES_IN_AN_ID * ours.name_bytes]
    sizes = [record, ours.decoded_bytes, ours.rows, ours.header_bytes, *names, MOST_NODE_BYTES]
    assert numbers == sizes
    assert (
        resolved(CONTRACT["components"]["schemas"]["nodeId"])["oneOf"][1]["maxLength"] == sizes[-1]
    )
    assert resolved(CONTRACT["components"]["schemas"]["text"])["maxLength"] == ours.name_bytes
    assert f"{MOST_GRAPH_BYTES} bytes" in limits["the key"]
    key = CONTRACT["components"]["messageBindings"]["keyedByGraph"]["kafka"]["key"]
    assert key["maxLength"] == MOST_GRAPH_BYTES
    assert resolved(CONTRACT["components"]["schemas"]["arrowStream"])["maxLength"] == record


def stages_in(function: ast.FunctionDef) -> Iterator[str]:
    """The stages with which a function refuses records, as `Refused("decode", error)`."""
    nodes = list(ast.walk(function))
    for call in nodes:
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "Refused":
            named = ast.unparse(call.args[0])  # a constant, or a name that is assigned constants
            values = [
                node.value
                for node in nodes
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == named
            ]
            yield from (ast.literal_eval(value) for value in values or [call.args[0]])


def test_the_stages_of_dead_letters_are_those_of_the_code() -> None:
    used = {
        stage
        for file in (DOCS.parent / "stream_icd").rglob("*.py")
        if "Refused(" in (text := file.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef)
        for stage in stages_in(node)
    }
    _, _, documented = rows_under("## Bad messages")["icd_dlq_stage"].partition(":")
    assert set(re.findall(r"`(\w+)`", documented)) == used
    schema = CONTRACT["components"]["schemas"]["deadLetterHeaders"]
    assert set(schema["properties"]["icd_dlq_stage"]["enum"]) == used


@pytest.mark.parametrize("name", MESSAGES)
def test_columns_are_those_of_the_tables(name: str) -> None:
    heading = {"snapshot": "### Edges of a snapshot", "events": "### Events of a snapshot"}.get(
        name, "### Nodes of communities"
    )
    columns = set(pa.ipc.open_stream(MESSAGES[name][0].value).schema.names)
    further = {"weight"} | (set(MEMBERSHIP) if name == "labels" else set())
    assert columns <= set(rows_under(heading)) <= columns | further


def test_the_metadata_of_tables_is_documented() -> None:
    for message, *_ in MESSAGES.values():
        metadata = pa.ipc.open_stream(message.value).schema.metadata or {}
        documented = set(rows_under("metadata of the schema")) if metadata else set()
        assert {key.decode() for key in metadata} == documented


def test_the_types_of_event_columns_are_those_documented() -> None:
    rows = rows_under("### Events of a snapshot")
    for name, kind in FIELDS.items():
        text = {"string": "utf8", "double": "float64"}.get(str(kind), str(kind))
        assert f"`{text}`" in rows[name].replace("list<int64>", "list<item: int64>")


def test_the_asyncapi_document_holds_together() -> None:
    assert CONTRACT["asyncapi"] == "3.0.0"
    whole = resolved(CONTRACT)  # every reference leads somewhere
    for channel in whole["channels"].values():
        assert channel["messages"]
    for operation in whole["operations"].values():
        assert operation["action"] in {"send", "receive"}
        assert operation["channel"] in whole["channels"].values()
    for schema in whole["components"]["schemas"].values():
        jsonschema.Draft7Validator.check_schema(schema)


@pytest.mark.parametrize("kind", ["int8", "uint64", "utf8", "large_utf8"])
def test_ids_of_the_documented_types_are_read(kind: str) -> None:
    values = [1, 2, 3] if "int" in kind else ["a", "b", "c"]
    ids = pa.array(values, getattr(pa, kind)())
    assert f"`{kind}`" in PROSE
    ring = ids, ids.take(pa.array([1, 2, 0]))
    snapshot = snapshot_from_pairs(*ring, graph="g", id="g/1", window=DAY)
    message = encode_snapshot(snapshot)
    sent = write_table(pa.table(ring, names=["src", "dst"]))
    assert decode_snapshot(message.key, sent, message.headers) == snapshot
    assert snapshot.nodes.type == (pa.int64() if "int" in kind else pa.string())


def test_the_producer_in_the_prose_sends_what_we_read(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, Any]] = []

    class Producer:
        def __init__(self, config: dict[str, Any]) -> None:
            assert "bootstrap.servers" in config

        def produce(self, topic: str, **record: Any) -> None:
            sent.append({"topic": topic, **record})

        def flush(self) -> None: ...

    monkeypatch.setitem(sys.modules, "confluent_kafka", SimpleNamespace(Producer=Producer))
    example = PROSE.split("```python\n")[1].split("```")[0]
    exec(compile(example, "docs/wire.md", "exec"), {})
    (record,) = sent
    assert record["topic"] == "icd.snapshots.v1"
    headers = tuple((name, text.encode()) for name, text in record["headers"].items())
    snapshot = decode_snapshot(record["key"].encode(), record["value"], headers)
    assert (snapshot.n_nodes, snapshot.n_edges) == (4, 3)
