"""The rejection of a batch. Clients act on the error code; the text is for their logs.

A few compressed bytes can contain millions of bad records. So not all of these are examined or
named: a response must never grow with the decompressed size, only with the size of the request.
"""

from __future__ import annotations

from typing import Final

from drumlin.records.batch.batch import NO_TIMESTAMP, BatchHeader, Buffer
from drumlin.records.validation.append_rules import AppendRules
from drumlin.records.validation.survey import RecordFacts, Survey, check_record
from drumlin.wire.error_codes import ErrorCode, KafkaError

_SHOWN: Final = 3
#: The number of records named per batch; each takes a few dozen bytes in the answer.
_NAMED_MAX: Final = 100
#: The bytes that a client must have sent per named record.
_BYTES_PER_NAMED: Final = 16
#: The number of records examined per batch; each takes a microsecond or more.
_LOOKED_AT_MAX: Final = 100_000


class InvalidBatch(KafkaError):
    """A rejection, with `message` and `record_errors` for the client, and `reason` for logs."""

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
    """The request must not contain such records, whatever the partition."""


def reject_records(
    header: BatchHeader,
    body: Buffer,
    facts: Survey,
    rules: AppendRules,
    now_ms: int,
    log_name: str,
) -> InvalidBatch:
    """The error with the first bad records in `body`, which has at least one."""
    named_max = min(_NAMED_MAX, header.size // _BYTES_PER_NAMED)
    errors: list[tuple[int, str]] = []
    has_bad_timestamp = False
    position, end, index = 0, len(body), 0
    while index < min(header.record_count, _LOOKED_AT_MAX) and len(errors) < named_max:
        record = check_record(body, position, end, header.base_timestamp)
        position = record.end
        if rules.is_compacted and record.key_length < 0:
            errors.append((index, _keyless(log_name)))
        elif (bad_timestamp := _bad_timestamp(header, record, rules, now_ms)) is not None:
            has_bad_timestamp = True
            errors.append((index, bad_timestamp))
        index += 1
    if not errors:
        has_bad_timestamp = not (rules.is_compacted and facts.has_null_key)
    if has_bad_timestamp:
        code = ErrorCode.invalid_timestamp
        message = "there are records whose timestamps are not allowed here"
    else:
        code = ErrorCode.invalid_record
        message = _summary(errors, is_all=index == header.record_count)
    return InvalidBatch(code, message, message=message, record_errors=errors)


def _keyless(log_name: str) -> str:
    return f"{log_name} is compacted, so each record needs a key"


def _bad_timestamp(
    header: BatchHeader, record: RecordFacts, rules: AppendRules, now_ms: int
) -> str | None:
    timestamp = header.max_timestamp if header.is_log_append_time else record.timestamp
    if rules.timestamp_type == "CreateTime" and timestamp != NO_TIMESTAMP:
        earliest = now_ms - rules.timestamp_before_max_ms
        latest = now_ms + rules.timestamp_after_max_ms
        if earliest <= timestamp <= latest:
            return None
        return (
            f"record {record.offset_delta} has timestamp {timestamp}, "
            f"which is not between {earliest} and {latest}"
        )
    if not header.is_log_append_time:
        return None
    return (
        f"record {record.offset_delta} with timestamp {timestamp} claims to have the time of its "
        "append, which a producer cannot know"
    )


def _summary(errors: list[tuple[int, str]], *, is_all: bool) -> str:
    if not errors:
        return f"bad records, after the first {_LOOKED_AT_MAX} of the batch"
    shown = "; ".join(f"{index}: {text}" for index, text in errors[:_SHOWN])
    count = f"{len(errors) - _SHOWN} more" if is_all else "perhaps more"
    rest = f"; and {count}" if len(errors) > _SHOWN or not is_all else ""
    return f"bad records, by their place in the batch: {shown}{rest}"
