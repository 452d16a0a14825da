"""Committed offsets of a group for OffsetFetch: in pieces, column by column.

Offsets are copied from records to the response without decoding, as a group may have thousands of
offsets. Most of these consist only of an offset and a leader epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from drumlin.coordination.groups.every_kind.group_context import Topics
from drumlin.coordination.groups.offsets.offset_records import (
    CommittedOffset,
    OffsetKey,
    decode_offset,
    pack_offset_and_epoch,
    usual_offsets,
)
from drumlin.coordination.groups.offsets.offsets import CommittedOffsets
from drumlin.wire.by_hand.offset_fetch_response import NO_OFFSET
from drumlin.wire.error_codes import ErrorCode

_AT_ONCE: Final = 1000


class FetchedOffsets(NamedTuple):
    """Offsets of one topic, or of its next partitions if the topic has several pieces.

    `offsets`: offset and leader epoch, packed; `metadata` is None if no offset has any, `codes` if
    there is no error.
    """

    topic: str
    begins: bool
    partitions: Sequence[int]
    offsets: Sequence[bytes]
    metadata: Sequence[bytes] | None = None
    codes: Sequence[ErrorCode] | None = None


class Fetching:
    """Reads the offsets of one group. `is_unstable(key)`: whether a transaction may change the
    offset.
    """

    def __init__(
        self,
        group_id: str,
        offsets: CommittedOffsets,
        topics: Topics,
        is_unstable: Callable[[OffsetKey], bool] | None,
    ) -> None:
        self._group_id = group_id
        self._offsets = offsets
        self._topics = topics
        self._is_unstable = is_unstable

    def pieces(
        self, topic: str, partitions: Sequence[int], *, leaves_out: bool
    ) -> Iterator[FetchedOffsets]:
        """The committed offsets; `leaves_out`: omit partitions without a committed offset."""
        begins = True
        for first in range(0, max(1, len(partitions)), _AT_ONCE):
            some = partitions[first : first + _AT_ONCE]
            piece = self._usual(topic, some) or self._any(topic, some, leaves_out)
            if piece.partitions or not leaves_out:
                yield piece._replace(begins=begins)
                begins = False

    def _usual(self, topic: str, partitions: Sequence[int]) -> FetchedOffsets | None:
        """Like `_any`, but None unless all values have the usual layout."""
        there = self._topics.by_name(topic)
        if there is None or self._is_unstable is not None:
            return None
        known = self._offsets.topics(self._group_id).get(topic, {})
        offsets = usual_offsets(list(map(known.get, partitions)), there.topic_id)
        return None if offsets is None else FetchedOffsets(topic, True, partitions, offsets)

    def _any(self, topic: str, partitions: Sequence[int], leaves_out: bool) -> FetchedOffsets:
        piece = FetchedOffsets(topic, True, [], offsets := [], metadata := [], codes := [])
        named: list[int] = []
        for partition in partitions:
            key = OffsetKey(self._group_id, topic, partition)
            is_unstable = self._is_unstable is not None and self._is_unstable(key)
            value = self._committed(key)
            if leaves_out and value is None and not is_unstable:
                continue
            named.append(partition)
            codes.append(ErrorCode.unstable_offset_commit if is_unstable else ErrorCode.none)
            if value is None or is_unstable:
                offsets.append(NO_OFFSET)
                metadata.append(b"")
            else:
                offsets.append(pack_offset_and_epoch(value))
                metadata.append(value.metadata.encode())
        return piece._replace(partitions=named)

    def _committed(self, key: OffsetKey) -> CommittedOffset | None:
        """The committed offset; None if the offset belongs to a former topic of the same name."""
        packed = self._offsets.packed(*key)
        if packed is None:
            return None
        value = decode_offset(packed)
        there = self._topics.by_name(key.topic)
        if there is not None and value.topic_id not in (None, there.topic_id):
            return None
        return value
