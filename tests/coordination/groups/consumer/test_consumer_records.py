"""Records of consumer groups: bytes that Apache Kafka 4.3.0 wrote, in both directions.

They were read from its log: a static member with the assignor "range", one with a regular
expression, and one of the classic protocol.
"""

from __future__ import annotations

import contextlib
import struct
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumlin.coordination.groups.consumer.member import (
    ClassicProtocols,
    MemberState,
    Progress,
    Subscription,
)
from drumlin.coordination.groups.consumer.records import (
    PROGRESS,
    RECORD_TYPES,
    SUBSCRIPTION,
    Epoch,
    EpochKey,
    PartitionMetadata,
    PartitionMetadataKey,
    ProgressKey,
    RegexKey,
    ResolvedRegex,
    SubscriptionKey,
    Target,
    TargetEpochKey,
    TargetKey,
)
from drumlin.coordination.groups.every_kind.target_epoch import TargetEpoch
from drumlin.coordination.groups.shard.record_registry import decode_key, encode_record, type_of
from drumlin.coordination.internal_records.record_schema import UnreadableRecord
from rig.depth import so_many

TOPIC = UUID("9ad32ddf-2873-4f98-a9d2-244f8778b6f0")
CLASSIC_ID = "yXDXQ9n7T2OYRerE0gIdrQ"
METADATA = struct.pack(">hih", 1, 1, 1) + b"t" + struct.pack(">ii", -1, 0)

RECORDS: list[tuple[str, str, Any, Any]] = [
    (
        "00050001670003612d31",
        "00000472656403723107636c69656e740b2f3132372e302e302e3102027401000075300672616e676501000100",
        SubscriptionKey("g", "a-1"),
        Subscription(
            "red", "r1", "client", "/127.0.0.1", frozenset({"t"}), "", 30_000, "range", None
        ),
    ),
    (
        "0003000167",
        "000000000002010008863b2b974e7a7a88",
        EpochKey("g"),
        Epoch(2, struct.unpack(">q", bytes.fromhex("863b2b974e7a7a88"))[0]),
    ),
    (
        "00070001670003612d31",
        "0000029ad32ddf28734f98a9d2244f8778b6f0040000000000000001000000020000",
        TargetKey("g", "a-1"),
        Target({TOPIC: frozenset({0, 1, 2})}),
    ),
    ("00070001670003622d32", "00000100", TargetKey("g", "b-2"), Target({})),
    (
        "0006000167",
        "000000000002010008000001a20063a5a2",
        TargetEpochKey("g"),
        TargetEpoch(2, 0x1A20063A5A2),
    ),
    (
        "00080001670003612d31",
        (
            "0000000000020000000000029ad32ddf28734f98a9d2244f8778b6f004000000000000000100000002"
            "01000d040000000200000002000000020100"
        ),
        ProgressKey("g", "a-1"),
        Progress(2, 0, MemberState.STABLE, {TOPIC: {0: 2, 1: 2, 2: 2}}, {}),
    ),
    (
        "00080001670003612d31",
        (
            "0000000000020000000201029ad32ddf28734f98a9d2244f8778b6f00300000000000000010100090300000002"
            "00000002029ad32ddf28734f98a9d2244f8778b6f00200000002010005020000000200"
        ),
        ProgressKey("g", "a-1"),
        Progress(2, 2, MemberState.UNREVOKED_PARTITIONS, {TOPIC: {0: 2, 1: 2}}, {TOPIC: {2: 2}}),
    ),
    (
        "00080001670003612d31",
        (
            "0000fffffffe0000000201029ad32ddf28734f98a9d2244f8778b6f003000000000000000101000903"
            "00000000000000000100"
        ),
        ProgressKey("g", "a-1"),
        Progress(-2, 2, MemberState.UNREVOKED_PARTITIONS, {TOPIC: {0: 0, 1: 0}}, {}),
    ),
    (
        "00050001670003622d32",
        "0000000007636c69656e740b2f3132372e302e302e310104742e2a000075300001000100",
        SubscriptionKey("g", "b-2"),
        Subscription(None, None, "client", "/127.0.0.1", frozenset(), "t.*", 30_000, None, None),
    ),
    (
        "00100001670003742e2a",
        "0000020274000000000000001f000001a20063a6d300",
        RegexKey("g", "t.*"),
        ResolvedRegex(frozenset({"t"}), 31, 0x1A20063A6D3),
    ),
    (
        "000500016700167958445851396e3754324f5952657245306749647251",
        (
            "0000000007636c69656e740b2f3132372e302e302e310202740100004e20000100200100007530020672616e67"
            "6512000100000001000174ffffffff000000000000"
        ),
        SubscriptionKey("g", CLASSIC_ID),
        Subscription(
            None,
            None,
            "client",
            "/127.0.0.1",
            frozenset({"t"}),
            "",
            20_000,
            None,
            ClassicProtocols(30_000, (("range", METADATA),)),
        ),
    ),
]


