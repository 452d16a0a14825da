"""Fetch responses, with the records left where they are.

The generated schemas copy every record field; a reader of large responses cannot afford that.
So only the frame around the records is read here, and the records come out as slices of it.
Tests hold this against the schemas.

    v4:    throttle_time [name [index error high_watermark last_stable_offset
                                [producer_id first_offset] records]]
    v5:    log_start_offset after last_stable_offset
    v7:    error and session_id after throttle_time
    v11:   preferred_read_replica before records
    v12:   compact lengths and tagged fields

From 13 on topics are named by id: not read here.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from drumlin.wire.errors import ErrorCode, MalformedMessage, error_of
from drumlin.wire.field_reader import FieldReader

VERSION_MIN: Final = 4
VERSION_MAX: Final = 12

_CORRELATION_ID_SIZE: Final = 4
_LOG_START_OFFSETS_FROM: Final = 5
_SESSIONS_FROM: Final = 7
_READ_REPLICAS_FROM: Final = 11
_FLEXIBLE_FROM: Final = 12
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_ERROR_AND_SESSION: Final = struct.Struct(">hi")
_PARTITION: Final = struct.Struct(">ihqq")
_ABORTED: Final = struct.Struct(">qq")


class AbortedTransaction(NamedTuple):
    """A transaction whose records, from `first_offset` on, a read_committed reader must skip."""

    producer_id: int
    first_offset: int


class PartitionFetch(NamedTuple):
    partition: int
    error_code: ErrorCode
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int  # -1: this version does not tell
    aborted_transactions: list[AbortedTransaction]
    records: memoryview
    preferred_read_replica: int = -1  # read there instead (KIP-392); -1: here


class TopicFetch(NamedTuple):
    name: str
    partitions: list[PartitionFetch]


class FetchResponse(NamedTuple):
    error_code: ErrorCode
    session_id: int
    topics: list[TopicFetch]


def parse_fetch_response(version: int, frame: memoryview) -> FetchResponse:
    """The response in a frame (without its length prefix), header included.

    Raises:
        MalformedMessage: whatever is wrong with it.
    """
    reader = _Reader(frame, version)
    try:
        return reader.response()
    except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
        raise MalformedMessage(f"fetch response v{version}: {error}") from None


class _Reader:
    __slots__ = ("_fields", "_version")

    def __init__(self, frame: memoryview, version: int) -> None:
        flexible = version >= _FLEXIBLE_FROM
        self._fields = FieldReader(frame, _CORRELATION_ID_SIZE, flexible=flexible)
        self._version = version

    def response(self) -> FetchResponse:
        fields = self._fields
        fields.skip_tags()  # of the header
        fields.fixed(_INT32)  # throttle time
        error = session_id = 0
        if self._version >= _SESSIONS_FROM:
            error, session_id = fields.fixed(_ERROR_AND_SESSION)
        topics = [self._topic() for _ in range(fields.array_length())]
        fields.skip_tags()
        return FetchResponse(error_of(error), session_id, topics)

    def _topic(self) -> TopicFetch:
        name = self._fields.string()
        partitions = [self._partition() for _ in range(self._fields.array_length())]
        self._fields.skip_tags()
        return TopicFetch(name, partitions)

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
        fields.skip_tags()
        return PartitionFetch(
            partition,
            error_of(error),
            high_watermark,
            last_stable_offset,
            log_start_offset,
            aborted,
            memoryview(b"") if records is None else records,
            preferred_read_replica,
        )

    def _aborted(self) -> AbortedTransaction:
        transaction = AbortedTransaction._make(self._fields.fixed(_ABORTED))
        self._fields.skip_tags()
        return transaction
