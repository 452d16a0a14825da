"""Filters and schemas as a console answers with them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from fastavro import parse_schema, schemaless_writer

import drumlin
from console.console_process import ConsoleProcess, Visitor
from drumlin.client.client import Client
from drumlin.client.values.framing import header
from rig.brokers.secured_drumlin import SecuredDrumlin
from rig.servers.schema_registry import RegistryRig

EVIL = "<img src=x onerror=alert(1)>"
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "who", "type": "string"}],
}
JSON_SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "integer"}},
    "additionalProperties": False,
}
PROTO = 'syntax = "proto3"; package shop; message Order { int64 id = 1; string who = 2; }'


@pytest.fixture(scope="module")
def client(broker: SecuredDrumlin) -> Iterator[Client]:
    with drumlin.connect(broker.address) as client:
        yield client


def _read(visitor: Visitor, **where: object) -> dict[str, Any]:
    """The outcome of a whole search, as the page asks for it."""
    found: dict[str, Any] = {"records": [], "looked": 0, "requests": 0}
    at: object = "earliest"
    while True:
        answer = visitor.get("filter", at=at, **where)
        assert answer.status == 200, answer.error
        part = answer.json
        found["records"] += part["records"]
        found["looked"] += part["looked"]
        found["requests"] += 1
        at = part["next_offset"]
        if at >= part["end_offset"]:
            return found


def test_records_are_found_by_value(visitor: Visitor, client: Client) -> None:
    client.create_topic("looked-through", 1)
    values = [f'{{"n": {each}, "tag": "{EVIL}"}}' for each in range(3_000)]
    client.append(pa.table({"value": values}), "looked-through")
    where = {"topic": "looked-through", "partition": 0}
    found = _read(visitor, **where, where="value.n>=2998")
    assert [each["offset"] for each in found["records"]] == [2998, 2999]
    assert found["looked"] == 3_000
    found = _read(visitor, **where, where=f"value.tag={EVIL}", limit=500)
    assert [each["offset"] for each in found["records"]] == list(range(3_000))
    assert (found["looked"], found["requests"]) == (3_000, 6)
    for odd in ("n=1", "", "offset=x", "value.n=" + "1" * 600):
        assert visitor.get("filter", **where, where=odd).status == 400
    assert visitor.get("filter", topic=EVIL, partition=0, where="key=1").status in (400, 404)


@pytest.mark.deep
def test_fields_of_a_registry(visitor: Visitor, client: Client, registry: RegistryRig) -> None:
    client.create_topic("by-schema", 1)
    encoded = io.BytesIO()
    schemaless_writer(encoded, parse_schema(ORDER), {"id": 7, "who": EVIL})
    avro = header(registry.add("by-schema-value", ORDER)) + encoded.getvalue()
    text = header(registry.add("by-schema-key", {"type": "string"})) + b"\2k"
    proto = header(registry.add("proto", PROTO, "PROTOBUF")) + b"\0\x08\x09"
    with client.writer("by-schema") as writer:
        writer.send(avro, key=text)
        writer.send(proto, key=b"\0\0\0\0\0")
        writer.send(b"plain", key=b"plain")
        writer.send(header(999) + b"x")
        writer.send(header(registry.add("evil", "[" * 5_000)) + b"x")
    where = {"topic": "by-schema", "partition": 0}
    rows = visitor.get("records", **where, at=0).json["records"]
    shown = [json.loads(each.get("value_by_schema", {}).get("text", "null")) for each in rows]
    assert shown == [{"id": 7, "who": EVIL}, {"id": 9, "who": ""}, None, None, None]
    assert json.loads(rows[0]["key_by_schema"]["text"]) == "k"
    assert all("error" in rows[each]["value_by_schema"] for each in (3, 4))
    assert "value_by_schema" not in rows[2]
    (row,) = visitor.get("search", **where, key=text.hex(), format="hex").json["records"]
    assert json.loads(row["value_by_schema"]["text"])["id"] == 7
    found = _read(visitor, **where, where="value.id > 6")["records"]
    assert [each["offset"] for each in found] == [0, 1]
    assert json.loads(found[0]["value_by_schema"]["text"])["who"] == EVIL
    found = _read(visitor, **where, where=f"value.who={EVIL}")["records"]
    assert [each["offset"] for each in found] == [0]


@pytest.mark.deep
@pytest.mark.parametrize(
    ("kind", "schema", "typed", "shown"),
    [
        ("AVRO", ORDER, {"id": 3, "who": "é"}, {"id": 3, "who": "é"}),
        ("PROTOBUF", PROTO, {"id": 4}, {"id": 4, "who": ""}),
        ("JSON", JSON_SCHEMA, {"id": 5}, {"id": 5}),
    ],
)
def test_a_value_by_a_schema(
    visitor: Visitor,
    client: Client,
    registry: RegistryRig,
    kind: str,
    schema: object,
    typed: object,
    shown: object,
) -> None:
    subject = f"typed {kind} {EVIL}/?&"
    topic = f"typed-{kind}"
    client.create_topic(topic, 1)
    registry.add(subject, schema, kind)

    def write(text: str, subject: str) -> Any:
        value = {"kind": "schema", "text": text, "subject": subject}
        return visitor.post("produce", {"topic": topic, "key": {"kind": "null"}, "value": value})

    assert write(json.dumps(typed), subject).json["offset"] == 0
    (row,) = visitor.get("records", topic=topic, partition=0, at=0).json["records"]
    assert json.loads(row["value_by_schema"]["text"]) == shown
    for text, name, said in (
        ('{"id": "x"}', subject, "value: "),
        ("{", subject, "not JSON"),
        ('{"other": 1}', subject, "value: "),
        ("{}", EVIL, "value: "),
    ):
        refused = write(text, name)
        assert (refused.status, said in refused.error) == (400, True), refused
    assert client.offsets(topic, "latest") == {0: 1}


@pytest.mark.deep
def test_what_takes_one_user_long_keeps_no_other_waiting(
    open_console: ConsoleProcess, client: Client, registry: RegistryRig
) -> None:
    client.create_topic("waited-for", 1)
    client.append(pa.table({"value": ["v"]}), "waited-for")
    registry.add("endless", {"type": "string", "pattern": "^(a+)+$"}, "JSON")
    hostile, other = Visitor(open_console), Visitor(open_console)
    assert hostile.login().status == other.login().status == 200
    value = {"kind": "schema", "text": json.dumps("a" * 60 + "!"), "subject": "endless"}
    endless = {"topic": "waited-for", "key": {"kind": "null"}, "value": value}
    with ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(hostile.post, "produce", endless) for _ in range(2)]
        for _ in range(3):
            found = other.get("filter", topic="waited-for", partition=0, at=0, where="value=v")
            assert [each["offset"] for each in found.json["records"]] == [0]
            assert not any(each.done() for each in asked)
        for each in asked:
            assert each.result().status in (400, 504)
    assert client.offsets("waited-for", "latest") == {0: 1}
