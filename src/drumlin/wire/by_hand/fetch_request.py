"""Fetch requests, read in place: all versions give the same plain tuples.

A request may name thousands of partitions, which lie in the frame as a table of fixed width: a
topic's partitions are unpacked at once. Names stay bytes as they are on the wire: whether they are
text does not matter here. Counts and lengths are checked against the frame as in `decoder.py`;
tests compare the two readers.

    v4:     replica_id max_wait min_bytes max_bytes isolation [name [index offset max_bytes]]
    v5-6:   the partitions also with the log start offset of a follower
    v7-8:   session id and epoch before the topics, forgotten partitions after them
    v9-10:  the partitions also with the leader's epoch (KIP-320)
    v11:    the reader's rack at the end
    v12:    compact lengths and tagged fields; the epoch last fetched (KIP-595)
    v13-14: topic ids instead of names
    v15-18: the replica's id and epoch in a tagged field; other tagged fields that no broker sends
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from drumlin.wire.error_codes import MalformedMessage
from drumlin.wire.messages import ELEMENTS_MAX
from drumlin.wire.schema.decoder import read_tags, skip_tags
from drumlin.wire.schema.types import STRING_BYTES_MAX
from drumlin.wire.uvarint import read_uvarint

_SESSIONS_FROM: Final = 7
_LEADER_EPOCHS_FROM: Final = 9
_RACKS_FROM: Final = 11
_FLEXIBLE_FROM: Final = 12
_TOPIC_IDS_FROM: Final = 13
_REPLICA_STATE_FROM: Final = 15
_ID_SIZE: Final = 16
_CONSUMER: Final = -1
_NO_SESSION: Final = 0
_FINAL_EPOCH: Final = -1
_NO_EPOCH: Final = -1
_NO_OFFSET: Final = -1

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_REPLICA_STATE: Final = struct.Struct(">iq")
_WITH_REPLICA: Final = struct.Struct(">iiiib")
_WITH_REPLICA_AND_SESSION: Final = struct.Struct(">iiiibii")
_WITH_SESSION: Final = struct.Struct(">iiibii")
_PARTITION_4: Final = struct.Struct(">iqi")
_PARTITION_5: Final = struct.Struct(">iqqi")
_PARTITION_9: Final = struct.Struct(">iiqqi")
_PARTITION_12: Final = struct.Struct(">iiqiqi")
_PARTITION_12_UNTAGGED: Final = struct.Struct(">iiqiqix")

#: Index, current leader epoch, fetch offset, last fetched epoch, log start offset (of a follower),
#: max bytes; fields that a version lacks are -1. A plain tuple, as there may be very many.
Wanted = tuple[int, int, int, int, int, int]


class FetchRequest(NamedTuple):
    """A Fetch request. A topic is the bytes of its name, from version 13 on those of its id."""

    replica_id: int  # of a follower; negative for a consumer
    replica_epoch: int  # of that broker's registration (KIP-903); -1: not given
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[tuple[bytes, list[Wanted]]]
    forgotten: list[tuple[bytes, tuple[int, ...]]]
    rack: bytes = b""  # of a consumer (KIP-392)


def read_fetch_request(version: int, frame: memoryview, position: int) -> FetchRequest:
    """The request whose body starts at `position`.

    Raises:
        MalformedMessage: the request cannot be read.
    """
    try:
        return _Reader(version, frame).request(position)
    except (struct.error, IndexError) as error:
        raise MalformedMessage(
            f"fetch request v{version}: ends early, after {len(frame)} bytes"
        ) from error
    except MalformedMessage as error:
        raise MalformedMessage(f"fetch request v{version}: {error}") from error


class _Reader:
    """Reads fields; each method takes a position and returns the next one."""

    __slots__ = ("_elements_left", "_flexible", "_frame", "_version")

    def __init__(self, version: int, frame: memoryview) -> None:
        self._version = version
        self._frame = frame
        self._flexible = version >= _FLEXIBLE_FROM
        self._elements_left = ELEMENTS_MAX

    def request(self, position: int) -> FetchRequest:
        version, frame, flexible = self._version, self._frame, self._flexible
        limits, position = self._limits(position)
        by_id = version >= _TOPIC_IDS_FROM
        smallest = _ID_SIZE + 2 if by_id else 3 if flexible else 6
        size, read_partitions = _partitions_reader(version)
        count, position = self._count(position, smallest)
        topics = []
        for _ in range(count):
            name, position = self._id(position) if by_id else self._string(position)
            count, position = self._count(position, size)
            wanted, position = read_partitions(frame, position, count)
            if flexible:
                position = self._skip_tags(position)
            topics.append((name, wanted))
        forgotten: list[tuple[bytes, tuple[int, ...]]] = []
        rack = b""
        if version >= _SESSIONS_FROM:
            count, position = self._count(position, smallest)
            for _ in range(count):
                name, position = self._id(position) if by_id else self._string(position)
                count, position = self._count(position, _INT32.size)
                forgotten.append((name, struct.unpack_from(f">{count}i", frame, position)))
                position += count * _INT32.size
                if flexible:
                    position = self._skip_tags(position)
        if version >= _RACKS_FROM:
            rack, position = self._string(position)
        if flexible and frame[position]:
            limits = (*self._replica_state(position, limits[0]), *limits[2:])
        return FetchRequest(*limits, topics, forgotten, rack)

    def _limits(self, position: int) -> tuple[tuple[int, int, int, int, int, int, int, int], int]:
        """The fields before the topics; a missing replica or session gets a consumer's default."""
        limits: Any
        if self._version >= _REPLICA_STATE_FROM:
            limits = (_CONSUMER, _NO_EPOCH, *_WITH_SESSION.unpack_from(self._frame, position))
            return limits, position + _WITH_SESSION.size
        if self._version >= _SESSIONS_FROM:
            replica_id, *limits = _WITH_REPLICA_AND_SESSION.unpack_from(self._frame, position)
            limits = (replica_id, _NO_EPOCH, *limits)
            return limits, position + _WITH_REPLICA_AND_SESSION.size
        replica_id, *limits = _WITH_REPLICA.unpack_from(self._frame, position)
        limits = (replica_id, _NO_EPOCH, *limits, _NO_SESSION, _FINAL_EPOCH)
        return limits, position + _WITH_REPLICA.size

    def _replica_state(self, position: int, replica_id: int) -> tuple[int, int]:
        known = {1: ("state", _replica_state)} if self._version >= _REPLICA_STATE_FROM else {}
        found, _ = read_tags(self._frame, position, known)
        state: tuple[int, int] = found.get("state", (replica_id, _NO_EPOCH))
        return state

    def _id(self, position: int) -> tuple[bytes, int]:
        end = position + _ID_SIZE
        if end > len(self._frame):
            raise MalformedMessage("ends within a topic's id")
        return bytes(self._frame[position:end]), end

    def _string(self, position: int) -> tuple[bytes, int]:
        frame = self._frame
        if self._flexible:
            size = frame[position] - 1
            if size > 126:
                size, position = read_uvarint(frame, position)
                size -= 1
            else:
                position += 1
        else:
            size = _INT16.unpack_from(frame, position)[0]
            position += _INT16.size
        if size <= 0:
            if size < 0:
                raise MalformedMessage("a string is null, which the protocol does not allow")
            return b"", position
        end = position + size
        if end > len(frame) or size > STRING_BYTES_MAX:
            raise MalformedMessage(f"a string of {size} bytes, and {len(frame) - position} left")
        return bytes(frame[position:end]), end

    def _count(self, position: int, size: int) -> tuple[int, int]:
        """The number of elements that follow; each has at least `size` bytes."""
        frame = self._frame
        if self._flexible:
            count = frame[position] - 1
            if count > 126:
                count, position = read_uvarint(frame, position)
                count -= 1
            else:
                position += 1
        else:
            count = _INT32.unpack_from(frame, position)[0]
            position += _INT32.size
        if count < 0:
            raise MalformedMessage("an array is null, which the protocol does not allow")
        if count * size > len(frame) - position:
            raise MalformedMessage(f"{count} elements, and {len(frame) - position} bytes are left")
        self._elements_left -= count
        if self._elements_left < 0:
            raise MalformedMessage(f"more than {ELEMENTS_MAX} topics and partitions")
        return count, position

    def _skip_tags(self, position: int) -> int:
        if self._frame[position]:
            return skip_tags(self._frame, position)
        return position + 1


