"""Records of `__consumer_offsets`: bytes that Apache Kafka 4.3.0 wrote, in both directions.

The bytes were read from its log. They are versions that 4.3 writes; older and newer ones are
built by hand after Kafka's message definitions.
"""

from __future__ import annotations

import contextlib
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumlin.coordination.groups.classic.records import (
    GROUP_METADATA,
    GroupKey,
    GroupMetadata,
    MemberMetadata,
)
from drumlin.coordination.groups.offsets.offset_records import (
    CommittedOffset,
    OffsetKey,
    decode_offset,
    encode_offset,
)
from drumlin.coordination.groups.shard.record_registry import decode_key, encode_record
from drumlin.coordination.internal_records.record_schema import UnreadableRecord
from rig.depth import so_many

TOPIC_ID = UUID("13288ed9-1342-4446-8138-4d4596cd846f")

OFFSETS = {
    # OffsetCommit version 2 with a retention of an hour
    "0001000000000000000500016d000001a1fbc12362000001a1fbf811e2": CommittedOffset(
        5, -1, "m", 1795225101154, 1795225101154 + 3_600_000
    ),
    # version 4, metadata null
    "00040000000000000006ffffffff01000001a1fbc1239301001013288ed91342444681384d4596cd846f": (
        CommittedOffset(6, -1, "", 1795225101203, None, TOPIC_ID)
    ),
    # version 6 with a leader epoch, not only ASCII
    "0004000000000000000700000003086d65746120c3a9000001a1fbc123a0"
    "01001013288ed91342444681384d4596cd846f": (
        CommittedOffset(7, 3, "meta é", 1795225101216, None, TOPIC_ID)
    ),
}

GROUPS = {
    # a group that was created by a join, before it has members
    "0003000000000000ffffffff000001a1fbc1f60e00000000": GroupMetadata(
        None, 0, None, None, 1795225155086, ()
    ),
    # the same group after its last member has left
    "00030008636f6e73756d657200000002ffffffff000001a1fbc20e7200000000": GroupMetadata(
        "consumer", 2, None, None, 1795225161330, ()
    ),
    # stable, with two members that were assigned nothing
    "00030008636f6e73756d657200000001000572616e6765"
    "00296c6162322d34313365663565322d323030632d346363362d616436622d653761386662336266653436"
    "000001a1fbc20e1500000002"
    "00286c61622d36616134373166302d633763332d343262382d616335362d373461316337643034366234"
    "ffff00036c6162000a2f3132372e302e302e310000271000002710"
    "0000000d000000000001000174ffffffff00000000"
    "00296c6162322d34313365663565322d323030632d346363362d616436622d653761386662336266653436"
    "ffff00046c616232000a2f3132372e302e302e310000271000002710"
    "0000000d000000000001000174ffffffff00000000": GroupMetadata(
        "consumer",
        1,
        "range",
        "lab2-413ef5e2-200c-4cc6-ad6b-e7a8fb3bfe46",
        1795225161237,
        tuple(
            MemberMetadata(
                member_id,
                None,
                client_id,
                "/127.0.0.1",
                10_000,
                10_000,
                b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff",
                b"",
            )
            for member_id, client_id in (
                ("lab-6aa471f0-c7c3-42b8-ac56-74a1c7d046b4", "lab"),
                ("lab2-413ef5e2-200c-4cc6-ad6b-e7a8fb3bfe46", "lab2"),
            )
        ),
    ),
}

KEYS = {
    "00010008636f6f72642d67310006636f6f72644100000001": OffsetKey("coord-g1", "coordA", 1),
    "00020008636f6f72642d6732": GroupKey("coord-g2"),
}


@pytest.mark.parametrize(("data", "value"), OFFSETS.items())
def test_committed_offsets_are_kafkas(data: str, value: CommittedOffset) -> None:
    assert encode_offset(value).hex() == data
    assert decode_offset(bytes.fromhex(data)) == value


@pytest.mark.parametrize(("data", "value"), GROUPS.items())
def test_group_metadata_is_kafkas(data: str, value: GroupMetadata) -> None:
    assert GROUP_METADATA.encode(value).hex() == data
    assert GROUP_METADATA.decode(bytes.fromhex(data)) == value


