"""Produce requests, read in place.

Compiled decoders copy every record field. In requests of a megabyte the copies would cost as much
as everything else; in small requests the objects would. So requests are read here, field by field,
and the records come out as slices of the frame, ready to be patched and written to the log. Tests
compare this with the schemas.

    v3-8:  transactional_id acks timeout_ms [name [index records]]
    v9-12: the same with compact lengths and tagged fields
    v13:   topic_id instead of name

Topic names are not decoded: a lookup needs only their bytes.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from drumlin.tuples import from_tuple
from drumlin.wire.error_codes import MalformedMessage
from drumlin.wire.schema.decoder import skip_tags
from drumlin.wire.uvarint import read_uvarint

FLEXIBLE_FROM: Final = 9
TOPIC_IDS_FROM: Final = 13
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_ACKS_AND_TIMEOUT: Final = struct.Struct(">hi")
_INDEX_AND_LENGTH: Final = struct.Struct(">ii")
_TOPIC_ID_BYTES: Final = 16

#: Index, and records: a writable slice of the frame.
PartitionProduce = tuple[int, memoryview | None]
#: Name, or the 16 bytes of an id, and partitions.
TopicProduce = tuple[bytes, list[PartitionProduce]]


class ManyPartitions(Exception):
    """The request names more partitions than allowed; the rest was not read."""


class ProduceRequest(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[TopicProduce]


_request_of: Final = from_tuple(ProduceRequest)


def read_produce_request(
    version: int, frame: memoryview, position: int, partitions_max: int
) -> ProduceRequest:
    """The request whose body starts at `position`.

    Raises:
        MalformedMessage: the request cannot be read.
        ManyPartitions: the request names more than `partitions_max` topics and partitions.
    """
    try:
        return _read(version, frame, position, partitions_max)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedMessage(f"produce request v{version}: {error}") from None


def _read(version: int, frame: memoryview, position: int, partitions_max: int) -> ProduceRequest:
    flexible = version >= FLEXIBLE_FROM
    transactional_id, position = _nullable_string(frame, position, flexible)
    acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(frame, position)
    count, position = _count(frame, position + _ACKS_AND_TIMEOUT.size, flexible)
    topics: list[TopicProduce] = []
    elements_left = partitions_max - count
    for _ in range(count):
        if elements_left < 0:
            raise ManyPartitions
        if version >= TOPIC_IDS_FROM:
            end = position + _TOPIC_ID_BYTES
        else:
            size, position = _name_length(frame, position, flexible)
            end = position + size
        topic = frame[position:end].tobytes()  # if it is cut off, reading the count fails
        count, position = _count(frame, end, flexible)
        elements_left -= count
        if elements_left < 0:
            raise ManyPartitions
        read = _compact_partitions if flexible else _partitions
        partitions, position = read(frame, position, count)
        topics.append((topic, partitions))
        if flexible:
            position = _tags_end(frame, position)
    if flexible:
        _tags_end(frame, position)
    return _request_of((transactional_id, acks, timeout_ms, topics))


def _partitions(frame: memoryview, position: int, count: int) -> tuple[list[PartitionProduce], int]:
    partitions: list[PartitionProduce] = []
    size = len(frame)
    for _ in range(count):
        index, length = _INDEX_AND_LENGTH.unpack_from(frame, position)
        position += _INDEX_AND_LENGTH.size
        if length < 0:
            partitions.append((index, None))
            continue
        end = position + length
        if end > size:
            raise MalformedMessage(f"records of {length} bytes do not fit their frame")
        partitions.append((index, frame[position:end]))
        position = end
    return partitions, position


def _compact_partitions(
    frame: memoryview, position: int, count: int
) -> tuple[list[PartitionProduce], int]:
    partitions: list[PartitionProduce] = []
    size = len(frame)
    for _ in range(count):
        (index,) = _INT32.unpack_from(frame, position)
        length, after = frame[position + 4], frame[position + 5]
        if length < 0x80:
            position += 5
        elif after < 0x80:  # the usual case
            length += (after - 1) * 0x80
            position += 6
        else:
            length, position = read_uvarint(frame, position + 4)
        if length == 0:
            partitions.append((index, None))
        else:
            end = position + length - 1
            if end > size:
                raise MalformedMessage(f"records of {length - 1} bytes do not fit their frame")
            partitions.append((index, frame[position:end]))
            position = end
        if frame[position] == 0:
            position += 1
        else:
            position = _tags_end(frame, position)
    return partitions, position


def _tags_end(frame: memoryview, position: int) -> int:
    return position + 1 if frame[position] == 0 else skip_tags(frame, position)


def _nullable_string(frame: memoryview, position: int, flexible: bool) -> tuple[str | None, int]:
    size, position = _size(frame, position, _INT16, flexible)
    if size < 0:
        return None, position
    end = position + size
    if end > len(frame):
        raise MalformedMessage(f"a string of {size} bytes ends after its frame")
    return str(frame[position:end], "utf-8"), end


def _name_length(frame: memoryview, position: int, flexible: bool) -> tuple[int, int]:
    """The length of a topic's name, and the position of the name."""
    size, position = _size(frame, position, _INT16, flexible)
    if size < 0:
        raise MalformedMessage("the name of a topic is null")
    return size, position


def _count(frame: memoryview, position: int, flexible: bool) -> tuple[int, int]:
    """The number of elements of an array, and the position of the first one."""
    count, position = _size(frame, position, _INT32, flexible)
    if count < 0:
        raise MalformedMessage("an array is null")
    if count > len(frame) - position:  # each takes at least one byte
        raise MalformedMessage(f"an array of {count} elements does not fit its frame")
    return count, position


def _size(
    frame: memoryview, position: int, layout: struct.Struct, flexible: bool
) -> tuple[int, int]:
    """The length prefix of a string or an array (negative: null), and the position after it."""
    if flexible:
        size = frame[position]
        if size < 0x80:  # the usual case
            return size - 1, position + 1
        size, position = read_uvarint(frame, position)
        return size - 1, position
    return layout.unpack_from(frame, position)[0], position + layout.size
