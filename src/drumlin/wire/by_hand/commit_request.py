"""OffsetCommit and TxnOffsetCommit requests, read into columns.

A consumer may commit the offsets of thousands of partitions at once. As a rule none of these has
metadata: then all entries have the same size, and are unpacked at once. This reader accepts and
refuses exactly what `decoder.py` does; tests compare the two. A request may be large, so it is
read in pieces, and other work gets a turn between two pieces. All later steps, up to the records in
the log, work on the same pieces.

    OffsetCommit      v2-4 with a retention; from 6 leader epochs, from 7 static members;
                      8 and later flexible; 10 topic ids
    TxnOffsetCommit   from 2 leader epochs; 3 and later flexible, with the member that commits
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import timedelta
from typing import Final, NamedTuple
from uuid import UUID

from drumlin.tuples import from_tuple
from drumlin.turns import give_way
from drumlin.wire.by_hand.field_reader import FieldReader
from drumlin.wire.error_codes import MalformedMessage
from drumlin.wire.messages import ELEMENTS_MAX
from drumlin.wire.schema.decoder import skip_tags
from drumlin.wire.schema.types import STRING_BYTES_MAX
from drumlin.wire.uvarint import read_uvarint

Frame = bytes | memoryview

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_PRODUCER: Final = struct.Struct(">qh")
_WITH_EPOCH: Final = struct.Struct(">iqi")  # partition, offset, leader epoch
_WITHOUT_EPOCH: Final = struct.Struct(">iq")
_NO_TAGS: Final = {0}
#: From this value on, a length takes more than a byte in flexible versions.
_LONG: Final = 0x7F
#: The number of offsets in a piece, which are read, checked and packed in a millisecond or two.
PIECE_MAX: Final = 1000
#: Frames up to this size are copied before they are read, as slices of bytes are cheaper.
_COPIED_BYTES_MAX: Final = 64 * 1024
_MILLISECOND: Final = timedelta(milliseconds=1)
#: A text of more characters may exceed the maximum size of a string in bytes.
_COUNTED_LENGTH: Final = STRING_BYTES_MAX // 4
_NULL_UUID: Final = bytes(16)
_NO_LEADER_EPOCH: Final = -1
_NO_RETENTION_MS: Final = -1
_NO_GENERATION: Final = -1

_RETENTION_UP_TO: Final = 4
_STATIC_MEMBERS_FROM: Final = 7
_TOPIC_IDS_FROM: Final = 10
_MEMBERS_FROM: Final = 3


#: Partitions, offsets, leader epochs, metadata.
_Columns = tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[bytes] | None]


class _Layout(NamedTuple):
    has_epochs: bool
    is_flexible: bool
    has_topic_ids: bool
    rows: struct.Struct
    """An offset without metadata or tagged fields."""
    no_metadata: frozenset[int]
    """The lengths, as they are on the wire, of metadata that is null or empty."""


def _layout(has_epochs: bool, is_flexible: bool, has_topic_ids: bool = False) -> _Layout:
    ends = "BB" if is_flexible else "h"
    rows = struct.Struct((">iqi" if has_epochs else ">iq") + ends)
    return _Layout(
        has_epochs, is_flexible, has_topic_ids, rows, frozenset({0, 1} if is_flexible else {-1, 0})
    )


_COMMIT_LAYOUTS: Final = tuple(
    _layout(version >= 6, version >= 8, version >= _TOPIC_IDS_FROM) for version in range(11)
)
_TXN_LAYOUTS: Final = tuple(_layout(version >= 2, version >= 3) for version in range(6))


class TopicOffsets(NamedTuple):
    """Offsets in some partitions of a topic, column by column.

    A request names the topic by name or by id (None: the null id); once the topic is found, both
    are set.
    """

    topic: str
    topic_id: UUID | None
    partitions: Sequence[int]
    offsets: Sequence[int]
    leader_epochs: Sequence[int]
    metadata: Sequence[bytes] | None = None
    """As UTF-8; None if no offset has metadata."""
    begins: bool = True
    """Whether this is the first piece of the topic."""

    def some(self, indexes: Sequence[int]) -> TopicOffsets:
        """The offsets at these indexes."""
        return self._replace(
            partitions=[self.partitions[index] for index in indexes],
            offsets=[self.offsets[index] for index in indexes],
            leader_epochs=[self.leader_epochs[index] for index in indexes],
            metadata=None if self.metadata is None else [self.metadata[index] for index in indexes],
        )


topic_offsets_of: Final = from_tuple(TopicOffsets)


class CommitRequest(NamedTuple):
    group_id: str
    member_id: str
    group_instance_id: str | None
    generation_id: int
    retention_ms: int | None
    topics: list[TopicOffsets]
    """In pieces of at most `PIECE_MAX` partitions; a topic may be named several times."""


class TxnCommitRequest(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: CommitRequest


async def read_commit_request(version: int, frame: memoryview, position: int) -> CommitRequest:
    """The OffsetCommit whose body starts at `position`.

    Raises:
        MalformedMessage: the request cannot be read.
    """
    layout = _COMMIT_LAYOUTS[version]
    try:
        reader = _Reader(_copied(frame), position, flexible=layout.is_flexible)
        group_id = reader.short_string()
        (generation_id,) = reader.fixed(_INT32)
        member_id = reader.short_string()
        instance_id = reader.nullable_short_string() if version >= _STATIC_MEMBERS_FROM else None
        retention_ms = None
        if version <= _RETENTION_UP_TO:
            (retention_ms,) = reader.fixed(_INT64)
            _ = retention_ms * _MILLISECOND  # raises if out of range, as the schema does
        topics = await reader.topics(layout)
    except (struct.error, IndexError, UnicodeDecodeError, OverflowError) as error:
        raise MalformedMessage(f"offset_commit request v{version}: {error}") from None
    if retention_ms == _NO_RETENTION_MS:
        retention_ms = None
    return CommitRequest(group_id, member_id, instance_id, generation_id, retention_ms, topics)


async def read_txn_commit_request(
    version: int, frame: memoryview, position: int
) -> TxnCommitRequest:
    """The TxnOffsetCommit whose body starts at `position`; old versions name no generation.

    Raises:
        MalformedMessage: the request cannot be read.
    """
    layout = _TXN_LAYOUTS[version]
    generation_id, member_id, instance_id = _NO_GENERATION, "", None
    try:
        reader = _Reader(_copied(frame), position, flexible=layout.is_flexible)
        transactional_id, group_id = reader.short_string(), reader.short_string()
        producer_id, producer_epoch = reader.fixed(_PRODUCER)
        if version >= _MEMBERS_FROM:
            (generation_id,) = reader.fixed(_INT32)
            member_id = reader.short_string()
            instance_id = reader.nullable_short_string()
        topics = await reader.topics(layout)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedMessage(f"txn_offset_commit request v{version}: {error}") from None
    commit = CommitRequest(group_id, member_id, instance_id, generation_id, None, topics)
    return TxnCommitRequest(transactional_id, producer_id, producer_epoch, commit)


def _copied(frame: memoryview) -> Frame:
    return bytes(frame) if len(frame) <= _COPIED_BYTES_MAX else frame


class _Reader(FieldReader):
    """A reader that refuses strings longer than the protocol allows."""

    __slots__ = ()

    def short_string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise MalformedMessage("null where a value must be")
        if len(text) > _COUNTED_LENGTH:
            _check_length(text)
        return text

    def nullable_short_string(self) -> str | None:
        if not self._flexible and _INT16.unpack_from(self._frame, self._position)[0] < 0:
            self._position += _INT16.size  # any negative length stands for null
            return None
        text = self.nullable_string()
        if text is not None and len(text) > _COUNTED_LENGTH:
            _check_length(text)
        return text

    async def topics(self, layout: _Layout) -> list[TopicOffsets]:
        """All topics, in pieces."""
        topics: list[TopicOffsets] = []
        count = self.array_length()
        elements_left = ELEMENTS_MAX - count
        for number in range(count):
            if number:
                await give_way()
            topic, topic_id = "", None
            if layout.has_topic_ids:
                raw = bytes(self.raw(len(_NULL_UUID)))
                topic_id = None if raw == _NULL_UUID else UUID(bytes=raw)
            else:
                topic = self.short_string()
            partition_count = self.array_length()
            elements_left -= partition_count
            if elements_left < 0:
                raise MalformedMessage(f"more than {ELEMENTS_MAX} topics and partitions")
            begins = True
            while begins or partition_count:
                if not begins:
                    await give_way()
                some = min(PIECE_MAX, partition_count)
                columns = self._plain_columns(layout, some) or self._columns(layout, some)
                topics.append(topic_offsets_of((topic, topic_id, *columns, begins)))
                partition_count -= some
                begins = False
            self.skip_tags()
        self.skip_tags()
        return topics

    def _plain_columns(self, layout: _Layout, count: int) -> _Columns | None:
        """Like `_columns`, if no offset has metadata; otherwise None, and nothing is read."""
        frame, start, rows = self._frame, self._position, layout.rows
        end = start + rows.size * count
        if end > len(frame) or not count:
            return None
        columns = list(zip(*rows.iter_unpack(frame[start:end]), strict=True))
        has_tags = layout.is_flexible and not _NO_TAGS.issuperset(columns.pop())
        # If the first has no metadata, the second begins where we look for it, and so on.
        if has_tags or not layout.no_metadata.issuperset(columns[-1]):
            return None
        self._position = end
        epochs = columns[2] if layout.has_epochs else (_NO_LEADER_EPOCH,) * count
        return columns[0], columns[1], epochs, None

    def _columns(self, layout: _Layout, count: int) -> _Columns:
        """The next `count` offsets."""
        frame, position, is_flexible = self._frame, self._position, layout.is_flexible
        row = _WITH_EPOCH if layout.has_epochs else _WITHOUT_EPOCH
        unpack, row_bytes = row.unpack_from, row.size
        rows: list[tuple[int, ...]] = []
        texts: list[bytes] = []
        for _ in range(count):
            rows.append(unpack(frame, position))
            position += row_bytes
            if not is_flexible:
                (size,) = _INT16.unpack_from(frame, position)
                position += _INT16.size
            elif (size := frame[position] - 1) < _LONG:
                position += 1
            else:
                size, position = read_uvarint(frame, position)
                size -= 1
            text = b""
            if size > 0:
                end = position + size
                if size > STRING_BYTES_MAX or end > len(frame):
                    raise MalformedMessage(f"a string of {size} bytes")
                text, position = bytes(frame[position:end]), end
                if not text.isascii():
                    text.decode()  # refuses bytes that are not UTF-8
            texts.append(text)
            if is_flexible:
                position = skip_tags(frame, position) if frame[position] else position + 1
        self._position = position
        if not count:
            return (), (), (), None
        columns = list(zip(*rows, strict=True))
        epochs = columns[2] if layout.has_epochs else (_NO_LEADER_EPOCH,) * count
        return columns[0], columns[1], epochs, texts


def _check_length(text: str) -> None:
    if len(text.encode()) > STRING_BYTES_MAX:
        raise MalformedMessage(f"a string of more than {STRING_BYTES_MAX} bytes")
