"""Records of `__transaction_state`: one for each transactional id, as Apache Kafka has it.

The key is the id. The value is the whole state each time; a null value is a tombstone.
Values are written in version 1 (flexible), as Kafka 4.3 does with transaction.version 2, and
read in versions 0 and 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from drumlin.coordination.internal_records.record_fields import FieldReader, UnreadableRecord
from drumlin.coordination.internal_records.record_schema import (
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    Array,
    Encoded,
    Field,
    KeySchema,
    NullableArray,
    Struct,
    ValueSchema,
)
from drumlin.coordination.transactions.participants import NO_PARTICIPANTS, Participants
from drumlin.coordination.transactions.states import BY_NUMBER, TransactionState

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1

#: A transactional id that is longer does not fit into a key.
ID_BYTES_MAX: Final = 2**15 - 1

_NULL_ARRAY: Final = b"\0"


@dataclass(frozen=True, slots=True)
class TransactionMetadata:
    """The state of one transactional id."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: Participants = NO_PARTICIPANTS
    """Partitions that were added and have no marker yet."""
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


def _metadata(
    producer_id: int,
    producer_epoch: int,
    timeout_ms: int,
    number: int,
    topics: list[tuple[str, list[int]]],
    last_update_timestamp_ms: int,
    start_timestamp_ms: int,
    *tagged: int,
) -> TransactionMetadata:
    state = BY_NUMBER.get(number)
    if state is None:
        raise UnreadableRecord(f"a transaction in state {number}")
    return TransactionMetadata(
        producer_id,
        producer_epoch,
        timeout_ms,
        state,
        Participants((topic, index) for topic, indexes in topics for index in indexes),
        start_timestamp_ms,
        last_update_timestamp_ms,
        *tagged,
    )


def _parts_of(value: TransactionMetadata) -> tuple[Any, ...]:
    # Kafka has null in place of the array where no transaction is open.
    is_empty = value.state is TransactionState.EMPTY
    return (
        value.producer_id,
        value.producer_epoch,
        value.timeout_ms,
        value.state.number,
        _NULL_ARRAY if is_empty else value.partitions.encoded(),
        value.last_update_timestamp_ms,
        value.start_timestamp_ms,
        value.previous_producer_id,
        value.next_producer_id,
        value.client_version,
    )


_KEY: Final = KeySchema(0, str, Field("transactional_id", STRING), parts_of=lambda key: (key,))
_TOPICS: Final = NullableArray(Struct(Field("topic", STRING), Field("partitions", Array(INT32))))
_VALUE: Final = ValueSchema(
    "a transactional id's state",
    _metadata,
    Field("producer_id", INT64),
    Field("producer_epoch", INT16),
    Field("timeout_ms", INT32),
    Field("state", INT8),
    Field("topics", Encoded(_TOPICS)),
    Field("last_update_timestamp_ms", INT64),
    Field("start_timestamp_ms", INT64),
    Field("previous_producer_id", INT64, tag=0, default=NO_PRODUCER_ID),
    Field("next_producer_id", INT64, tag=1, default=NO_PRODUCER_ID),
    Field("client_version", INT16, tag=2, default=0),
    parts_of=_parts_of,
    last_version=1,
    first_flexible_version=1,
)
encode_key: Final = _KEY.encode
encode_value: Final = _VALUE.encode
decode_value: Final = _VALUE.decode


def decode_key(data: bytes) -> str | None:
    """The transactional id; None if the key is of a type that is not known here.

    Raises:
        UnreadableRecord: the bytes are no key at all.
    """
    reader = FieldReader(data)
    return _KEY.read(reader) if reader.int16() == _KEY.key_type else None


#: A transactional id, and its state; None is a tombstone.
StateRecord = tuple[str, TransactionMetadata | None]


def encode_record(record: StateRecord) -> tuple[bytes, bytes | None]:
    """Key and value."""
    transactional_id, metadata = record
    return encode_key(transactional_id), None if metadata is None else encode_value(metadata)
