"""Packs records of a coordinator's topic into batches. Does not write them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from drumlin.coordination.shards.log_errors import as_told
from drumlin.records.compression.compression import CODECS
from drumlin.records.plain.record import Record, encode_record, seal_body
from drumlin.wire.error_codes import ErrorCode, KafkaError

StateRecord = TypeVar("StateRecord")
#: Returns the key and value of a record; a null value is a tombstone.
Encode = Callable[[StateRecord], tuple[bytes, bytes | None]]

#: The default size limit of a batch; a single record may be larger.
BATCH_BYTES_MAX: Final = 512 * 1024
#: The maximum size of a record without its key and value.
_RECORD_OVERHEAD_BYTES: Final = 24
#: Bytes reserved in a batch for the header, and for the overhead of ineffective compression.
_SPARE_PART: Final = 64
_CODEC_NAMES: Final = {number: name for name, number in CODECS.items()}


class Producer(NamedTuple):
    """A producer's id and epoch, as clients know them."""

    producer_id: int
    producer_epoch: int


class RecordPacker(Generic[StateRecord]):
    """Packs records in order into as few batches as possible; the log assigns their offsets.

    encode: returns the key and value of a record.
    codec: the compression, as a number of `CODECS`.
    producer: the producer whose transaction the batches are part of, if any.
    """

    def __init__(
        self,
        encode: Encode[StateRecord],
        now_ms: int,
        codec: int = 0,
        producer: Producer | None = None,
        bytes_max: int = BATCH_BYTES_MAX,
    ) -> None:
        self._encode = encode
        self._now_ms = now_ms
        self._how: dict[str, Any] = {"compression": _CODEC_NAMES[codec]}
        if producer is not None:
            self._how |= producer._asdict() | {"is_transactional": True}
        self._bytes_max = bytes_max
        self._batches: list[tuple[bytearray, list[StateRecord]]] = []
        self._begin()

    def add(self, record: StateRecord) -> None:
        key, value = self._encode(record)
        size = _RECORD_OVERHEAD_BYTES + len(key) + len(value or b"")
        if self._records and self._size + size > self._bytes_max:
            self._end()
        plain = Record(len(self._records), self._now_ms, key, value)
        self._body += encode_record(plain, 0, self._now_ms)
        self._records.append(record)
        self._size += size

    @property
    def is_several(self) -> bool:
        """Whether the records do not fit into one batch."""
        return bool(self._batches)

    def batches(self) -> list[tuple[bytearray, list[StateRecord]]]:
        """All batches, each with its records. Nothing may be added afterwards."""
        if self._records:
            self._end()
        return self._batches

    def _begin(self) -> None:
        self._body = bytearray()
        self._records: list[StateRecord] = []
        self._size = 0

    def _end(self) -> None:
        batch = seal_body(self._body, len(self._records), self._now_ms, self._now_ms, **self._how)
        self._batches.append((batch, self._records))
        self._begin()


def pack(
    records: Iterable[StateRecord],
    encode: Encode[StateRecord],
    now_ms: int,
    codec: int = 0,
    producer: Producer | None = None,
    bytes_max: int = BATCH_BYTES_MAX,
) -> list[tuple[bytearray, list[StateRecord]]]:
    """The records as batches, each with its records; see `RecordPacker`."""
    packer = RecordPacker(encode, now_ms, codec, producer, bytes_max)
    for record in records:
        packer.add(record)
    return packer.batches()


def record_bytes_max(limit_bytes: int) -> int:
    """The bytes of records that fit into a batch of at most `limit_bytes`."""
    return limit_bytes - limit_bytes // _SPARE_PART


def check_sizes(batches: Sequence[bytearray], limit_bytes: int) -> None:
    """
    Raises:
        KafkaError: one of several batches is larger than the topic allows. (A single batch is not
            checked, as the log refuses it anyway.)
    """
    if len(batches) > 1 and max(map(len, batches)) > limit_bytes:
        raise as_told(KafkaError(ErrorCode.message_too_large))


def base_offset_of(batch: bytearray) -> int:
    """The offset of a batch's first record, which the log has assigned."""
    return int.from_bytes(batch[:8], "big", signed=True)
