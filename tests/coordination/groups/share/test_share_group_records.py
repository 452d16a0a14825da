"""Records of share groups: bytes that the classes of Apache Kafka 4.3.0 wrote, both ways."""

from __future__ import annotations

import contextlib
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.coordination.groups.every_kind.group_record import RecordKey
from drumlin.coordination.groups.every_kind.target_epoch import TargetEpoch
from drumlin.coordination.groups.shard.record_registry import decode_key, encode_record, type_of
from drumlin.coordination.groups.share.records import (
    RECORD_TYPES,
    ShareCurrent,
    ShareCurrentKey,
    ShareGroupKey,
    ShareGroupMetadata,
    ShareMemberKey,
    ShareMemberMetadata,
    ShareTargetKey,
    ShareTargetMemberKey,
    StatePartitionMetadata,
    StatePartitionMetadataKey,
    TopicPartitions,
)
from drumlin.coordination.internal_records.record_schema import UnreadableRecord

TOPIC_ID = UUID("4afa97c8-503e-4901-9544-0d5dfa6aaa08")
_ID = TOPIC_ID.hex

#: Key, value, and what they say.
RECORDS: list[tuple[str, str, RecordKey, Any]] = [
    (
        "000a00016700016d",
        "0000000263032f68030261026200",
        ShareMemberKey("g", "m"),
        ShareMemberMetadata(None, "c", "/h", ("a", "b")),
    ),
    (
        "000b000167",
        "000000000004ffffffffffffffb300",
        ShareGroupKey("g"),
        ShareGroupMetadata(4, -77),
    ),
    (
        "000c000167",
        "0000000000040100080000018bcfe56800",
        ShareTargetKey("g"),
        TargetEpoch(4, 1_700_000_000_000),
    ),
    ("000c000167", "00000000000400", ShareTargetKey("g"), TargetEpoch(4)),
    (
        "000d00016700016d",
        f"000002{_ID}0300000000000000020000",
        ShareTargetMemberKey("g", "m"),
        {TOPIC_ID: (0, 2)},
    ),
    (
        "000e00016700016d",
        f"000000000004000000030002{_ID}0300000000000000020000",
        ShareCurrentKey("g", "m"),
        ShareCurrent(4, 3, {TOPIC_ID: (0, 2)}),
    ),
    (
        "000f000167",
        f"000002{_ID}026102000000030002{_ID}0261040000000000000001000000020002{_ID}02620000",
        StatePartitionMetadataKey("g"),
        StatePartitionMetadata(
            {TOPIC_ID: TopicPartitions("a", frozenset((3,)))},
            {TOPIC_ID: TopicPartitions("a", frozenset((0, 1, 2)))},
            {TOPIC_ID: "b"},
        ),
    ),
]


@pytest.mark.parametrize(("raw_key", "raw_value", "key", "value"), RECORDS)
def test_records(raw_key: str, raw_value: str, key: RecordKey, value: Any) -> None:
    assert decode_key(bytes.fromhex(raw_key)) == key
    assert type_of(key).value.decode(bytes.fromhex(raw_value)) == value
    assert encode_record((key, value)) == (bytes.fromhex(raw_key), bytes.fromhex(raw_value))
    assert encode_record((key, None)) == (bytes.fromhex(raw_key), None)


@given(st.sampled_from(RECORD_TYPES), st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(record_type: Any, data: bytes) -> None:
    with contextlib.suppress(UnreadableRecord):
        record_type.value.decode(data)
    with contextlib.suppress(UnreadableRecord):
        record_type.value.decode(b"\0\0" + data)
