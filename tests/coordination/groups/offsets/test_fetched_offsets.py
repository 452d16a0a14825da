"""What is committed comes in pieces, packed as usual or one by one: it says the same."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.coordination.groups.every_kind.group_context import Topic
from drumlin.coordination.groups.offsets import fetched_offsets
from drumlin.coordination.groups.offsets.fetched_offsets import FetchedOffsets, Fetching
from drumlin.coordination.groups.offsets.offset_records import (
    CommittedOffset,
    OffsetKey,
    encode_offset,
)
from drumlin.coordination.groups.offsets.offsets import CommittedOffsets
from drumlin.wire.error_codes import ErrorCode

_THERE, _GONE = UUID(int=7), UUID(int=8)
_values = st.builds(
    CommittedOffset,
    offset=st.integers(0, 2**63 - 1),
    leader_epoch=st.integers(-1, 100),
    metadata=st.sampled_from(["", "", "", "é", "x" * 30]),
    commit_timestamp_ms=st.integers(0, 2**40),
    expire_timestamp_ms=st.none(),
    topic_id=st.sampled_from([_THERE, _THERE, _THERE, _GONE, None]),
)


class _Topics:
    """One topic, if it is there."""

    def __init__(self, is_there: bool) -> None:
        self._is_there = is_there

    def by_name(self, name: str) -> Topic | None:
        return Topic(_THERE, name, 10) if self._is_there and name == "t" else None

    def by_id(self, topic_id: UUID) -> Topic | None:
        raise NotImplementedError

    def names(self) -> Iterable[str]:
        raise NotImplementedError

    def was_deleted(self, topic_id: UUID) -> bool:
        raise NotImplementedError

    def was_any_deleted(self) -> bool:
        raise NotImplementedError


def _rows(pieces: list[FetchedOffsets]) -> list[Any]:
    rows: list[Any] = []
    for piece in pieces:
        for number, partition in enumerate(piece.partitions):
            text = b"" if piece.metadata is None else piece.metadata[number]
            code = ErrorCode.none if piece.codes is None else piece.codes[number]
            rows.append((partition, struct.unpack(">qi", piece.offsets[number]), text, code))
    return rows


def _one_by_one(
    committed: dict[int, CommittedOffset], asked: list[int], is_there: bool, leaves_out: bool
) -> list[Any]:
    rows: list[Any] = []
    for partition in asked:
        value = committed.get(partition)
        if value is not None and is_there and value.topic_id is _GONE:
            value = None
        if value is not None:
            position = (value.offset, value.leader_epoch)
            rows.append((partition, position, value.metadata.encode(), ErrorCode.none))
        elif not leaves_out:
            rows.append((partition, (-1, -1), b"", ErrorCode.none))
    return rows


@given(
    committed=st.dictionaries(st.integers(0, 12), _values),
    asked=st.lists(st.integers(0, 12)),
    is_there=st.booleans(),
    leaves_out=st.booleans(),
    at_once=st.integers(1, 5),
)
def test_pieces_say_what_is_committed(
    committed: dict[int, CommittedOffset],
    asked: list[int],
    is_there: bool,
    leaves_out: bool,
    at_once: int,
) -> None:
    offsets = CommittedOffsets()
    for partition, value in committed.items():
        offsets.put(OffsetKey("g", "t", partition), encode_offset(value))
    fetching = Fetching("g", offsets, _Topics(is_there), None)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fetched_offsets, "_AT_ONCE", at_once)
        pieces = list(fetching.pieces("t", asked, leaves_out=leaves_out))
    assert _rows(pieces) == _one_by_one(committed, asked, is_there, leaves_out)
    assert [piece.begins for piece in pieces] == [True, *[False] * (len(pieces) - 1)][: len(pieces)]
    if not leaves_out:
        assert pieces  # a topic without partitions is answered, too


def test_usual_positions_are_not_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    offsets = CommittedOffsets()
    value = CommittedOffset(5, 1, "", 99, None, _THERE)
    for partition in range(2500):
        offsets.put(OffsetKey("g", "t", partition), encode_offset(value))
    monkeypatch.setattr(fetched_offsets, "decode_offset", None)
    fetching = Fetching("g", offsets, _Topics(True), None)
    pieces = list(fetching.pieces("t", range(2500), leaves_out=True))
    assert [len(piece.partitions) for piece in pieces] == [1000, 1000, 500]


def test_what_is_unstable_says_no_more() -> None:
    offsets = CommittedOffsets()
    offsets.put(OffsetKey("g", "t", 1), encode_offset(CommittedOffset(5, 1, "x", 99)))
    fetching = Fetching("g", offsets, _Topics(True), lambda key: key.partition == 1)
    rows = _rows(list(fetching.pieces("t", [0, 1], leaves_out=True)))
    assert rows == [(1, (-1, -1), b"", ErrorCode.unstable_offset_commit)]
