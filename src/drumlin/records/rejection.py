"""A refused batch, and why, in the words that Kafka's clients know."""

from __future__ import annotations

from drumlin.records.append_rules import AppendRules
from drumlin.records.batch import NO_TIMESTAMP, BatchHeader, Buffer
from drumlin.records.survey import Glance, glance
from drumlin.wire.errors import ErrorCode, KafkaError


class InvalidBatch(KafkaError):
    """`message` and `record_errors` (index, sentence) go to the client, `reason` into a log."""

    def __init__(
        self,
        code: ErrorCode,
        reason: str,
        *,
        message: str | None = None,
        record_errors: list[tuple[int, str]] | None = None,
    ) -> None:
        super().__init__(code, message)
        self.reason = reason
        self.record_errors = record_errors or []

    def __str__(self) -> str:
        return f"{self.code.name}: {self.reason}"


class UnfitRecords(InvalidBatch):
    """Not one batch of a kind that the request may carry at all: its partition is not asked."""


def reject_records(
    header: BatchHeader, body: Buffer, rules: AppendRules, now_ms: int, log_name: str
) -> InvalidBatch:
    """The error that names every bad record in `body`, of which there is at least one."""
    errors: list[tuple[int, str]] = []
    has_bad_timestamp = False
    position, end = 0, len(body)
    for index in range(header.record_count):
        record = glance(body, position, end, header.base_timestamp)
        position = record.end
        if rules.is_compacted and record.key_length < 0:
            errors.append((index, _keyless(log_name)))
            continue
        bad_timestamp = _bad_timestamp(header, record, rules, now_ms)
        if bad_timestamp is not None:
            has_bad_timestamp = True
            errors.append((index, bad_timestamp))
    if has_bad_timestamp:
        code = ErrorCode.invalid_timestamp
        message = "One or more records have been rejected due to invalid timestamp"
    else:
        code = ErrorCode.invalid_record
        message = _summary(errors)
    return InvalidBatch(code, message, message=message, record_errors=errors)


def _keyless(log_name: str) -> str:
    return f"Compacted topic cannot accept message without key in topic partition {log_name}"


def _bad_timestamp(
    header: BatchHeader, record: Glance, rules: AppendRules, now_ms: int
) -> str | None:
    timestamp = header.max_timestamp if header.is_log_append_time else record.timestamp
    if rules.timestamp_type == "CreateTime" and timestamp != NO_TIMESTAMP:
        earliest = now_ms - rules.timestamp_before_max_ms
        latest = now_ms + rules.timestamp_after_max_ms
        if earliest <= timestamp <= latest:
            return None
        return (
            f"Timestamp {timestamp} of message with offset {record.offset_delta} is out of "
            f"range. The timestamp should be within [{earliest}, {latest}]"
        )
    if not header.is_log_append_time:
        return None
    return (
        f"Invalid timestamp type in message DefaultRecord(offset={record.offset_delta}, "
        f"timestamp={timestamp}, key={max(record.key_length, 0)} bytes, "
        f"value={max(record.value_length, 0)} bytes). "
        "Producer should not set timestamp type to LogAppendTime."
    )


def _summary(errors: list[tuple[int, str]]) -> str:
    shown = ", ".join(
        f"RecordError(batchIndex={index}, message='{text}')" for index, text in errors[:3]
    )
    return (
        f"One or more records have been rejected due to {len(errors)} record errors in total, "
        f"and only showing the first three errors at most: [{shown}]"
    )