@pytest.mark.parametrize(("key_bytes", "value_bytes", "key", "value"), RECORDS)
def test_records_are_kafkas(key_bytes: str, value_bytes: str, key: Any, value: Any) -> None:
    data = bytes.fromhex(value_bytes)
    assert decode_key(bytes.fromhex(key_bytes)) == key
    assert type_of(key).value.decode(data) == value
    encoded_key, encoded_value = encode_record((key, value))
    assert encoded_key.hex() == key_bytes
    assert encoded_value is not None
    assert encoded_value.hex() == value_bytes
    assert encode_record((key, None)) == (encoded_key, None)


def test_what_older_and_newer_brokers_wrote() -> None:
    """Before 4.3 partitions had no epochs of their own; tags of the future are passed over."""
    old = bytes.fromhex(
        "000000000002000000000002"
        + TOPIC.bytes.hex()
        + "03"
        + "00000000"
        + "00000001"
        + "0001"
        + "00"
    )
    assert PROGRESS.decode(old) == Progress(2, 0, MemberState.STABLE, {TOPIC: {0: 2, 1: 2}}, {})
    newer = bytes.fromhex("0000000000020000000000" + "01" + "01" + "01" + "0502abcd")
    assert PROGRESS.decode(newer) == Progress(2, 0)
    unknown_state = bytes.fromhex("0000000000020000000009" + "01" + "01" + "00")
    assert PROGRESS.decode(unknown_state).state is MemberState.UNKNOWN
    without_tag = bytes.fromhex("0000" + "0000" + "0101" + "01" + "01" + "00007530" + "00" + "00")
    assert SUBSCRIPTION.decode(without_tag) == Subscription(rebalance_timeout_ms=30_000)


def test_metadata_of_partitions_is_only_known_to_be_there() -> None:
    key = decode_key(bytes.fromhex("0004000167"))
    assert key == PartitionMetadataKey("g")
    assert type_of(key).value.decode(b"anything") == PartitionMetadata(b"anything")


@pytest.mark.parametrize("record", RECORDS)
def test_what_is_cut_off_is_unreadable(record: tuple[str, str, Any, Any]) -> None:
    _, value_bytes, key, _ = record
    data = bytes.fromhex(value_bytes)
    for size in range(len(data)):
        with pytest.raises(UnreadableRecord):
            type_of(key).value.decode(data[:size])
    with pytest.raises(UnreadableRecord, match="version 7"):
        type_of(key).value.decode(b"\0\7" + data[2:])


@given(st.binary(max_size=60))
@settings(max_examples=so_many(80, 200), derandomize=True)
def test_any_bytes_are_read_or_unreadable(data: bytes) -> None:
    for record_type in RECORD_TYPES:
        if record_type.key_class is not PartitionMetadataKey:
            with contextlib.suppress(UnreadableRecord):
                record_type.value.decode(b"\0\0" + data)
