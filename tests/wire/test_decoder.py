"""Every declared message, every version: nothing that a peer sends is believed."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import pytest

from drumlin.wire.by_hand.produce_request import read_produce_request
from drumlin.wire.error_codes import MalformedMessage
from drumlin.wire.messages import ELEMENTS_MAX, parse_request, parse_request_header, parse_response
from drumlin.wire.schema import encoder as encoders
from drumlin.wire.schema.declaration import fields_of
from drumlin.wire.schema.decoder import UNREADABLE
from drumlin.wire.uvarint import read_uvarint
from rig.brokers.scripted_broker import DECLARED
from rig.data.arbitrary_messages import cases
from rig.depth import so_many


@pytest.mark.parametrize("api", DECLARED)
def test_a_message_that_ends_early_is_refused(api: str) -> None:
    rng, few = random.Random(api), so_many(20, 40)
    for case in cases(api):
        _, data = case.arbitrary(rng)
        for size in {
            *range(min(len(data), few)),
            *(rng.randrange(len(data) + 1) for _ in range(8)),
        }:
            if size < len(data):
                with pytest.raises(UNREADABLE):
                    case.decode(data[:size])


@pytest.mark.parametrize("api", DECLARED)
def test_damaged_messages_are_read_or_refused(api: str) -> None:
    rng = random.Random(api)
    for case in cases(api):
        for _ in range(20):
            data = bytearray(case.arbitrary(rng)[1] + b"\x00")
            for _ in range(rng.randrange(1, 4)):
                data[rng.randrange(len(data))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
            try:
                _, end = case.decode(bytes(data))
            except UNREADABLE:
                continue
            assert end <= len(data)


@pytest.mark.parametrize("api", DECLARED)
def test_unknown_tagged_fields_are_passed_over(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each struct of a message gets a field with a tag that no schema knows, or two."""
    rng = random.Random(api)

    def with_unknown_tags(self: Any, _: Any) -> None:
        self._line(r"b += b'\x02\xe7\x07\x03abc\x88\x27\x00'")

    monkeypatch.setattr(encoders, "_compiled", {})
    monkeypatch.setattr(encoders._Compiler, "_tagged", with_unknown_tags)
    for case in cases(api):
        if case.flexible:
            message, _ = case.decode(case.arbitrary(rng)[1])
            data = case.encode(message)
            assert case.decode(data) == (_without_tags(message, case.version), len(data))


def _without_tags(message: Any, version: int) -> Any:
    """The message with its tagged fields as they are when they are not sent."""
    if isinstance(message, tuple):
        return tuple(_without_tags(each, version) for each in message)
    if not hasattr(message, "__dataclass_fields__"):
        return message
    return type(message)(
        **{
            each.name: each.default
            if each.tag is not None
            else _without_tags(getattr(message, each.name), version)
            for each in fields_of(type(message), version)
        }
    )


@pytest.mark.parametrize("api", DECLARED)
def test_announced_arrays_cost_nothing(api: str) -> None:
    """2^32-2 elements, announced wherever a message may begin with an array."""
    for case in cases(api):
        for lead in range(12):
            for count in (b"\xff\xff\xff\xff\x0f", b"\x7f\xff\xff\xff"):
                data = bytes(lead) + count + bytes(4)
                tracemalloc.start()
                try:
                    case.decode(data)
                except UNREADABLE:
                    pass
                finally:
                    _, peak = tracemalloc.get_traced_memory()
                    tracemalloc.stop()
                assert peak < 1_000_000


def test_a_varint_has_five_bytes_at_most() -> None:
    assert read_uvarint(b"\xff\xff\xff\xff\x0f", 0) == (2**32 - 1, 5)
    for rest in (b"\x01", b"\x81\x01"):
        with pytest.raises(MalformedMessage, match="more than 5 bytes"):
            read_uvarint(b"\x80" * 5 + rest, 0)


def test_the_count_that_was_announced_is_named() -> None:
    with pytest.raises(MalformedMessage, match="topics announces 4294967294 elements"):
        parse_request("metadata", 13, bytes.fromhex("ffffffff0f"), 0)
    with pytest.raises(MalformedMessage, match="topics announces 2147483647 elements"):
        parse_request("metadata", 1, bytes.fromhex("7fffffff"), 0)
    with pytest.raises(MalformedMessage, match="brokers announces 1000 elements"):
        parse_response("metadata", 1, bytes(4) + (1000).to_bytes(4, "big") + bytes(100))


