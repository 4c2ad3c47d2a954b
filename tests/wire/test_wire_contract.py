"""docs/wire.md and docs/asyncapi.yaml say what the code does, and what they say is enough."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args, get_type_hints

import jsonschema
import pyarrow as pa
import pytest
import yaml

from stream_icd.core.errors import BadInput, BadKnown, BadSnapshot
from stream_icd.core.events import EVENT_KINDS
from stream_icd.core.headers import Headers
from stream_icd.core.snapshot import MOST_GRAPH_BYTES, MOST_NODE_BYTES
from stream_icd.kafka.messages.claims import Claim
from stream_icd.kafka.messages.records import Stage
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import DEFAULT_TOPICS
from stream_icd.kafka.tracing import MOST_BYTES, Tracing, context_of
from stream_icd.methods.tracking.rules import MOVED
from stream_icd.streaming.dead_letters.letters import DeadLetter, dead_letter
from stream_icd.wire.alerts import decode_alert
from stream_icd.wire.announcements import Announcement, encode_announcement
from stream_icd.wire.communities import MEMBERSHIP
from stream_icd.wire.limits import DEFAULT_LIMITS
from stream_icd.wire.nodes import encode_known
from stream_icd.wire.snapshots import decode_snapshot
from tests.wire.samples import (
    ALERT,
    ANNOUNCEMENT,
    DAY,
    EVERY_MESSAGE,
    KNOWN,
    MEMBER,
    MESSAGES,
    decoded,
    with_header,
)

DOCS = Path(__file__).parents[2] / "docs"
PROSE = (DOCS / "wire.md").read_text(encoding="utf-8")
CONTRACT: dict[str, Any] = yaml.safe_load((DOCS / "asyncapi.yaml").read_text(encoding="utf-8"))
JSON = {
    "announcement": "header of an announcement",
    "alert": "## Alerts",
    "known": "## Known nodes",
    "member": "header of a row",
}
"""The messages whose value is JSON, and what precedes the table of their headers."""
CONTEXT = {"traceparent": f"00-{1:032x}-{2:016x}-01", "tracestate": "vendor=1"}
LETTER = dead_letter(
    Record("icd.snapshots.v1", 3, 41, 0, b"g", b""), "decode", BadSnapshot("ce_id is missing")
)
MARKED = DeadLetter.of(Record("icd.snapshots.v1.dlq", 0, 7, 0, b"g", b""))
HEADERS: dict[str, tuple[Any, str]] = {
    **{kind: (EVERY_MESSAGE[kind][0].headers, heading) for kind, heading in JSON.items()},
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
            decoded(message, decode, headers=with_header(message.headers, left_out, None))
        except BadInput:
            demanded.add(left_out)
    assert demanded <= set(schema["required"])
    # What a snapshot's producer must send is what the reader insists on, no more and no less.
    if kind == "snapshot":
        assert demanded == set(schema["required"])


@pytest.mark.parametrize("kind", HEADERS)
def test_headers_of_other_messages_are_what_contract_and_prose_say(kind: str) -> None:
    headers, heading = HEADERS[kind]
    schema, rows = headers_schema(kind), rows_under(heading)
    jsonschema.Draft7Validator(schema).validate(texts(headers))  # AsyncAPI's draft
    assert set(texts(headers)) == set(schema["properties"]) == set(rows)
    if kind in JSON:
        jsonschema.validate(value_of(kind), CONTRACTS[kind]["payload"])
        assert required_in(rows) == set(schema["required"])


def test_any_message_about_a_window_may_have_a_trace_or_be_a_claim() -> None:
    claim = texts(HEADERS["claimHeaders"][0])
    for left_out in claim:
        rest = {name: text for name, text in claim.items() if name != left_out}
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft7Validator(SCHEMAS["claimHeaders"]).validate(rest)
    assert context_of(tuple(Tracing.with_context((), CONTEXT))) == CONTEXT
    for kind, (message, decode, _) in MESSAGES.items():
        of_traits = [trait["headers"] for trait in CONTRACTS[kind]["traits"]]
        assert SCHEMAS["claimHeaders"] in of_traits
        assert SCHEMAS["traceHeaders"] in of_traits
        decoded(message, decode, headers=Tracing.with_context(message.headers, CONTEXT))
    # A trace that others made long takes no room from a result.
    for length, names in ((8000, ["ce_traceparent"]), (505, ["ce_traceparent", "ce_tracestate"])):
        headers = Tracing.with_context((), {**CONTEXT, "tracestate": "vendor=" + length * "1"})
        assert [name for name, _ in headers] == names
        assert sum(len(name) + len(value) for name, value in headers) < MOST_BYTES


def value_of(kind: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(EVERY_MESSAGE[kind][0].value)
    return value


def test_announcements_have_the_fields_that_are_documented() -> None:
    contract, rows = CONTRACTS["announcement"], rows_under("header of an announcement")
    value, fields = value_of("announcement"), rows_under("field of an annou")
    assert set(value) == set(contract["payload"]["properties"]) == set(fields)
    named = set(re.findall(r"`(\w+)`", fields["gate"]))
    assert named == {*value["gate"], *value["gate"]["figures"][0]}
    for kind in get_args(get_type_hints(Announcement)["kind"]):
        header = texts(encode_announcement(replace(ANNOUNCEMENT, kind=kind)).headers)["icd_kind"]
        assert header in contract["headers"]["properties"]["icd_kind"]["enum"]
        assert f"`{header}`" in rows["icd_kind"]
        assert kind in contract["payload"]["properties"]["kind"]["enum"]


def test_alerts_and_messages_about_nodes_are_read_with_no_more_than_is_documented() -> None:
    for kind, sent in (("known", KNOWN), ("member", MEMBER), ("alert", ALERT)):
        message, decode, _ = EVERY_MESSAGE[kind]
        required = headers_schema(kind)["required"]
        headers = tuple(header for header in message.headers if header[0] in required)
        assert decoded(message, decode, headers=headers) == sent
    payload, value = CONTRACTS["alert"]["payload"], value_of("alert")
    named = {name for row in rows_under("field of an alert") for name in row.split("`, `")}
    assert set(value) == set(payload["properties"]) == named
    assert payload["properties"]["event"]["enum"] == [*EVENT_KINDS, MOVED]
    least = json.dumps({name: value[name] for name in payload["required"]} | {"new": 1}).encode()
    assert decoded(EVERY_MESSAGE["alert"][0], decode_alert, value=least).text == ALERT.text
    payload, key = CONTRACTS["known"]["payload"], EVERY_MESSAGE["known"][0].key
    schema = CONTRACTS["known"]["bindings"]["kafka"]["key"]
    assert key == EVERY_MESSAGE["member"][0].key == b"a%2Fb/7018"
    assert schema["minLength"] <= len(key) <= schema["maxLength"] == DEFAULT_LIMITS.name_bytes
    most = payload["properties"]["community"]["maxLength"]
    encode_known("g", "7", "x" * most, DAY.end, "noc")
    with pytest.raises(BadKnown, match=f"more than {most} bytes"):
        encode_known("g", "7", "x" * (most + 1), DAY.end, "noc")
    properties = CONTRACTS["member"]["payload"]["properties"]
    assert list(value_of("member")) == list(properties) == list(rows_under("field of a row"))
    schema = CONTRACTS["member"]["bindings"]["kafka"]["key"]
    assert schema["maxLength"] == MOST_GRAPH_BYTES + 1 + MOST_NODE_BYTES


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


def test_the_stages_of_dead_letters_are_those_of_the_code() -> None:
    _, _, documented = rows_under("## Bad messages")["icd_dlq_stage"].partition(":")
    assert set(re.findall(r"`(\w+)`", documented)) == set(get_args(Stage))
    in_contract = SCHEMAS["deadLetterHeaders"]["properties"]["icd_dlq_stage"]["enum"]
    assert set(in_contract) == set(get_args(Stage))


@pytest.mark.parametrize("name", MESSAGES)
def test_columns_metadata_and_types_of_tables_are_documented(name: str) -> None:
    heading = {"snapshot": "### Edges of a snapshot", "events": "### Events of a snapshot"}.get(
        name, "### Nodes of communities"
    )
    schema, rows = pa.ipc.open_stream(MESSAGES[name][0].value).schema, rows_under(heading)
    further = {"weight"} | (set(MEMBERSHIP) if name == "labels" else set())
    assert set(schema.names) <= set(rows) <= {*schema.names, *further}
    if schema.metadata:
        documented = set(rows_under("metadata of the schema"))
        assert {key.decode() for key in schema.metadata} == documented
    if name == "events":
        types = {"string": "utf8", "double": "float64", "list<item: int64>": "list<int64>"}
        for field in schema:
            if field.name != "members":  # of the type of ids
                assert f"`{types.get(str(field.type), field.type)}`" in rows[field.name]


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
