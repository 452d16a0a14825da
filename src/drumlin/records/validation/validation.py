"""Validation of a produced batch for one partition, and the changes that the broker makes to it.

The rules and their order are those of Apache Kafka's LogValidator, found by testing a real broker.
Outcomes differ only where Kafka would leave a batch in the log that breaks readers:

- Offset deltas other than 0, 1, 2, ... are renumbered. Kafka stores them unchanged if nothing else
  is rewritten, and fails with UNKNOWN_SERVER_ERROR if the batch is compressed.
- Lengths below -1, varints wider than their type, and timestamps that overflow are refused.
- Compressed records that some client could not read are refused (`incoming_bodies.py`).
- A batch that decompresses to more than `decompressed_bytes_max` is refused as too large.

Pure and thread-safe. Base offset and leader epoch are assigned later, by the partition's log.
"""

from __future__ import annotations

import ctypes
from typing import Final, NamedTuple

from drumlin.records.batch.batch import (
    CONTROL_MASK,
    CRC_START,
    DELETE_HORIZON_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    BatchHeader,
    Buffer,
    crc_matches,
    parse_header,
    parse_offset_and_length,
    seal,
    write_header,
)
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.batch.crc32c import crc32c
from drumlin.records.compression.arena import DecompressedTooLarge
from drumlin.records.compression.compression import CODECS, NONE, ZSTD, compress
from drumlin.records.compression.incoming_bodies import decompress_incoming
from drumlin.records.compression.stored_bodies import decompress_for_now
from drumlin.records.kernels import record_kernels
from drumlin.records.plain.record import renumber
from drumlin.records.validation.append_rules import AppendRules
from drumlin.records.validation.rejection import InvalidBatch, UnfitRecords, reject_records
from drumlin.records.validation.survey import Survey, survey
from drumlin.tuples import from_tuple
from drumlin.wire.error_codes import ErrorCode

__all__ = [
    "AppendRules",
    "InvalidBatch",
    "PreparedBatch",
    "UnfitRecords",
    "prepare_at_once",
    "prepare_produce",
]

#: The size that a kernel may examine on an event loop, in a millisecond: the largest batch with the
#: default `max.message.bytes`.
_LOOKED_AT_ONCE_BYTES_MAX: Final = 1_048_588
#: The size that may be checked on an event loop without the kernel, both for the compressed and for
#: the decompressed batch.
_AT_ONCE_BYTES_MAX: Final = 16 * 1024
_BODY_AT_ONCE_BYTES_MAX: Final = 32 * 1024
_MIN_BATCH_LENGTH: Final = 14  # the shortest entry of any magic
_ATTRIBUTES_KEPT: Final = TRANSACTIONAL_MASK | CONTROL_MASK

_address_of: Final = ctypes.addressof
_first_byte: Final = ctypes.c_char.from_buffer


class PreparedBatch(NamedTuple):
    """A valid batch, ready to append except for base offset and leader epoch."""

    buffer: memoryview
    header: BatchHeader
    log_append_time_ms: int = -1  # -1: the records keep their producer's timestamps


_prepared_of: Final = from_tuple(PreparedBatch)


def prepare_produce(
    buffer: bytearray | memoryview,
    rules: AppendRules,
    now_ms: int,
    log_name: str = "",
    allows_zstd: bool = True,
) -> PreparedBatch:
    """Check the batch in `buffer`, which must be writable, and adapt it to the topic.

    The batch is changed in place, or replaced if its records must be rewritten. `log_name`
    (topic-partition) is for messages; `allows_zstd` depends on the version of Produce.

    Raises:
        InvalidBatch: with Kafka's code and texts.
    """
    try:
        return _prepare(buffer, rules, now_ms, log_name, allows_zstd, rules.decompressed_bytes_max)
    except DecompressedTooLarge as error:
        raise InvalidBatch(ErrorCode.message_too_large, str(error)) from None
    except CorruptRecord as refused:
        raise _refusal(memoryview(buffer), rules, refused) from None


