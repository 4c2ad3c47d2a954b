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
from typing import Any, get_args, get_type_hints

import jsonschema
import pyarrow as pa
import pytest
import yaml

from stream_icd.core.errors import BadInput, BadKnown, BadSnapshot
from stream_icd.core.events import KINDS
from stream_icd.core.headers import Headers
from stream_icd.core.lineage import Figure, Gate
from stream_icd.core.snapshot import MOST_GRAPH_BYTES, MOST_NODE_BYTES, snapshot_from_pairs
from stream_icd.kafka.messages.claims import Claim
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import DEFAULT_TOPICS
from stream_icd.kafka.tracing import MOST_BYTES, Tracing, context_of
from stream_icd.methods.tracking.rules import MOVED
from stream_icd.streaming.dead_letters.letters import DeadLetter, dead_letter
from stream_icd.wire.alerts import decode_alert, encode_alert
from stream_icd.wire.announcements import Announcement, encode_announcement
from stream_icd.wire.arrow_stream import write_table
from stream_icd.wire.communities import MEMBERSHIP
from stream_icd.wire.limits import DEFAULT_LIMITS
from stream_icd.wire.nodes import (
    KnownNode,
    MemberRow,
    decode_known,
    decode_member,
    encode_known,
    encode_member,
)
from stream_icd.wire.snapshots import decode_snapshot, encode_snapshot
from tests.wire.samples import ALERT, DAY, EVENTS, MESSAGES

DOCS = Path(__file__).parents[2] / "docs"
PROSE = (DOCS / "wire.md").read_text(encoding="utf-8")
CONTRACT: dict[str, Any] = yaml.safe_load((DOCS / "asyncapi.yaml").read_text(encoding="utf-8"))
FIGURES = (Figure("NMI, %", 70, 71, 0.5, 1.5),)
GATE = Gate(
    "as@00000000",
    "as@5b1f09c2",
    DAY.start,
    DAY.end,
    10,
    passed=True,
    reason="better",
    figures=FIGURES,
)
TOLD = Announcement(
    "promoted",
    "s3://bucket/models",
    "better",
    "retrain",
    DAY.end,
    GATE.challenger,
    GATE.challenger,
    3,
    GATE,
)
KNOWN = KnownNode("a/b", "7018", "east")
ROW = MemberRow("a/b", 7018, 4, DAY.start, DAY.end, "a/b/1", 0.97, "RU, UA")
JSON = {
    "announcement": (encode_announcement(TOLD), "header of an announcement"),
    "alert": (encode_alert(ALERT), "## Alerts"),
    "known": (encode_known(KNOWN, DAY.end, "noc"), "## Known nodes"),
    "member": (encode_member(ROW, "a/b/1@m@1#7"), "header of a row"),
}
"""A message of each kind whose value is JSON, and what precedes the table of its headers."""
CONTEXT = {"traceparent": f"00-{1:032x}-{2:016x}-01", "tracestate": "vendor=1"}
LETTER = dead_letter(
    Record("icd.snapshots.v1", 3, 41, 0, b"g", b""), "decode", BadSnapshot("ce_id is missing")
)
MARKED = DeadLetter.of(Record("icd.snapshots.v1.dlq", 0, 7, 0, b"g", b""))
HEADERS: dict[str, tuple[Any, str]] = {
    **{kind: (message.headers, heading) for kind, (message, heading) in JSON.items()},
    "deadLetter": (LETTER.headers, "header of a dead letter"),
    "retried": (MARKED.marker("icd.snapshots.v1", DAY.end).headers, "header of a marker"),
    "claimHeaders": (Claim("s3://b/x.arrows", 5, "ab" * 32).headers(), "header of a claim"),
    "traceHeaders": (Tracing.with_context((), CONTEXT), "## Traces"),
}


def texts(headers: Headers) -> dict[str, str]:
    return {name: (value or b"").decode() for name, value in headers}


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


SCHEMAS = resolved(CONTRACT["components"]["schemas"])
CONTRACTS = resolved(CONTRACT["components"]["messages"])


def headers_schema(kind: str) -> dict[str, Any]:
    schema: dict[str, Any] = CONTRACTS[kind]["headers"] if kind in CONTRACTS else SCHEMAS[kind]
    return schema


