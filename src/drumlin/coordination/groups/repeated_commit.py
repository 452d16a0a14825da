"""A commit that came once, and comes again with other positions: what stays the same of it.

Most consumers commit the same partitions all their life. Their keys, and the batch that is
written but for offsets, leader epochs and the time, are then made once.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

from drumlin.coordination.groups.commit import Commit, java_length
from drumlin.coordination.groups.kind import Committer
from drumlin.coordination.groups.log import encode_batches
from drumlin.coordination.groups.records import CommittedOffset, OffsetKey
from drumlin.records.batch import HEADER_SIZE, seal, stamp_times

#: Of a batch that is kept for each of many connections.
_BYTES_MAX: Final = 64 * 1024
#: What stands for every number in the example. No string has its bytes.
_NUMBER: Final = -3
_POSITION: Final = struct.pack(">qi", _NUMBER, _NUMBER)
_TIMESTAMP: Final = struct.pack(">q", _NUMBER)
#: Of a record: offset, leader epoch, what lies between, timestamp, what lies behind.
_FIELDS: Final = 5


class RepeatedCommit:
    """A commit outside transactions, without a retention of its own."""

    __slots__ = ("_fields", "_keys", "_layout", "_metadata", "committer", "group_id", "longest")

    def __init__(self, commit: Commit) -> None:
        """
        Raises:
            ValueError: it is not of the kind that can be repeated.
        """
        if commit.producer is not None or commit.retention_ms is not None:
            raise ValueError("in a transaction, or with a retention of its own")
        self.group_id: Final = commit.group_id
        self.committer: Final[Committer] = commit.committer
        #: Of the metadata, in the units that `offset.metadata.max.bytes` counts.
        self.longest: Final = max(java_length(each.metadata) for each in commit.positions)
        self._keys = [
            OffsetKey(commit.group_id, each.topic, each.partition) for each in commit.positions
        ]
        self._metadata = [(each.metadata, each.topic_id) for each in commit.positions]
        self._fields = self._example_fields()
        sizes = [len(each) for each in self._fields if isinstance(each, bytes)]
        head, rest = sizes[0], zip(sizes[1::2], sizes[2::2], strict=True)
        layout = [f"qi{between}sq{behind}s" for between, behind in rest]
        self._layout = struct.Struct(f">{head}s{''.join(layout)}")

    def _example_fields(self) -> list[Any]:
        """What a batch consists of: bytes, and between them the numbers that change."""
        records = [
            (key, CommittedOffset(_NUMBER, _NUMBER, metadata, _NUMBER, None, topic_id))
            for key, (metadata, topic_id) in zip(self._keys, self._metadata, strict=True)
        ]
        batches = [bytes(batch) for batch, _ in encode_batches(records, 0)]
        if len(batches) != 1 or len(batches[0]) > _BYTES_MAX:
            raise ValueError("too many positions, or names that are too long")
        header, body = batches[0][:HEADER_SIZE], batches[0][HEADER_SIZE:]
        first, *others = body.split(_POSITION)
        fields: list[Any] = [header + first]
        for each in others:
            between, _, behind = each.partition(_TIMESTAMP)
            fields += [_NUMBER, _NUMBER, between, _NUMBER, behind]
        if len(others) != len(records):
            raise ValueError("bytes that look like what changes")
        return fields

    def batch(self, offsets: Sequence[int], leader_epochs: Sequence[int], now_ms: int) -> bytearray:
        """The batch for other positions, as `encode_batches` would make it."""
        fields = self._fields.copy()
        fields[1::_FIELDS] = offsets
        fields[2::_FIELDS] = leader_epochs
        fields[4::_FIELDS] = [now_ms] * len(offsets)
        batch = bytearray(self._layout.pack(*fields))
        stamp_times(batch, 0, now_ms)
        seal(batch, 0, len(batch))
        return batch

    def committed(
        self, offsets: Sequence[int], leader_epochs: Sequence[int], now_ms: int
    ) -> list[tuple[OffsetKey, CommittedOffset]]:
        """The records of that batch."""
        return [
            (key, CommittedOffset(offset, leader_epoch, metadata, now_ms, None, topic_id))
            for key, (metadata, topic_id), offset, leader_epoch in zip(
                self._keys, self._metadata, offsets, leader_epochs, strict=True
            )
        ]