def prepare_at_once(
    buffer: bytearray | memoryview,
    rules: AppendRules,
    now_ms: int,
    log_name: str = "",
    allows_zstd: bool = True,
) -> PreparedBatch | None:
    """`prepare_produce` within a millisecond; None, without any change, if that is impossible.

    Raises:
        InvalidBatch: with Kafka's code and texts.
    """
    if len(buffer) > _LOOKED_AT_ONCE_BYTES_MAX:
        return None
    ordinary = _let_pass(buffer, rules, now_ms)
    if ordinary is not None:
        return ordinary
    if len(buffer) > _AT_ONCE_BYTES_MAX:
        return None
    try:
        return _prepare(buffer, rules, now_ms, log_name, allows_zstd, _BODY_AT_ONCE_BYTES_MAX)
    except CorruptRecord:  # too large, or invalid, which `prepare_produce` reports
        return None


def _prepare(
    buffer: bytearray | memoryview,
    rules: AppendRules,
    now_ms: int,
    log_name: str,
    allows_zstd: bool,
    decompressed_bytes_max: int,
) -> PreparedBatch:
    header = _only_batch(buffer, allows_zstd)
    batch = memoryview(buffer)[: header.size]
    _check_header(batch, header, rules)
    # Like Kafka, check count, offsets, keys and timestamps of the records of every batch, even if
    # none needs to change.
    body = decompress_incoming(header.compression, batch[HEADER_SIZE:], decompressed_bytes_max)
    try:
        facts = survey(body, header.record_count, header.base_timestamp)
    except CorruptRecord as error:
        raise _invalid(str(error)) from None
    if header.is_log_append_time:
        only = max(header.max_timestamp, NO_TIMESTAMP)
        facts = facts._replace(min_timestamp=only, max_timestamp=only)
    if _has_bad_records(header, facts, rules, now_ms):
        raise reject_records(header, body, facts, rules, now_ms, log_name)
    return _as_stored(batch, header, body, facts, rules, now_ms)


def _refusal(buffer: memoryview, rules: AppendRules, refused: CorruptRecord) -> InvalidBatch:
    """The error for records that cannot be decompressed by every client."""
    header = parse_header(buffer)
    data = buffer[HEADER_SIZE : header.size]
    try:
        decompress_for_now(header.compression, data, rules.decompressed_bytes_max)
    except DecompressedTooLarge as error:
        return InvalidBatch(ErrorCode.message_too_large, str(error))
    except CorruptRecord as error:
        # In Kafka the readers of compressed streams fail outside the validator.
        return InvalidBatch(ErrorCode.unknown_server_error, str(error))
    return _invalid(f"{refused}: not every client can read that")


def _let_pass(
    buffer: bytearray | memoryview, rules: AppendRules, now_ms: int
) -> PreparedBatch | None:
    """The unchanged batch, if one kernel call finds nothing wrong with it."""
    kernels = record_kernels.loaded
    size = len(buffer)
    if kernels is None or not rules.limits_address or size <= HEADER_SIZE:
        return None
    view = memoryview(buffer)
    address = _address_of(_first_byte(view))
    if not kernels.inspect(address, size, rules.limits_address, now_ms):
        return None
    header = parse_header(view)  # the kernel saw that the batch is all of the buffer
    return _prepared_of((view, header, -1)) if crc32c(view[CRC_START:]) == header.crc else None


def _invalid(reason: str) -> InvalidBatch:
    return InvalidBatch(ErrorCode.invalid_record, reason)


def _unfit(reason: str) -> UnfitRecords:
    return UnfitRecords(ErrorCode.invalid_record, reason)


def _corrupt(reason: str, message: str | None = None) -> InvalidBatch:
    return InvalidBatch(ErrorCode.corrupt_message, reason, message=message)


def _only_batch(buffer: Buffer, allows_zstd: bool) -> BatchHeader:
    """The header of the single batch; a partial batch after it is ignored."""
    try:
        size = _whole_batch_size(buffer, 0)
    except CorruptRecord as error:
        raise _corrupt(str(error), message=str(error)) from None
    if size is None:
        raise _unfit("there is no whole record batch")
    if buffer[MAGIC_POSITION] != MAGIC:
        raise _unfit(f"record batch of magic {buffer[MAGIC_POSITION]}: only {MAGIC} is accepted")
    try:
        if size != len(buffer) and _whole_batch_size(buffer, size) is not None:
            raise _unfit("there is more than one record batch")
    except CorruptRecord as error:
        raise _corrupt(f"after the first batch: {error}") from None
    if size < HEADER_SIZE:
        raise _corrupt(f"a batch of {size} bytes has no header")
    header = parse_header(buffer)
    if header.compression == ZSTD and not allows_zstd:
        raise UnfitRecords(
            ErrorCode.unsupported_compression_type, "zstd needs version 7 of Produce"
        )
    return header


