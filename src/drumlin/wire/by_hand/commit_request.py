"""OffsetCommit and TxnOffsetCommit requests, read into columns.

A consumer may commit the offsets of thousands of partitions at once. As a rule none of them
has metadata: then all entries have the same size, and are unpacked in one go. This reader accepts
and refuses exactly what `decoder.py` does; tests hold the two against each other. Reading yields
to other work from time to time, as a request may be large.

    OffsetCommit      v2-4 with a retention; from 6 leader epochs, from 7 static members;
                      8 and later flexible; 10 topic ids
    TxnOffsetCommit   from 2 leader epochs; 3 and later flexible, and says which member commits
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import timedelta
from typing import Final, NamedTuple
from uuid import UUID

from drumlin.turns import Work
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
#: The same, the length of metadata, and tagged fields in flexible versions.
_PLAIN: Final = {
    (True, True): struct.Struct(">iqiBB"),
    (True, False): struct.Struct(">iqih"),
    (False, False): struct.Struct(">iqh"),
}
#: Lengths of metadata that is null or empty.
_NO_METADATA: Final = {True: {0, 1}, False: {-1, 0}}
_NO_TAGS: Final = {0}
#: From here on a length takes more than a byte in flexible versions.
_LONG: Final = 0x7F
_AT_ONCE: Final = 1000
#: Frames up to this size are copied before they are read: slices of bytes cost less than a view's.
_COPIED_BYTES_MAX: Final = 64 * 1024
_MILLISECOND: Final = timedelta(milliseconds=1)
#: Characters of a text that may take more bytes than a string has.
_COUNTED_LENGTH: Final = STRING_BYTES_MAX // 4
_NULL_UUID: Final = bytes(16)
_NO_LEADER_EPOCH: Final = -1
_NO_RETENTION_MS: Final = -1
_NO_GENERATION: Final = -1

_RETENTION_UP_TO: Final = 4
_STATIC_MEMBERS_FROM: Final = 7
_TOPIC_IDS_FROM: Final = 10
_MEMBERS_FROM: Final = 3


class _Layout(NamedTuple):
    has_epochs: bool
    is_flexible: bool
    has_topic_ids: bool = False


_COMMIT_LAYOUTS: Final = tuple(
    _Layout(version >= 6, version >= 8, version >= _TOPIC_IDS_FROM) for version in range(11)
)
_TXN_LAYOUTS: Final = tuple(_Layout(version >= 2, version >= 3) for version in range(6))


class RequestedOffsets(NamedTuple):
    """One topic's offsets, column by column; `topic` is its name or id (None: a null one)."""

    topic: str | UUID | None
    partitions: Sequence[int]
    offsets: Sequence[int]
    leader_epochs: Sequence[int]
    metadata: Sequence[bytes] | None
    """As UTF-8; None where no offset has any."""


class CommitRequest(NamedTuple):
    group_id: str
    member_id: str
    group_instance_id: str | None
    generation_id: int
    retention_ms: int | None
    topics: list[RequestedOffsets]


