"""Partitions of an OffsetFetch response that are packed, beside what the schemas make of them."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.wire.by_hand.offset_fetch_response import NO_OFFSET, pack_partitions
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import encoded
from rig.data.messages import response_shape

_POSITION = struct.Struct(">qi")
_partitions = st.integers(0, 2**31 - 1)
_positions = st.tuples(st.integers(-1, 2**63 - 1), st.integers(-1, 2**31 - 1))
_codes = st.sampled_from([ErrorCode.none, ErrorCode.unstable_offset_commit])
_rows = st.lists(st.tuples(_partitions, _positions, st.text(max_size=200), _codes), max_size=20)


def _by_schema(version: int, rows: Any) -> bytes:
    shape = response_shape("offset_fetch", version)
    name = "OffsetFetchResponsePartition" + ("s" if version >= 8 else "")
    return b"".join(
        encoded(
            "offset_fetch",
            version,
            shape(
                name,
                partition_index=partition,
                committed_offset=offset,
                committed_leader_epoch=leader_epoch,
                metadata=text,
                error_code=code,
            ),
        )
        for partition, (offset, leader_epoch), text, code in rows
    )


@pytest.mark.parametrize("version", range(1, 11))
@given(rows=_rows)
def test_any_partitions(version: int, rows: Any) -> None:
    packed = pack_partitions(
        version,
        [partition for partition, *_ in rows],
        [_POSITION.pack(*position) for _, position, *_ in rows],
        [text.encode() for *_, text, _ in rows],
        [code for *_, code in rows],
    )
    assert packed == _by_schema(version, rows)


@pytest.mark.parametrize("version", range(1, 11))
@given(rows=_rows)
def test_partitions_with_nothing_but_a_position(version: int, rows: Any) -> None:
    plain = [(partition, position, "", ErrorCode.none) for partition, position, *_ in rows]
    packed = pack_partitions(
        version,
        [partition for partition, *_ in plain],
        [_POSITION.pack(*position) for _, position, *_ in plain],
    )
    assert packed == _by_schema(version, plain)


def test_no_position_is_minus_one() -> None:
    assert _POSITION.unpack(NO_OFFSET) == (-1, -1)
