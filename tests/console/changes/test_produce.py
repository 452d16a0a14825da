"""Records written by the console: what arrives is what was typed, once, where it was said."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

import drumlin
from console.console_process import Visitor
from drumlin.client.client import Client
from drumlin.console.changes.record import new_record
from rig.brokers.secured_drumlin import SecuredDrumlin

HOSTILE = "</script><img src=x onerror=alert(1)>\u202e\0"
NULL = {"kind": "null"}


@pytest.fixture(scope="module")
def client(broker: SecuredDrumlin):
    with drumlin.connect(broker.address) as client:
        client.create_topic("written", 3)
        yield client


def _text(text: str, kind: str = "text") -> dict[str, str]:
    return {"kind": kind, "text": text}


def _record(**given: Any) -> dict[str, Any]:
    return {"topic": "written", "partition": None, "key": NULL, "value": _text("v")} | given


def _read(client: Client, found: dict[str, Any]) -> Any:
    """The record at the place that the console told, which is the last one there."""
    partition, offset = found["partition"], found["offset"]
    ((record,),) = client.read_records("written", [partition], start={partition: offset})
    return record


@pytest.mark.parametrize(
    ("field", "data"),
    [
        (_text(HOSTILE), HOSTILE.encode()),
        pytest.param(_text(""), b"", marks=pytest.mark.deep),
        pytest.param(
            _text('{"a": 1.0, "a":2}', "json"), b'{"a": 1.0, "a":2}', marks=pytest.mark.deep
        ),
        (_text("00 ff\n0A", "hex"), b"\x00\xff\n"),
        (NULL, None),
    ],
)
def test_a_record_arrives_as_it_was_typed(
    visitor: Visitor, client: Client, field: dict[str, str], data: bytes | None
) -> None:
    headers = [{"name": HOSTILE, **field}, {"name": "h"} | NULL]
    answer = visitor.post("produce", _record(key=field, value=field, headers=headers))
    assert answer.status == 200, answer.error
    record = _read(client, answer.json)
    assert (record.key, record.value) == (data, data)
    assert list(record.headers) == [(HOSTILE, data), ("h", None)]
    assert record.timestamp == answer.json["timestamp_ms"]


def test_a_key_goes_where_other_producers_put_it(visitor: Visitor, client: Client) -> None:
    for key in map(str, range(8)):
        found = visitor.post("produce", _record(key=_text(key))).json
        with client.writer("written") as writer:
            delivery = writer.send("other", key=key)
        assert found["partition"] == delivery.result().partition
    assert visitor.post("produce", _record(key=_text("0"), partition=2)).json["partition"] == 2


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"key": _text("{", "json")}, "key: not JSON"),
        ({"value": _text("[" * 100_000, "json")}, "value: not JSON"),
        ({"value": _text('{"a": NaN}', "json")}, "value: not JSON: NaN"),
        ({"value": _text("0x", "hex")}, "value: not hex digits"),
        ({"value": _text("\ud800")}, "value"),
        ({"value": {"kind": "avro"}}, "value: its kind is one of"),
        ({"value": {"kind": "text", "text": 1}}, "value: expected a text"),
        ({"value": "v"}, "value: its kind"),
        ({"value": None}, "value: its kind"),
        ({"value": {"kind": "schema", "text": "{}", "subject": "s"}}, "see --registry"),
        ({"headers": [{"name": "h", "kind": "hex", "text": "x"}]}, "header 'h': not hex digits"),
        ({"headers": [{"name": "\ud800"} | NULL]}, "header name"),
        ({"headers": [{"name": ""} | NULL]}, "header 1"),
        ({"headers": [{"name": "h"} | NULL] * 101}, "'headers'"),
        ({"headers": {}}, "'headers'"),
    ],
)
def test_what_cannot_be_a_record_is_named(given: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=re.escape(named)):
        asyncio.run(new_record(_record(**given), None))


def test_a_form_that_is_no_record_is_refused(visitor: Visitor, client: Client) -> None:
    ends = client.offsets("written", "latest")
    for given, named in (
        ({"topic": ""}, "'topic'"),
        ({"topic": "\ud800"}, "'topic'"),
        ({"topic": 1}, "'topic'"),
        ({"partition": -1}, "'partition'"),
        ({"partition": True}, "'partition'"),
        ({"value": _text("0x", "hex")}, "value: not hex digits"),
    ):
        answer = visitor.post("produce", _record(**given))
        assert (answer.status, named in answer.error) == (400, True), answer
    assert client.offsets("written", "latest") == ends


def test_topics_and_partitions_are_not_made(visitor: Visitor, client: Client) -> None:
    for given, named in (({"topic": HOSTILE}, "img"), ({"topic": "absent"}, "'absent'")):
        answer = visitor.post("produce", _record(**given))
        assert answer.status in (400, 404)
        assert named in answer.error
    answer = visitor.post("produce", _record(partition=3))
    assert (answer.status, "partition 3 does not exist" in answer.error) == (404, True)
    assert "absent" not in client.list_topics()


def test_a_refusal_is_told_as_the_broker_says_it(visitor: Visitor, client: Client) -> None:
    client.create_topic("written-small", 1, configs={"max.message.bytes": "1000"})
    answer = visitor.post("produce", _record(topic="written-small", value=_text("x" * 5_000)))
    assert answer.status == 400
    assert "MESSAGE_TOO_LARGE" in answer.error.upper()
    assert client.offsets("written-small", "latest") == {0: 0}
    client.create_topic("written-compacted", 1, configs={"cleanup.policy": "compact"})
    answer = visitor.post("produce", _record(topic="written-compacted"))
    assert (answer.status, "INVALID_RECORD" in answer.error.upper()) == (400, True), answer.error


def test_a_record_too_large_to_be_typed_is_refused(visitor: Visitor) -> None:
    answer = visitor.post("produce", _record(value=_text("x" * (1 << 20))))
    assert (answer.status, "more than 1048576 bytes" in answer.error) == (400, True)


@pytest.mark.deep
def test_what_brokers_tell_of_rights(visitor: Visitor, client: Client) -> None:
    assert visitor.get("rights_on_topic", topic="written").json == {"may_write": True}
    client.commit_offsets("moved-rights", {("written", 0): 0})
    assert visitor.get("rights_on_group", group="moved-rights").json == {"may_reset": True}
