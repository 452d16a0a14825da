"""The records in fetched bytes for which conditions are true, with a limit of time and of size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from drumlin.client.places import OFFSET_MAX
from drumlin.client.read.conditions import Condition, parse_conditions
from drumlin.console.answers.by_schema import by_schema, is_framed
from drumlin.console.answers.fetched import TimeLimit, decoded_bytes
from drumlin.console.answers.shown_records import shown_bytes, shown_record
from drumlin.records.plain.record import Record

_LOOKING_S: Final = 3.0
_CHUNK: Final = 256
_CHUNK_BYTES: Final = 4 << 20
_RECORD_BYTES_MAX: Final = 1 << 20
_ANSWER_BYTES: Final = 1 << 20


def matching(
    question: dict[str, Any], records: bytes, fields: Callable[[], Any] | None
) -> dict[str, Any]:
    """The shown records, how many were looked at, and where to go on if it was not to the end.

    `too_large` counts records that were not looked into. `fields` makes a registry's decoder, which
    is asked if a condition or what is shown needs it.
    """
    conditions = parse_conditions(question["where"])
    limit = TimeLimit(_LOOKING_S)
    rows: list[dict[str, Any]] = []
    looked = too_large = size = 0
    stopped_at = None
    aborted = [(producer_id, first) for producer_id, first in question["aborted"]]
    found = decoded_bytes(records, aborted, *question["span"])
    for chunk, large in _chunks(found):
        if len(rows) >= question["limit"] or size >= _ANSWER_BYTES or limit.is_over:
            stopped_at = min(*large[:1], *_offsets(chunk[:1]), OFFSET_MAX)
            break
        looked += len(chunk) + len(large)
        too_large += len(large)
        chosen = _true(question["partition"], chunk, conditions, fields)
        kept = chosen[: question["limit"] - len(rows)]
        rows += _shown(kept, question["cut_bytes"], fields)
        size = sum(map(shown_bytes, rows))
        if len(kept) < len(chosen):
            looked -= sum(each > kept[-1].offset for each in (*large, *_offsets(chunk)))
            too_large -= sum(each > kept[-1].offset for each in large)
            stopped_at = kept[-1].offset + 1
            break
    return {"rows": rows, "looked": looked, "too_large": too_large, "stopped_at": stopped_at}


def _chunks(records: Iterable[Record]) -> Iterator[tuple[list[Record], list[int]]]:
    """Records some at a time, and the offsets of those that are too large."""
    chunk: list[Record] = []
    large: list[int] = []
    size = 0
    for record in records:
        own = len(record.key or b"") + len(record.value or b"")
        own += sum(len(name) + len(value or b"") for name, value in record.headers)
        if own > _RECORD_BYTES_MAX:
            large.append(record.offset)
        else:
            chunk.append(record)
            size += own
        if len(chunk) + len(large) >= _CHUNK or size >= _CHUNK_BYTES:
            yield chunk, large
            chunk, large, size = [], [], 0
    if chunk or large:
        yield chunk, large


def _offsets(records: Iterable[Record]) -> list[int]:
    return [each.offset for each in records]


def _true(
    partition: int,
    chunk: Sequence[Record],
    conditions: Sequence[Condition],
    fields: Callable[[], Any] | None,
) -> list[Record]:
    """The records for which all conditions are true."""
    keys: dict[int, Any] = {}
    values: dict[int, Any] = {}
    asked = {each.field for each in conditions}
    if fields is not None and "key" in asked:
        keys, _ = fields().decoded([each.key or b"" for each in chunk])
    if fields is not None and "value" in asked:
        values, _ = fields().decoded([each.value or b"" for each in chunk])
    chosen = []
    for index, record in enumerate(chunk):
        row = _row(partition, record)
        row["key"] = keys.get(index, record.key)
        row["value"] = values.get(index, record.value)
        if all(each.is_true(row) for each in conditions):
            chosen.append(record)
    return chosen


def _row(partition: int, record: Record) -> dict[str, Any]:
    """A record as conditions take it, but for its key and its value."""
    return {
        "partition": partition,
        "offset": record.offset,
        "headers": [{"key": name, "value": data} for name, data in record.headers],
    }


def _shown(
    records: Sequence[Record], cut_bytes: int, fields: Callable[[], Any] | None
) -> list[dict[str, Any]]:
    rows = [shown_record(each, cut_bytes) for each in records]
    if fields is None:
        return rows
    wanted = [
        (row, name, field)
        for row, record in zip(rows, records, strict=True)
        for name, field in (("key", record.key), ("value", record.value))
        if field is not None and is_framed(field)
    ]
    texts = fields().shown([field for _, _, field in wanted], cut_bytes) if wanted else []
    for (row, name, _), text in zip(wanted, texts, strict=True):
        row[by_schema(name)] = text
    return rows