def test_a_request_has_only_so_many_elements() -> None:
    """One element takes a byte or two, and many times that when it is read."""
    count = ELEMENTS_MAX
    most = count.to_bytes(4, "big") + b"\x00\x00" * count
    assert len(parse_request("delete_groups", 1, most, 0).groups_names) == count
    more = (count + 1).to_bytes(4, "big") + b"\x00\x00" * (count + 1)
    with pytest.raises(MalformedMessage, match="too many"):
        parse_request("delete_groups", 1, more, 0)
    topic = b"\x00\x00" + (1000).to_bytes(4, "big") + bytes(12_000)
    topics = (count // 1000).to_bytes(4, "big") + topic * (count // 1000)
    with pytest.raises(MalformedMessage, match="too many, with those before"):
        parse_request("delete_records", 1, topics + bytes(4), 0)


def test_a_response_has_as_many_elements_as_its_broker_says() -> None:
    count = ELEMENTS_MAX + 1
    data = bytes(8) + count.to_bytes(4, "big") + b"\x00\x00\x00\x00" * count
    assert len(parse_response("delete_groups", 1, data)[1].results) == count


def test_strings_have_a_limit() -> None:
    """As in Apache Kafka: 32,767 bytes, with compact lengths too."""
    name = "x" * 32_767
    shortest = _find_coordinator(name)
    assert parse_request("find_coordinator", 4, shortest, 0).coordinator_keys == (name,)
    with pytest.raises(MalformedMessage, match="a string of 32768 bytes; 32767 are allowed"):
        parse_request("find_coordinator", 4, _find_coordinator(name + "x"), 0)


def _find_coordinator(key: str) -> bytes:
    encoded = key.encode()
    size = len(encoded) + 1
    length = bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14])
    return b"\x00\x02" + length + encoded + b"\x00"


def test_byte_fields_have_no_such_limit() -> None:
    size = 100_000
    data = b"\x00\x01g\x00\x00\x00\x01\x00\x01m\x00\x00\x00\x01\x00\x01m"
    data += size.to_bytes(4, "big") + bytes(size)
    assert len(parse_request("sync_group", 0, data, 0).assignments[0].assignment) == size


def test_text_that_is_no_utf_8_is_refused() -> None:
    with pytest.raises(MalformedMessage, match=r"metadata request v1: .*utf-8"):
        parse_request("metadata", 1, b"\x00\x00\x00\x01\x00\x01\xff", 0)


def test_tagged_fields_are_few() -> None:
    """Two bytes make one: a header of 10 MB would be five million, read on the event loop."""
    header = bytes.fromhex("0003000c00000001ffff")

    def tags(count: int) -> bytes:
        return bytes([count]) + b"\x63\x00" * count

    body = b"\x01\x00\x00"
    for count in (0, 32):
        frame = header + tags(count) + body + tags(count)
        start = parse_request_header(frame).size
        assert start == len(header) + len(tags(count))
        assert parse_request("metadata", 12, frame, start).topics == ()
    with pytest.raises(MalformedMessage, match="33 tagged fields; 32 are allowed"):
        parse_request_header(header + tags(33) + body)
    with pytest.raises(MalformedMessage, match="33 tagged fields; 32 are allowed"):
        parse_request("metadata", 12, body + tags(33), 0)
    produce = memoryview(bytearray(b"\x00\x00\x01" + bytes(4) + b"\x01" + tags(33)))
    with pytest.raises(MalformedMessage, match="33 tagged fields; 32 are allowed"):
        read_produce_request(9, produce, 0, 9)


def test_a_tagged_field_that_does_not_fill_its_size() -> None:
    # ApiVersions v3 knows supported_features by tag 0: an empty array of one byte, said to be two.
    body = b"\x00\x00" + b"\x01" + bytes(4) + b"\x01\x00\x02\x01\x00"
    with pytest.raises(MalformedMessage, match="supported_features"):
        parse_response("api_versions", 3, bytes(4) + body)


def test_null_array() -> None:
    with pytest.raises(MalformedMessage, match="topics is null"):
        parse_request("list_offsets", 1, b"\xff" * 8, 0)


def test_null_array_within_an_array() -> None:
    with pytest.raises(MalformedMessage, match="partitions is null"):
        parse_request(
            "list_offsets", 1, b"\xff" * 4 + b"\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff", 0
        )


def test_null_array_that_may_be() -> None:
    assert parse_request("metadata", 1, b"\xff" * 4, 0).topics is None


def test_null_string() -> None:
    with pytest.raises(MalformedMessage, match="group_id is null"):
        parse_request("heartbeat", 0, b"\xff\xff" + bytes(4) + b"\x00\x00", 0)


def test_null_string_within_an_array() -> None:
    with pytest.raises(MalformedMessage, match="coordinator_keys is null"):
        parse_request("find_coordinator", 4, b"\x00\x02\x00\x00", 0)


def test_an_error_that_is_not_known_is_an_error() -> None:
    response = parse_response("heartbeat", 0, bytes(4) + (999).to_bytes(2, "big"))[1]
    assert response.error_code.name == "unknown_server_error"
