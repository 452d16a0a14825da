"""Records of `__transaction_state`: one for each transactional id, as Apache Kafka has it.

The key is the id. The value is the whole state each time; a null value is a tombstone.
Values are written in version 1 (flexible), as Kafka 4.3 does with transaction.version 2, and
read in versions 0 and 1.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from drumlin.coordination.record_fields import FieldReader, FieldWriter, UnreadableRecord
from drumlin.coordination.transactions.markers import TopicPartition
from drumlin.coordination.transactions.participants import NO_PARTICIPANTS, Participants
from drumlin.coordination.transactions.states import BY_NUMBER, TransactionState

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1

#: A transactional id that is longer does not fit into a key.
ID_BYTES_MAX: Final = 2**15 - 1

_KEY_TYPE: Final = 0
_LAST_VERSION: Final = 1
_FIRST_FLEXIBLE_VERSION: Final = 1
_PREVIOUS_PRODUCER_ID_TAG: Final = 0
_NEXT_PRODUCER_ID_TAG: Final = 1
_CLIENT_VERSION_TAG: Final = 2
_INT16: Final = struct.Struct(">h")
_INT64: Final = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class TransactionMetadata:
    """The state of one transactional id."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: Participants = NO_PARTICIPANTS
    """What the transaction has been told of, and is not marked yet."""
    start_timestamp_ms: int = NO_TIMESTAMP
    last_update_timestamp_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the last change of state; mostly the same."""
    next_producer_id: int = NO_PRODUCER_ID
    """What takes the place of the producer id when the transaction is complete."""
    client_version: int = 0
    """transaction.version of the client whose request brought the state about."""
    last_producer_epoch: int = NO_EPOCH
    """The epoch before the producer's own last bump, to recognise a retry; not in the log."""


def encode_key(transactional_id: str) -> bytes:
    writer = FieldWriter(_KEY_TYPE)
    writer.string(transactional_id)
    return bytes(writer.data)


def decode_key(data: bytes) -> str | None:
    """The transactional id; None if the key is of a type that is not known here.

    Raises:
        UnreadableRecord: the bytes are no key at all.
    """
    reader = FieldReader(data)
    return reader.string() if reader.int16() == _KEY_TYPE else None


def encode_value(value: TransactionMetadata) -> bytes:
    writer = FieldWriter(_LAST_VERSION, flexible=True)
    writer.int64(value.producer_id)
    writer.int16(value.producer_epoch)
    writer.int32(value.timeout_ms)
    writer.int8(value.state.number)
    _write_partitions(writer, value)
    writer.int64(value.last_update_timestamp_ms)
    writer.int64(value.start_timestamp_ms)
    tags = {}
    if value.previous_producer_id != NO_PRODUCER_ID:
        tags[_PREVIOUS_PRODUCER_ID_TAG] = _INT64.pack(value.previous_producer_id)
    if value.next_producer_id != NO_PRODUCER_ID:
        tags[_NEXT_PRODUCER_ID_TAG] = _INT64.pack(value.next_producer_id)
    if value.client_version:
        tags[_CLIENT_VERSION_TAG] = _INT16.pack(value.client_version)
    writer.tagged_fields(tags)
    return bytes(writer.data)


def _write_partitions(writer: FieldWriter, value: TransactionMetadata) -> None:
    if value.state is TransactionState.EMPTY:
        writer.uvarint(0)  # null, where the other states have an array
        return
    writer.data += value.partitions.encoded()


def decode_value(data: bytes) -> TransactionMetadata:
    """
    Raises:
        UnreadableRecord: a version or bytes that are not known here.
    """
    reader = FieldReader(data)
    version = reader.int16()
    if not 0 <= version <= _LAST_VERSION:
        raise UnreadableRecord(f"a transactional id's state of version {version}")
    reader.flexible = version >= _FIRST_FLEXIBLE_VERSION
    producer_id = reader.int64()
    producer_epoch = reader.int16()
    timeout_ms = reader.int32()
    number = reader.int8()
    state = BY_NUMBER.get(number)
    if state is None:
        raise UnreadableRecord(f"a transaction in state {number}")
    partitions = _read_partitions(reader)
    last_update_timestamp_ms = reader.int64()
    start_timestamp_ms = reader.int64()
    tags = reader.tagged_fields()
    return TransactionMetadata(
        producer_id,
        producer_epoch,
        timeout_ms,
        state,
        partitions,
        start_timestamp_ms,
        last_update_timestamp_ms,
        _tagged(_INT64, tags.get(_PREVIOUS_PRODUCER_ID_TAG), NO_PRODUCER_ID),
        _tagged(_INT64, tags.get(_NEXT_PRODUCER_ID_TAG), NO_PRODUCER_ID),
        _tagged(_INT16, tags.get(_CLIENT_VERSION_TAG), 0),
    )


def _read_partitions(reader: FieldReader) -> Participants:
    partitions: list[TopicPartition] = []
    for _ in range(reader.nullable_array_length() or 0):
        topic = reader.string()
        partitions.extend((topic, reader.int32()) for _ in range(reader.array_length()))
        reader.tagged_fields()
    return Participants(partitions)


def _tagged(form: struct.Struct, data: bytes | None, default: int) -> int:
    if data is None:
        return default
    if len(data) != form.size:
        raise UnreadableRecord(f"a tagged field of {len(data)} bytes instead of {form.size}")
    return int(form.unpack(data)[0])