def rows_under(heading: str) -> dict[str, str]:
    """First column and the rest of the table that follows `heading` in the prose."""
    section = PROSE.split(heading, 1)[1]
    table = re.search(r"(?:^.* \| .*\n)+", section, re.MULTILINE)
    assert table is not None, f"no table under {heading!r}"
    rows = table.group().splitlines()[2:]
    return {row.split(" | ")[0].strip("`"): row.split(" | ", 1)[1] for row in rows}


def required_in(rows: dict[str, str]) -> set[str]:
    return {name for name, text in rows.items() if not text.startswith("optional")}


@pytest.mark.parametrize("kind", MESSAGES)
def test_a_message_about_a_window_is_what_contract_and_prose_say(kind: str) -> None:
    message, decode, _ = MESSAGES[kind]
    headers, schema = texts(message.headers), headers_schema(kind)
    jsonschema.validate(headers, schema)
    assert headers["ce_type"] == CONTRACTS[kind]["name"]
    own = rows_under(f"`{headers['ce_type']}`\n")
    rows = rows_under("On every message about a window:") | own
    assert set(headers) == set(schema["properties"]) == set(rows)
    assert required_in(rows) == set(schema["required"])
    demanded = set()
    for left_out, _ in message.headers:
        try:
            kept = tuple(header for header in message.headers if header[0] != left_out)
            decode(message.key, message.value, kept)
        except BadInput:
            demanded.add(left_out)
    assert demanded <= set(schema["required"])
    # What a snapshot's producer must send is what the reader insists on, no more and no less.
    if kind == "snapshot":
        assert demanded == set(schema["required"])


@pytest.mark.parametrize("kind", HEADERS)
def test_headers_of_other_messages_are_what_contract_and_prose_say(kind: str) -> None:
    headers, heading = HEADERS[kind]
    said = texts(headers)
    schema, rows = headers_schema(kind), rows_under(heading)
    jsonschema.Draft7Validator(schema).validate(said)  # AsyncAPI's draft
    assert set(said) == set(schema["properties"]) == set(rows)
    if kind in JSON:
        jsonschema.validate(json.loads(JSON[kind][0].value), CONTRACTS[kind]["payload"])
        assert required_in(rows) == set(schema["required"])


def test_any_message_about_a_window_may_have_a_trace_or_be_a_claim() -> None:
    claim = texts(HEADERS["claimHeaders"][0])
    for left_out in claim:
        some = {name: text for name, text in claim.items() if name != left_out}
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft7Validator(SCHEMAS["claimHeaders"]).validate(some)
    assert context_of(tuple(Tracing.with_context((), CONTEXT))) == CONTEXT
    for kind, (message, decode, _) in MESSAGES.items():
        of_traits = [trait["headers"] for trait in CONTRACTS[kind]["traits"]]
        assert SCHEMAS["claimHeaders"] in of_traits
        assert SCHEMAS["traceHeaders"] in of_traits
        decode(message.key, message.value, Tracing.with_context(message.headers, CONTEXT))


def test_a_trace_that_others_made_long_takes_no_room_from_a_result() -> None:
    headers = Tracing.with_context((), {**CONTEXT, "tracestate": "vendor=" + 8000 * "1"})
    assert [name for name, _ in headers] == ["ce_traceparent"]
    kept = Tracing.with_context((), {**CONTEXT, "tracestate": "vendor=" + 505 * "1"})
    assert [name for name, _ in kept] == ["ce_traceparent", "ce_tracestate"]
    assert sum(len(name) + len(value) for name, value in kept) < MOST_BYTES


def test_announcements_have_the_fields_that_are_documented() -> None:
    contract, rows = CONTRACTS["announcement"], rows_under("header of an announcement")
    value, fields = json.loads(JSON["announcement"][0].value), rows_under("field of an annou")
    assert set(value) == set(contract["payload"]["properties"]) == set(fields)
    named = set(re.findall(r"`(\w+)`", fields["gate"]))
    assert named == {*value["gate"], *value["gate"]["figures"][0]}
    for kind in get_args(get_type_hints(Announcement)["kind"]):
        said = texts(encode_announcement(replace(TOLD, kind=kind)).headers)["icd_kind"]
        assert said in contract["headers"]["properties"]["icd_kind"]["enum"]
        assert f"`{said}`" in rows["icd_kind"]
        assert kind in contract["payload"]["properties"]["kind"]["enum"]