def _replica_state(frame: Any, position: int) -> tuple[tuple[int, int], int]:
    state = _REPLICA_STATE.unpack_from(frame, position)
    return state, skip_tags(frame, position + _REPLICA_STATE.size)


# -- the partitions of a topic -------------------------------------------------------------

#: Frame, position and count -> the requested partitions, and the position after them.
_ReadPartitions = Callable[[memoryview, int, int], tuple[list[Wanted], int]]


def _partitions_reader(version: int) -> tuple[int, _ReadPartitions]:
    """The minimum size of a partition, and the function that reads partitions."""
    if version >= _FLEXIBLE_FROM:
        return _PARTITION_12_UNTAGGED.size, _read_12
    if version >= _LEADER_EPOCHS_FROM:
        return _PARTITION_9.size, _read_9
    if version > 4:
        return _PARTITION_5.size, _read_5
    return _PARTITION_4.size, _read_4


def _read_4(frame: memoryview, position: int, count: int) -> tuple[list[Wanted], int]:
    end = position + count * _PARTITION_4.size
    return [
        (index, _NO_EPOCH, offset, _NO_EPOCH, _NO_OFFSET, max_bytes)
        for index, offset, max_bytes in _PARTITION_4.iter_unpack(frame[position:end])
    ], end


def _read_5(frame: memoryview, position: int, count: int) -> tuple[list[Wanted], int]:
    end = position + count * _PARTITION_5.size
    return [
        (index, _NO_EPOCH, offset, _NO_EPOCH, start, max_bytes)
        for index, offset, start, max_bytes in _PARTITION_5.iter_unpack(frame[position:end])
    ], end


def _read_9(frame: memoryview, position: int, count: int) -> tuple[list[Wanted], int]:
    end = position + count * _PARTITION_9.size
    return [
        (index, epoch, offset, _NO_EPOCH, start, max_bytes)
        for index, epoch, offset, start, max_bytes in _PARTITION_9.iter_unpack(frame[position:end])
    ], end


def _read_12(frame: memoryview, position: int, count: int) -> tuple[list[Wanted], int]:
    size = _PARTITION_12_UNTAGGED.size
    end = position + count * size
    tags = frame[position + size - 1 : end : size]
    if count == 1:
        if tags[0] == 0:
            return [_PARTITION_12.unpack_from(frame, position)], end
    elif not any(tags.tobytes()):
        return list(_PARTITION_12_UNTAGGED.iter_unpack(frame[position:end])), end
    wanted: list[Wanted] = []
    for _ in range(count):
        wanted.append(_PARTITION_12.unpack_from(frame, position))
        position = skip_tags(frame, position + _PARTITION_12.size)
    return wanted, position