@pytest.mark.parametrize(("data", "key"), KEYS.items())
def test_keys_are_kafkas(data: str, key: OffsetKey | GroupKey) -> None:
    assert encode_record((key, None))[0].hex() == data
    assert decode_key(bytes.fromhex(data)) == key


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        # version 0 and 2: no leader epoch
        ("0000000000000000000900016d0000000000000064", CommittedOffset(9, -1, "m", 100)),
        ("0002000000000000000900016d0000000000000064", CommittedOffset(9, -1, "m", 100)),
        # version 1 without an expiry of its own
        (
            "0001000000000000000900000000000000000064ffffffffffffffff",
            CommittedOffset(9, -1, "", 100),
        ),
        ("000300000000000000090000000700000000000000000064", CommittedOffset(9, 7, "", 100)),
        # version 4 without a topic id, and with a tagged field of the future
        (
            "000400000000000000090000000701000000000000006400",
            CommittedOffset(9, 7, "", 100),
        ),
        (
            "0004000000000000000900000007010000000000000064010502abcd",
            CommittedOffset(9, 7, "", 100),
        ),
    ],
)
def test_older_and_newer_offsets_are_read(data: str, expected: CommittedOffset) -> None:
    assert decode_offset(bytes.fromhex(data)) == expected


def _member(version: int) -> tuple[bytes, MemberMetadata]:
    """A member in some version's bytes, and what is to be read from them."""
    flexible = version >= 4

    def text(value: str) -> bytes:
        data = value.encode()
        return (bytes([len(data) + 1]) if flexible else len(data).to_bytes(2, "big")) + data

    def blob(value: bytes) -> bytes:
        return (bytes([len(value) + 1]) if flexible else len(value).to_bytes(4, "big")) + value

    data = text("m-1")
    data += text("red") if version >= 3 else b""
    data += text("client") + text("/host")
    data += (7_000).to_bytes(4, "big") if version >= 1 else b""
    data += (6_000).to_bytes(4, "big") + blob(b"sub") + blob(b"assigned")
    data += b"\0" if flexible else b""
    rebalance_timeout_ms = 7_000 if version >= 1 else 6_000
    static = "red" if version >= 3 else None
    return data, MemberMetadata(
        "m-1", static, "client", "/host", rebalance_timeout_ms, 6_000, b"sub", b"assigned"
    )


@pytest.mark.parametrize("version", range(5))
def test_group_metadata_of_every_version_is_read(version: int) -> None:
    flexible = version >= 4
    member, expected = _member(version)
    text = b"\x09consumer" if flexible else b"\0\x08consumer"
    data = version.to_bytes(2, "big") + text + (3).to_bytes(4, "big")
    data += (b"\x06range" + b"\x04m-1") if flexible else (b"\0\5range" + b"\0\3m-1")
    data += (99).to_bytes(8, "big") if version >= 2 else b""
    data += (b"\2" if flexible else b"\0\0\0\1") + member + (b"\0" if flexible else b"")
    read = GROUP_METADATA.decode(data)
    timestamp_ms = 99 if version >= 2 else None
    assert read == GroupMetadata("consumer", 3, "range", "m-1", timestamp_ms, (expected,))


def test_keys_of_other_protocols_are_passed_over() -> None:
    assert decode_key(b"\0\x63\0\1g") is None
    assert decode_key(b"\0\0\0\1g\0\1t\0\0\0\5") == OffsetKey("g", "t", 5)


@pytest.mark.parametrize("data", [*OFFSETS, *GROUPS])
def test_what_is_cut_off_is_unreadable(data: str) -> None:
    whole = bytes.fromhex(data)
    decode = decode_offset if data in OFFSETS else GROUP_METADATA.decode
    for size in range(len(whole)):
        with pytest.raises(UnreadableRecord):
            decode(whole[:size])
    with pytest.raises(UnreadableRecord, match="version 9"):
        decode(b"\0\x09" + whole[2:])


@given(st.binary(max_size=80))
@settings(max_examples=so_many(100, 300), derandomize=True)
def test_any_bytes_are_read_or_unreadable(data: bytes) -> None:
    for decode in (decode_key, decode_offset, GROUP_METADATA.decode):
        for version in range(5):
            with contextlib.suppress(UnreadableRecord):
                decode(version.to_bytes(2, "big") + data)


_EXPIRIES = st.tuples(st.integers(0, 2**50), st.none())
_TOPIC_IDS = st.tuples(st.none(), st.none() | st.uuids())


@given(
    st.integers(0, 2**63 - 1), st.text(max_size=40), st.integers(0, 2**50), _EXPIRIES | _TOPIC_IDS
)
@settings(
    max_examples=100,
)
def test_offsets_come_back(
    offset: int, metadata: str, written_ms: int, rest: tuple[int | None, UUID | None]
) -> None:
    value = CommittedOffset(offset, -1, metadata, written_ms, *rest)
    assert decode_offset(encode_offset(value)) == value