class TxnCommitRequest(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: CommitRequest


def read_commit_request(version: int, frame: memoryview, position: int) -> Work[CommitRequest]:
    """The OffsetCommit whose body starts at `position`.

    Raises:
        MalformedMessage: whatever is wrong with it.
    """
    try:
        return (yield from _read_commit(version, _copied(frame), position))
    except (struct.error, IndexError, UnicodeDecodeError, OverflowError) as error:
        raise MalformedMessage(f"offset_commit request v{version}: {error}") from None


def read_txn_commit_request(
    version: int, frame: memoryview, position: int
) -> Work[TxnCommitRequest]:
    """The TxnOffsetCommit whose body starts at `position`; without a generation if it names none.

    Raises:
        MalformedMessage: whatever is wrong with it.
    """
    try:
        return (yield from _read_txn_commit(version, _copied(frame), position))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedMessage(f"txn_offset_commit request v{version}: {error}") from None


def _copied(frame: memoryview) -> Frame:
    return bytes(frame) if len(frame) <= _COPIED_BYTES_MAX else frame


def _read_commit(version: int, frame: Frame, position: int) -> Work[CommitRequest]:
    layout = _COMMIT_LAYOUTS[version]
    reader = _Reader(frame, position, flexible=layout.is_flexible)
    group_id = reader.short_string()
    (generation_id,) = reader.fixed(_INT32)
    member_id = reader.short_string()
    instance_id = reader.nullable_short_string() if version >= _STATIC_MEMBERS_FROM else None
    retention_ms = _NO_RETENTION_MS
    if version <= _RETENTION_UP_TO:
        (retention_ms,) = reader.fixed(_INT64)
        _ = retention_ms * _MILLISECOND  # as far as that goes, and no longer
    topics = yield from _read_topics(frame, reader, layout)
    return CommitRequest(
        group_id,
        member_id,
        instance_id,
        generation_id,
        None if retention_ms == _NO_RETENTION_MS else retention_ms,
        topics,
    )


def _read_txn_commit(version: int, frame: Frame, position: int) -> Work[TxnCommitRequest]:
    layout = _TXN_LAYOUTS[version]
    reader = _Reader(frame, position, flexible=layout.is_flexible)
    transactional_id, group_id = reader.short_string(), reader.short_string()
    producer_id, producer_epoch = reader.fixed(_PRODUCER)
    generation_id, member_id, instance_id = _NO_GENERATION, "", None
    if version >= _MEMBERS_FROM:
        (generation_id,) = reader.fixed(_INT32)
        member_id = reader.short_string()
        instance_id = reader.nullable_short_string()
    topics = yield from _read_topics(frame, reader, layout)
    commit = CommitRequest(group_id, member_id, instance_id, generation_id, None, topics)
    return TxnCommitRequest(transactional_id, producer_id, producer_epoch, commit)


class _Reader(FieldReader):
    """Reads fields; refuses strings that are longer than the protocol allows."""

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
            self._position += _INT16.size  # any of them stands for null
            return None
        text = self.nullable_string()
        if text is not None and len(text) > _COUNTED_LENGTH:
            _check_length(text)
        return text


def _check_length(text: str) -> None:
    if len(text.encode()) > STRING_BYTES_MAX:
        raise MalformedMessage(f"a string of more than {STRING_BYTES_MAX} bytes")


def _read_topics(frame: Frame, reader: _Reader, layout: _Layout) -> Work[list[RequestedOffsets]]:
    topics = []
    count = reader.array_length()
    elements_left = ELEMENTS_MAX - count
    for number in range(count):
        if number:
            yield
        topic: str | UUID | None
        if layout.has_topic_ids:
            raw = bytes(reader.raw(len(_NULL_UUID)))
            topic = None if raw == _NULL_UUID else UUID(bytes=raw)
        else:
            topic = reader.short_string()
        partition_count = reader.array_length()
        elements_left -= partition_count
        if elements_left < 0:
            raise MalformedMessage(f"more than {ELEMENTS_MAX} topics and partitions")
        columns = _Columns(layout)
        place = reader.position
        for first in range(0, partition_count, _AT_ONCE):
            if first:
                yield
            place = columns.read(frame, place, min(_AT_ONCE, partition_count - first))
        reader.move_to(place)
        reader.skip_tags()
        topics.append(columns.offsets(topic))
    reader.skip_tags()
    return topics


class _Columns:
    """The offsets of one topic that have been read so far."""

    def __init__(self, layout: _Layout) -> None:
        self._has_epochs, self._is_flexible, _ = layout
        self._plain = _PLAIN[self._has_epochs, self._is_flexible]
        self._partitions: list[int] = []
        self._offsets: list[int] = []
        self._epochs: list[int] = []
        self._metadata: list[bytes] | None = None

    def offsets(self, topic: str | UUID | None) -> RequestedOffsets:
        return RequestedOffsets(
            topic, self._partitions, self._offsets, self._epochs, self._metadata
        )

    def read(self, frame: Frame, position: int, count: int) -> int:
        """Read `count` offsets; returns where the last one ends."""
        return self._read_plain(frame, position, count) or self._read_any(frame, position, count)

    def _read_plain(self, frame: Frame, position: int, count: int) -> int:
        """Like `read` if no offset has metadata; otherwise reads nothing and returns 0."""
        end = position + self._plain.size * count
        if end > len(frame):
            return 0
        columns = list(zip(*self._plain.iter_unpack(frame[position:end]), strict=True))
        has_tags = self._is_flexible and not _NO_TAGS.issuperset(columns.pop())
        # If the first has no metadata, the second begins where we look for it, and so on.
        if has_tags or not _NO_METADATA[self._is_flexible].issuperset(columns[-1]):
            return 0
        self._partitions += columns[0]
        self._offsets += columns[1]
        self._epochs += columns[2] if self._has_epochs else (_NO_LEADER_EPOCH,) * count
        if self._metadata is not None:
            self._metadata += (b"",) * count
        return end

    def _read_any(self, frame: Frame, position: int, count: int) -> int:
        if self._metadata is None:
            self._metadata = [b""] * len(self._partitions)
        texts, rows, is_flexible = self._metadata, [], self._is_flexible
        layout = _WITH_EPOCH if self._has_epochs else _WITHOUT_EPOCH
        unpack, row_bytes = layout.unpack_from, layout.size
        frame_end = len(frame)
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
                if size > STRING_BYTES_MAX or end > frame_end:
                    raise MalformedMessage(f"a string of {size} bytes")
                text, position = bytes(frame[position:end]), end
                if not text.isascii():
                    text.decode()  # it is no text if that fails
            texts.append(text)
            if is_flexible:
                position = skip_tags(frame, position) if frame[position] else position + 1
        columns = list(zip(*rows, strict=True))
        self._partitions += columns[0]
        self._offsets += columns[1]
        self._epochs += columns[2] if self._has_epochs else (_NO_LEADER_EPOCH,) * count
        return position