def _whole_batch_size(buffer: Buffer, position: int) -> int | None:
    remaining = len(buffer) - position
    if remaining < LOG_OVERHEAD:
        return None
    _, size = parse_offset_and_length(buffer, position)
    length = size - LOG_OVERHEAD
    if length < _MIN_BATCH_LENGTH:
        raise CorruptRecord(
            f"Record size {length} is less than the minimum record overhead ({_MIN_BATCH_LENGTH})"
        )
    if remaining <= MAGIC_POSITION:
        return None
    magic = buffer[position + MAGIC_POSITION]
    if magic > MAGIC:
        signed = magic - 256 if magic > 127 else magic
        raise CorruptRecord(f"Invalid magic found in record: {signed}")
    return size if size <= remaining else None


def _check_header(batch: memoryview, header: BatchHeader, rules: AppendRules) -> None:
    if header.base_offset != 0:
        raise _invalid(f"base offset {header.base_offset} where a client must send 0")
    if header.size > rules.max_message_bytes:
        raise _too_large(header.size, rules)
    if not crc_matches(batch, 0, header):
        raise _corrupt(f"the CRC {header.crc:#010x} does not match")
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        raise _invalid(
            f"{header.record_count} records up to offset delta {header.last_offset_delta}"
        )
    if header.is_control:
        raise _invalid("clients may not write control records")
    if header.has_producer_id and header.base_sequence < 0:
        raise _invalid(f"producer {header.producer_id} sent sequence {header.base_sequence}")


def _too_large(size: int, rules: AppendRules) -> InvalidBatch:
    reason = f"a batch of {size} bytes; max.message.bytes is {rules.max_message_bytes}"
    return InvalidBatch(ErrorCode.message_too_large, reason)


def _has_bad_records(header: BatchHeader, facts: Survey, rules: AppendRules, now_ms: int) -> bool:
    if rules.is_compacted and facts.has_null_key:
        return True
    if rules.timestamp_type == "LogAppendTime":
        return header.is_log_append_time
    if header.is_log_append_time and header.max_timestamp == NO_TIMESTAMP:
        return True
    # Without any timestamp, min is INT64_MAX and max is -1, and neither is out of range.
    return (
        now_ms - facts.min_timestamp > rules.timestamp_before_max_ms
        or facts.max_timestamp - now_ms > rules.timestamp_after_max_ms
    )


def _as_stored(
    batch: memoryview,
    header: BatchHeader,
    body: Buffer,
    facts: Survey,
    rules: AppendRules,
    now_ms: int,
) -> PreparedBatch:
    stamps = rules.timestamp_type == "LogAppendTime"
    codec = _target_codec(header, rules)
    max_timestamp = now_ms if stamps else facts.max_timestamp
    is_rewritten = codec != header.compression or not facts.is_consecutive
    if (
        max_timestamp == header.max_timestamp
        and stamps == header.is_log_append_time
        and not is_rewritten
    ):
        return PreparedBatch(batch, header)
    # Clients must not set a delete horizon; rewriting the batch drops it.
    kept = _ATTRIBUTES_KEPT if is_rewritten else _ATTRIBUTES_KEPT | DELETE_HORIZON_MASK
    stored = header._replace(
        attributes=codec | (TIMESTAMP_TYPE_MASK if stamps else 0) | (header.attributes & kept),
        max_timestamp=max_timestamp,
    )
    if is_rewritten:
        data = body if facts.is_consecutive else renumber(body, header.record_count)
        data = compress(codec, data, rules.compression_level)
        stored = stored._replace(batch_length=HEADER_SIZE - LOG_OVERHEAD + len(data))
        if stored.size > rules.max_message_bytes:
            raise _too_large(stored.size, rules)
        batch = memoryview(bytearray(stored.size))
        batch[HEADER_SIZE:] = data
    write_header(batch, 0, stored)
    seal(batch, 0, stored.size)
    return PreparedBatch(batch, parse_header(batch), now_ms if stamps else -1)


def _target_codec(header: BatchHeader, rules: AppendRules) -> int:
    if rules.compression_type == "producer":
        return header.compression
    return CODECS.get(rules.compression_type, NONE)
