"""Records of `__transaction_state`, one for each transactional id, in Apache Kafka's format.

The key is the id. The value is always the whole state; a null value is a tombstone.
Values are written in version 1 (flexible), as Kafka 4.3 does with transaction.version 2, and
read in versions 0 and 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

from drumlin.coordination.internal_records.record_schema import (
    KeySchema,
    UnreadableRecord,
    ValueSchema,
    number_of,
)
from drumlin.coordination.transactions.participants import (
    NO_PARTICIPANTS,
    Participants,
    TopicFields,
)
from drumlin.coordination.transactions.states import BY_NUMBER, TransactionState
from drumlin.wire.schema.declaration import Tag, message
from drumlin.wire.schema.types import Int8, Int16, Int32, Int64

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1

#: The maximum size of a transactional id, which must fit into a key.
ID_BYTES_MAX: Final = 2**15 - 1


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
    """The producer id before the last change of state; usually the same."""
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id after the completion of the transaction."""
    client_version: int = 0
    """The transaction.version of the client whose request led to the state."""
    last_producer_epoch: int = NO_EPOCH
    """The epoch before the last bump requested by the producer, to recognise a retry; not in the
    log.
    """


# -- declared fields -----------------------------------------------------------------------


class _Key(NamedTuple):
    transactional_id: str


@message
class _Fields:
    producer_id: Int64
    producer_epoch: Int16
    timeout_ms: Int32
    state: Int8
    topics: tuple[TopicFields, ...] | None
    last_update_timestamp_ms: Int64
    start_timestamp_ms: Int64
    previous_producer_id: Annotated[Int64, Tag(0)] = NO_PRODUCER_ID
    next_producer_id: Annotated[Int64, Tag(1)] = NO_PRODUCER_ID
    client_version: Annotated[Int16, Tag(2)] = 0


def _read(fields: _Fields) -> TransactionMetadata:
    state = BY_NUMBER.get(fields.state)
    if state is None:
        raise UnreadableRecord(f"a transaction in state {fields.state}")
    topics = fields.topics or ()
    return TransactionMetadata(
        fields.producer_id,
        fields.producer_epoch,
        fields.timeout_ms,
        state,
        Participants((each.topic, index) for each in topics for index in each.partitions),
        fields.start_timestamp_ms,
        fields.last_update_timestamp_ms,
        fields.previous_producer_id,
        fields.next_producer_id,
        fields.client_version,
    )


def _fields_of(value: TransactionMetadata) -> _Fields:
    # Kafka writes null instead of the array if no transaction is open.
    is_empty = value.state is TransactionState.EMPTY
    return _Fields(
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.timeout_ms,
        state=value.state.number,
        topics=None if is_empty else value.partitions.encoded(),
        last_update_timestamp_ms=value.last_update_timestamp_ms,
        start_timestamp_ms=value.start_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_version=value.client_version,
    )


_KEY: Final = KeySchema(0, _Key)
_VALUE: Final = ValueSchema(
    "a transactional id's state",
    _Fields,
    _read,
    _fields_of,
    last_version=1,
    first_flexible_version=1,
)
encode_value: Final = _VALUE.encode
decode_value: Final = _VALUE.decode


def encode_key(transactional_id: str) -> bytes:
    """
    Raises:
        KafkaError: INVALID_REQUEST, the id is longer than `ID_BYTES_MAX`.
    """
    return _KEY.encode(_Key(transactional_id))


def decode_key(data: bytes) -> str | None:
    """Decode a key to the transactional id; None if the key's type is unknown.

    Raises:
        UnreadableRecord: the bytes are not a key.
    """
    is_known = number_of(data) == _KEY.key_type
    return _KEY.decode(data).transactional_id if is_known else None


#: A transactional id, and its state; None is a tombstone.
StateRecord = tuple[str, TransactionMetadata | None]


def encode_record(record: StateRecord) -> tuple[bytes, bytes | None]:
    """Key and value."""
    transactional_id, metadata = record
    return encode_key(transactional_id), None if metadata is None else encode_value(metadata)
