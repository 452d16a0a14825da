"""Records of `__share_group_state`: bytes of the classes of Apache Kafka 4.3.0, both ways."""

from __future__ import annotations

import contextlib
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.coordination.internal_records.record_schema import UnreadableRecord
from drumlin.coordination.shards.state_partitions import partition_for
from drumlin.coordination.share.state.records import (
    SNAPSHOT,
    UPDATE,
    Snapshot,
    Update,
    decode_key,
    encode_record,
)
from drumlin.coordination.share.state.state import SharePartitionKey, ShareState, StateBatch

TOPIC_ID = UUID("4afa97c8-503e-4901-9544-0d5dfa6aaa08")
KEY = SharePartitionKey("g", TOPIC_ID, 3)
_CREATED_MS = 1_700_000_000_000

SNAPSHOTS = {
    "0000000000020000000500000007000000000000000b0000018bcfe568000000018bcfe569f403"
    "000000000000000b000000000000000e02000100000000000000001400000000000000140400050001000400000004"
    "": Snapshot(
        2,
        ShareState(5, 7, 11, 4, (StateBatch(11, 14, 2, 1), StateBatch(20, 20, 4, 5))),
        _CREATED_MS,
        _CREATED_MS + 500,
    ),
    "0000000000000000000100000000ffffffffffffffff0000018bcfe568000000018bcfe568000100": Snapshot(
        0, ShareState(1, 0, -1, -1), _CREATED_MS, _CREATED_MS
    ),
}
UPDATES = {
    "00000000000200000007ffffffffffffffff02000000000000000f000000000000001300000200010004"
    "00000006": Update(2, ShareState(-1, 7, -1, 6, (StateBatch(15, 19, 0, 2),)))
}
SNAPSHOT_KEY = "00000001674afa97c8503e490195440d5dfa6aaa0800000003"
UPDATE_KEY = "00010001674afa97c8503e490195440d5dfa6aaa0800000003"


@pytest.mark.parametrize("data", SNAPSHOTS)
def test_snapshots(data: str) -> None:
    assert SNAPSHOT.decode(bytes.fromhex(data)) == SNAPSHOTS[data]
    assert encode_record((KEY, SNAPSHOTS[data])) == (
        bytes.fromhex(SNAPSHOT_KEY),
        bytes.fromhex(data),
    )


@pytest.mark.parametrize("data", UPDATES)
def test_updates(data: str) -> None:
    assert UPDATE.decode(bytes.fromhex(data)) == UPDATES[data]
    assert encode_record((KEY, UPDATES[data])) == (bytes.fromhex(UPDATE_KEY), bytes.fromhex(data))


def test_keys() -> None:
    assert decode_key(bytes.fromhex(SNAPSHOT_KEY)) == (KEY, True)
    assert decode_key(bytes.fromhex(UPDATE_KEY)) == (KEY, False)
    assert encode_record((KEY, None)) == (bytes.fromhex(SNAPSHOT_KEY), None)
    assert decode_key(bytes.fromhex("0009" + SNAPSHOT_KEY[4:])) is None


def test_the_coordinator_of_a_share_partition() -> None:
    assert KEY.coordinator_key == "g:SvqXyFA-SQGVRA1d-mqqCA:3"
    assert 0 <= partition_for(KEY.coordinator_key, 50) < 50


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for decode in (decode_key, SNAPSHOT.decode, UPDATE.decode):
        with contextlib.suppress(UnreadableRecord):
            decode(data)
