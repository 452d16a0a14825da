"""Fetch responses, with the records left where they are.

The generated schemas copy every record field; a reader of large responses cannot afford that.
So only the frame around the records is read here, and the records come out as slices of it.
Tests compare this with the schemas.

    v4:    throttle_time [name [index error high_watermark last_stable_offset
                                [producer_id first_offset] records]]
    v5:    log_start_offset after last_stable_offset
    v7:    error and session_id after throttle_time
    v11:   preferred_read_replica before records
    v12:   compact lengths; tagged fields for the offset of divergence (KIP-595) and the leader
    v13:   topic ids instead of names
    v16:   the addresses of leaders in a tagged field (KIP-951)
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from drumlin.wire.by_hand.field_reader import FieldReader
from drumlin.wire.error_codes import ErrorCode, MalformedMessage, error_of
from drumlin.wire.schema.decoder import Decode, read_tags, skip_tags

VERSION_MIN: Final = 4
VERSION_MAX: Final = 17
#: The last version that names topics by name.
VERSION_MAX_WITH_NAMES: Final = 12

_CORRELATION_ID_SIZE: Final = 4
_LOG_START_OFFSETS_FROM: Final = 5
_SESSIONS_FROM: Final = 7
_READ_REPLICAS_FROM: Final = 11
_FLEXIBLE_FROM: Final = 12
_TOPIC_IDS_FROM: Final = 13
_ENDPOINTS_FROM: Final = 16
_ID_SIZE: Final = 16
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_ERROR_AND_SESSION: Final = struct.Struct(">hi")
_PARTITION: Final = struct.Struct(">ihqq")
_ABORTED: Final = struct.Struct(">qq")
_EPOCH_END: Final = struct.Struct(">iq")
_LEADER: Final = struct.Struct(">ii")
_SNAPSHOT: Final = struct.Struct(">qi")


class AbortedTransaction(NamedTuple):
    """A transaction whose records, from `first_offset` on, a read_committed reader must skip."""

    producer_id: int
    first_offset: int


class EpochEnd(NamedTuple):
    """The largest leader epoch that the reader's log may share, and its end in the leader's log."""

    epoch: int
    end_offset: int


class Leader(NamedTuple):
    """The leader of a partition, as far as the broker knows."""

    node_id: int
    epoch: int


class Snapshot(NamedTuple):
    """The snapshot that must be fetched first; only the logs of KRaft controllers have one."""

    end_offset: int
    epoch: int


class Endpoint(NamedTuple):
    """The address of a leader that an answer names."""

    node_id: int
    host: str
    port: int
    rack: str | None


class PartitionFetch(NamedTuple):
    partition: int
    error_code: ErrorCode
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int  # -1: this version lacks the field
    aborted_transactions: list[AbortedTransaction]
    records: memoryview
    preferred_read_replica: int = -1  # the replica to read from (KIP-392); -1: this one
    diverging: EpochEnd | None = None  # the reader's records differ after it
    current_leader: Leader | None = None  # with errors that mean that the broker is not the leader
    snapshot: Snapshot | None = None


class TopicFetch(NamedTuple):
    """A topic by its name up to version 12, by its id (16 bytes) from 13 on; the other is empty."""

    name: str
    partitions: list[PartitionFetch]
    topic_id: bytes = b""


class FetchResponse(NamedTuple):
    error_code: ErrorCode
    session_id: int
    topics: list[TopicFetch]
    endpoints: tuple[Endpoint, ...] = ()


def parse_fetch_response(version: int, frame: memoryview) -> FetchResponse:
    """The response in a frame (without its length prefix), header included.

    Raises:
        MalformedMessage: the response cannot be read.
    """
    reader = _Reader(frame, version)
    try:
        return reader.response()
    except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
        raise MalformedMessage(f"fetch response v{version}: {error}") from None


class _Told(NamedTuple):
    """Tagged fields."""

    diverging: EpochEnd | None = None
    leader: Leader | None = None
    snapshot: Snapshot | None = None
    endpoints: tuple[Endpoint, ...] = ()


_NOTHING_TOLD: Final = _Told()


class _Reader:
    __slots__ = ("_fields", "_frame", "_version")

    def __init__(self, frame: memoryview, version: int) -> None:
        flexible = version >= _FLEXIBLE_FROM
        self._fields = FieldReader(frame, _CORRELATION_ID_SIZE, flexible=flexible)
        self._frame = frame
        self._version = version

    def response(self) -> FetchResponse:
        fields = self._fields
        fields.skip_tags()  # of the header
        fields.fixed(_INT32)  # throttle time
        error = session_id = 0
        if self._version >= _SESSIONS_FROM:
            error, session_id = fields.fixed(_ERROR_AND_SESSION)
        topics = [self._topic() for _ in range(fields.array_length())]
        told = self._tags(_RESPONSE_TAGS if self._version >= _ENDPOINTS_FROM else {})
        return FetchResponse(error_of(error), session_id, topics, told.endpoints)

    def _topic(self) -> TopicFetch:
        name, topic_id = "", b""
        if self._version >= _TOPIC_IDS_FROM:
            topic_id = bytes(self._fields.raw(_ID_SIZE))
        else:
            name = self._fields.string()
        partitions = [self._partition() for _ in range(self._fields.array_length())]
        self._fields.skip_tags()
        return TopicFetch(name, partitions, topic_id)

    def _partition(self) -> PartitionFetch:
        fields = self._fields
        partition, error, high_watermark, last_stable_offset = fields.fixed(_PARTITION)
        log_start_offset = -1
        if self._version >= _LOG_START_OFFSETS_FROM:
            (log_start_offset,) = fields.fixed(_INT64)
        aborted = [self._aborted() for _ in range(fields.nullable_array_length() or 0)]
        preferred_read_replica = -1
        if self._version >= _READ_REPLICAS_FROM:
            (preferred_read_replica,) = fields.fixed(_INT32)
        records = fields.nullable_bytes()
        told = self._tags(_PARTITION_TAGS)
        return PartitionFetch(
            partition,
            error_of(error),
            high_watermark,
            last_stable_offset,
            log_start_offset,
            aborted,
            memoryview(b"") if records is None else records,
            preferred_read_replica,
            told.diverging,
            told.leader,
            told.snapshot,
        )

    def _aborted(self) -> AbortedTransaction:
        transaction = AbortedTransaction._make(self._fields.fixed(_ABORTED))
        self._fields.skip_tags()
        return transaction

    def _tags(self, known: Mapping[int, tuple[str, Decode]]) -> _Told:
        """The tagged fields at the end of a structure; mostly there are none."""
        fields = self._fields
        if self._version < _FLEXIBLE_FROM or self._frame[fields.position] == 0:
            fields.skip_tags()
            return _NOTHING_TOLD
        found, position = read_tags(self._frame, fields.position, known)
        fields.move_to(position)
        return _Told(**found)


# -- tagged fields -------------------------------------------------------------------------


def _read_diverging(frame: Any, position: int) -> tuple[EpochEnd, int]:
    end = EpochEnd._make(_EPOCH_END.unpack_from(frame, position))
    return end, skip_tags(frame, position + _EPOCH_END.size)


def _read_leader(frame: Any, position: int) -> tuple[Leader, int]:
    leader = Leader._make(_LEADER.unpack_from(frame, position))
    return leader, skip_tags(frame, position + _LEADER.size)


def _read_snapshot(frame: Any, position: int) -> tuple[Snapshot, int]:
    snapshot = Snapshot._make(_SNAPSHOT.unpack_from(frame, position))
    return snapshot, skip_tags(frame, position + _SNAPSHOT.size)


def _read_endpoints(frame: Any, position: int) -> tuple[tuple[Endpoint, ...], int]:
    fields = FieldReader(frame, position, flexible=True)
    found = []
    for _ in range(fields.array_length()):
        (node_id,) = fields.fixed(_INT32)
        host = fields.string()
        (port,) = fields.fixed(_INT32)
        found.append(Endpoint(node_id, host, port, fields.nullable_string()))
        fields.skip_tags()
    return tuple(found), fields.position


_PARTITION_TAGS: Final[Mapping[int, tuple[str, Decode]]] = {
    0: ("diverging", _read_diverging),
    1: ("leader", _read_leader),
    2: ("snapshot", _read_snapshot),
}
_RESPONSE_TAGS: Final[Mapping[int, tuple[str, Decode]]] = {0: ("endpoints", _read_endpoints)}