def test_alerts_have_the_fields_that_are_documented() -> None:
    message, payload = JSON["alert"][0], CONTRACTS["alert"]["payload"]
    value = json.loads(message.value)
    named = {name for row in rows_under("field of an alert") for name in row.split("`, `")}
    assert set(value) == set(payload["properties"]) == named
    assert payload["properties"]["event"]["enum"] == [*KINDS, MOVED]
    kept = json.dumps({name: value[name] for name in payload["required"]} | {"new": 1}).encode()
    assert decode_alert(message.key, message.value, message.headers) == ALERT
    assert decode_alert(message.key, kept, message.headers).text == ALERT.text


def test_messages_about_nodes_are_read_with_no_more_than_is_documented() -> None:
    for kind, sent, decode in (("known", KNOWN, decode_known), ("member", ROW, decode_member)):
        message, required = JSON[kind][0], headers_schema(kind)["required"]
        assert message.key == b"a%2Fb/7018"
        kept = tuple(pair for pair in message.headers if pair[0] in required)
        assert decode(message.key, message.value, kept) == sent
    key = CONTRACTS["known"]["bindings"]["kafka"]["key"]
    assert key["minLength"] <= len(message.key) <= key["maxLength"] == DEFAULT_LIMITS.name_bytes
    most = CONTRACTS["known"]["payload"]["properties"]["community"]["maxLength"]
    encode_known(replace(KNOWN, community="x" * most), DAY.end, "noc")
    with pytest.raises(BadKnown, match=f"more than {most} bytes"):
        encode_known(replace(KNOWN, community="x" * (most + 1)), DAY.end, "noc")
    value, payload = json.loads(message.value), CONTRACTS["member"]["payload"]
    assert list(value) == list(payload["properties"]) == list(rows_under("field of a row"))
    key = CONTRACTS["member"]["bindings"]["kafka"]["key"]
    assert key["maxLength"] == MOST_GRAPH_BYTES + 1 + MOST_NODE_BYTES


def test_topics_and_limits_are_those_of_the_code() -> None:
    addresses = {channel["address"] for channel in CONTRACT["channels"].values()}
    assert addresses <= {topic.name for topic in DEFAULT_TOPICS}
    assert set(rows_under("## Topics")) == addresses
    limits, ours = rows_under("## Limits"), DEFAULT_LIMITS
    numbers = [int(match) for row in limits.values() for match in re.findall(r"\b\d{4,}\b", row)]
    record = KafkaSettings.model_fields["max_message_bytes"].default
    names = [ours.name_bytes, 4 * ours.name_bytes]  # of a header, and of ce_id
    sizes = [record, ours.decoded_bytes, ours.rows, ours.header_bytes, *names, MOST_NODE_BYTES]
    assert numbers == sizes
    assert SCHEMAS["nodeId"]["oneOf"][1]["maxLength"] == MOST_NODE_BYTES
    assert SCHEMAS["text"]["maxLength"] == ours.name_bytes
    assert SCHEMAS["arrowStream"]["maxLength"] == record
    assert f"{MOST_GRAPH_BYTES} bytes" in limits["the key"]
    key = CONTRACT["components"]["messageBindings"]["keyedByGraph"]["kafka"]["key"]
    assert key["maxLength"] == MOST_GRAPH_BYTES


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
    assert set(SCHEMAS["deadLetterHeaders"]["properties"]["icd_dlq_stage"]["enum"]) == used


@pytest.mark.parametrize("name", MESSAGES)
def test_columns_and_metadata_of_tables_are_documented(name: str) -> None:
    heading = {"snapshot": "### Edges of a snapshot", "events": "### Events of a snapshot"}.get(
        name, "### Nodes of communities"
    )
    schema = pa.ipc.open_stream(MESSAGES[name][0].value).schema
    further = {"weight"} | (set(MEMBERSHIP) if name == "labels" else set())
    assert set(schema.names) <= set(rows_under(heading)) <= {*schema.names, *further}
    if schema.metadata:
        documented = set(rows_under("metadata of the schema"))
        assert {key.decode() for key in schema.metadata} == documented


def test_the_types_of_event_columns_are_those_documented() -> None:
    rows = rows_under("### Events of a snapshot")
    for field in pa.ipc.open_stream(EVENTS.value).schema.remove_metadata():
        if field.name != "members":  # of the type of ids
            kind = str(field.type)
            text = {"string": "utf8", "double": "float64"}.get(kind, kind)
            assert f"`{text}`" in rows[field.name].replace("list<int64>", "list<item: int64>")


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
