"""The passes of a cleaning in plain Python: the twin of the kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from compaction.passes.plain_map import PlainMap
from drumlin.compaction.passes.pass_outcomes import (
    FAULTS,
    check_header,
    fault_of,
    filtered_body,
    new_horizon_ms,
    pass_over,
)
from drumlin.compaction.passes.passes import (
    NO_HORIZON,
    Chunk,
    FilteredBody,
    FilterFacts,
    FilterRules,
    FilterStop,
    MapFacts,
    Reason,
    Stop,
)
from drumlin.compaction.round import cleaning_round
from drumlin.records.batch.batch import (
    DELETE_HORIZON_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    crc_matches,
    parse_header,
    seal,
    write_header,
)
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.batch.scan import IndexEntry
from drumlin.records.batch.varint import INT64_MAX, INT64_MIN, read_varint, read_varlong, varint
from drumlin.records.kernels.compaction_layout import (
    FAULT_CRC,
    FAULT_MAGIC,
    FAULT_OFFSETS,
    FAULT_ORDER,
    FAULT_RECORDS,
    FAULT_SIZE,
    REBASED_BODY_MAX,
    REBASED_RECORD_GROWTH_MAX,
)
from drumlin.records.kernels.layout import SCAN_ENTRIES_MAX
from drumlin.records.kernels.survival import EXPIRED, HORIZON_DUE, KEPT, KEYLESS, SUPERSEDED, fate
from drumlin.records.validation.survey import check_record


def clean_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have cleanings go by these passes in place of the kernels."""
    monkeypatch.setattr(cleaning_round, "OffsetMap", PlainMap)
    monkeypatch.setattr(cleaning_round, "MapPass", lambda _, *how: PlainMapPass(*how))
    monkeypatch.setattr(cleaning_round, "FilterPass", lambda _, *how: PlainFilterPass(*how))


class _Record(NamedTuple):
    """A record's position in its body, and the fields that decide about it."""

    start: int
    rest: int  # position after the timestamp delta
    end: int
    timestamp: int
    offset: int
    key: bytes | None
    has_value: bool


class PlainMapPass:
    """Pass 1; see `MapPass`."""

    def __init__(self, offset_map: PlainMap, first_offset: int, end_offset: int) -> None:
        self._map = offset_map
        self._first_offset = first_offset
        self.end_offset = end_offset
        self._facts = MapFacts(0, 0, 0, 0)

    def run(self, chunk: Chunk, size: int, position: int = 0) -> Stop:
        while True:
            header, reason, fault = _look_at(chunk, position, size)
            if header is None or reason is not None:
                return Stop(reason or Reason.END, position, header.size if header else 0, fault)
            is_dirty = header.last_offset >= self._first_offset
            try:
                if is_dirty and self._is_behind_end(header):
                    return Stop(Reason.DONE, position, header.size, "")
                if is_dirty and header.base_offset <= self._map.latest_offset:
                    raise CorruptRecord(FAULTS[FAULT_ORDER])
                if is_dirty and not crc_matches(chunk, position, header):
                    raise CorruptRecord(FAULTS[FAULT_CRC])
                body = memoryview(chunk)[position + HEADER_SIZE : position + header.size]
                reason = self._map_body(body, header) if is_dirty else Reason.END
            except CorruptRecord as corrupt:
                return Stop(Reason.CORRUPT, position, header.size, str(corrupt))
            if reason != Reason.END:
                return Stop(reason, position, header.size, "")
            if is_dirty:
                self._count(batches=1, size_bytes=header.size)
            position += header.size

    def map_body(self, body: Buffer, header: BatchHeader) -> Reason:
        check_header(header)
        if header.last_offset < self._first_offset:
            return Reason.END
        if self._is_behind_end(header):
            return Reason.DONE
        if header.base_offset <= self._map.latest_offset:
            raise CorruptRecord(FAULTS[FAULT_ORDER])
        return self._map_body(body, header)

    def _is_behind_end(self, header: BatchHeader) -> bool:
        if header.base_offset < self.end_offset:
            return False
        self._map.latest_offset = self.end_offset - 1
        return True

    def _map_body(self, body: Buffer, header: BatchHeader) -> Reason:
        for record in _records(body, header):
            if record.offset >= self.end_offset:
                break
            if record.offset >= self._first_offset:
                if record.key is not None and not self._map.put(record.key, record.offset):
                    self._map.latest_offset = record.offset - 1
                    return Reason.FULL
                self._count(records=1, keyless=int(record.key is None))
        return self.pass_over(header)

    def pass_over(self, header: BatchHeader) -> Reason:
        return pass_over(self._map, header, self._first_offset, self.end_offset)

    def _count(
        self, batches: int = 0, size_bytes: int = 0, records: int = 0, keyless: int = 0
    ) -> None:
        more = (batches, size_bytes, records, keyless)
        self._facts = MapFacts(*map(sum, zip(self._facts, more, strict=True)))

    @property
    def facts(self) -> MapFacts:
        return self._facts


class PlainFilterPass:
    """Pass 2; see `FilterPass`."""

    def __init__(self, offset_map: PlainMap, rules: FilterRules, index_interval_bytes: int) -> None:
        self.unindexed_bytes = 0
        self.largest_timestamp = (NO_TIMESTAMP, NO_TIMESTAMP)
        self.next_offset = 0
        self.end_offset = INT64_MAX
        self.earliest_horizon_ms = NO_HORIZON
        self._map = offset_map
        self._rules = rules
        self._new_horizon_ms = new_horizon_ms(rules)
        self._interval = index_interval_bytes
        self._entries: list[IndexEntry] = []
        self._facts = FilterFacts(*[0] * len(FilterFacts._fields))

    def run(
        self,
        chunk: Chunk,
        size: int,
        output: Chunk,
        *,
        position: int = 0,
        output_size: int = 0,
        file_position: int = 0,
    ) -> FilterStop:
        self._entries = []
        while True:
            header, reason, fault = _look_at(chunk, position, size)
            batch_size = header.size if header else 0
            if header is None or reason is not None:
                reason = reason or Reason.END
                return FilterStop(reason, position, batch_size, fault, output_size, 0)
            room = len(output) - output_size
            try:
                if header.base_offset < self.next_offset or header.end_offset > self.end_offset:
                    raise CorruptRecord(FAULTS[FAULT_ORDER])
                written, needed = b"", batch_size
                if room >= needed and len(self._entries) < SCAN_ENTRIES_MAX:
                    written, needed, facts = self._filter(chunk, position, header, room)
            except CorruptRecord as corrupt:
                reason, fault = Reason.CORRUPT, str(corrupt)
                return FilterStop(reason, position, batch_size, fault, output_size, 0)
            if room < needed or len(self._entries) == SCAN_ENTRIES_MAX:
                return FilterStop(Reason.FULL, position, batch_size, "", output_size, needed)
            self._add(facts)
            self._add(FilterFacts(1, batch_size, 0, bool(written), len(written), *[0] * 5))
            if written:
                left = parse_header(written)
                self._note_horizon(left, facts)
                self._index(left, file_position + output_size)
            output[output_size : output_size + len(written)] = written
            output_size += len(written)
            position += batch_size
            self.next_offset = header.end_offset

    @property
    def entries(self) -> list[IndexEntry]:
        return self._entries

    def filter_body(self, body: Buffer, header: BatchHeader) -> FilteredBody:
        check_header(header)
        filtered, facts = self._filter_body(body, header)
        self._note_horizon(filtered, facts)
        self._add(facts)
        return filtered

    @property
    def facts(self) -> FilterFacts:
        return self._facts

    def _filter(
        self, chunk: Chunk, position: int, header: BatchHeader, room: int
    ) -> tuple[bytes, int, FilterFacts]:
        """The new batch, empty if it needs more than `room`; the space it needs; and its counts."""
        batch = bytes(memoryview(chunk)[position : position + header.size])
        body = batch[HEADER_SIZE:]
        left, facts = self._filter_body(body, header)
        if left.is_unchanged and not left.is_dropped:
            return batch, len(batch), facts
        is_rebased = left.has_delete_horizon and not header.has_delete_horizon
        growth = header.record_count * REBASED_RECORD_GROWTH_MAX if is_rebased else 0
        if len(batch) + growth > room:
            return b"", len(batch) + growth, facts
        if not crc_matches(batch, 0, header):
            raise CorruptRecord(FAULTS[FAULT_CRC])
        if left.is_dropped:
            return b"", len(batch), facts
        attributes = header.attributes & ~DELETE_HORIZON_MASK
        new_header = header._replace(
            batch_length=HEADER_SIZE - LOG_OVERHEAD + len(left.body),
            attributes=attributes | (DELETE_HORIZON_MASK if left.has_delete_horizon else 0),
            base_timestamp=left.base_timestamp,
            max_timestamp=left.max_timestamp,
            record_count=left.record_count,
        )
        written = bytearray(HEADER_SIZE) + left.body
        write_header(written, 0, new_header)
        seal(written, 0, len(written))
        return bytes(written), len(batch) + growth, facts

    def _filter_body(self, body: Buffer, header: BatchHeader) -> tuple[FilteredBody, FilterFacts]:
        records = list(_records(body, header))
        fates = [self._fate(record, header) for record in records]
        kept = [
            record
            for record, found in zip(records, fates, strict=True)
            if found in (KEPT, HORIZON_DUE)
        ]
        horizon_ms = None
        timestamps = [record.timestamp for record in kept]
        if (
            HORIZON_DUE in fates
            and header.last_offset <= self._map.latest_offset
            and min(timestamps) >= INT64_MIN + self._new_horizon_ms
            and len(body) <= REBASED_BODY_MAX
        ):
            horizon_ms = self._new_horizon_ms
        copied = bytearray()
        for record in kept:
            copied += _copy(body, record, horizon_ms)
        left = filtered_body(
            self._rules,
            header,
            body,
            copied,
            len(kept),
            max([NO_TIMESTAMP, *timestamps]),
            horizon_ms,
        )
        facts = FilterFacts(
            batches_read=0,
            bytes_read=0,
            records_read=len(records),
            batches_written=0,
            bytes_written=0,
            records_written=len(kept),
            superseded=fates.count(SUPERSEDED),
            tombstones_dropped=fates.count(EXPIRED),
            keyless=fates.count(KEYLESS),
            tombstones_kept=sum(not record.has_value for record in kept),
        )
        return left, facts

    def _note_horizon(self, left: BatchHeader | FilteredBody, facts: FilterFacts) -> None:
        horizon_ms = left.base_timestamp
        is_to_come = left.has_delete_horizon and horizon_ms > self._rules.passed_until_ms
        if is_to_come and facts.tombstones_kept:
            self.earliest_horizon_ms = min(self.earliest_horizon_ms, horizon_ms)

    def _fate(self, record: _Record, header: BatchHeader) -> int:
        is_looked_at = record.offset <= self._map.latest_offset
        return fate(
            is_looked_at,
            record.key is not None,
            is_looked_at and record.key is not None and self._is_last(record.key, record.offset),
            record.has_value,
            header.has_delete_horizon,
            self._rules.passed_until_ms >= header.base_timestamp,
        )

    def _is_last(self, key: bytes, offset: int) -> bool:
        bitmap, index = self._rules.bitmap, offset - self._rules.bitmap_start
        if bitmap is not None and 0 <= index < 8 * len(bitmap):
            return bool(bitmap[index >> 3] >> (index & 7) & 1)
        last_offset = self._map.get(key)
        return last_offset is None or last_offset <= offset

    def _index(self, header: BatchHeader, position: int) -> None:
        if header.max_timestamp > self.largest_timestamp[0]:
            self.largest_timestamp = header.max_timestamp, header.last_offset
        if self.unindexed_bytes > self._interval:
            self._entries.append(IndexEntry(header.last_offset, position, *self.largest_timestamp))
            self.unindexed_bytes = 0
        self.unindexed_bytes += header.size

    def _add(self, facts: FilterFacts) -> None:
        self._facts = FilterFacts(*map(sum, zip(self._facts, facts, strict=True)))


def _look_at(
    chunk: Chunk, position: int, size: int
) -> tuple[BatchHeader | None, Reason | None, str]:
    """The header at a position; unless its batch is ordinary, the reason to stop, and the fault."""
    if size - position < HEADER_SIZE:
        return None, Reason.END, ""
    header = parse_header(chunk, position)
    fault = FAULT_MAGIC if header.magic != MAGIC else None
    if fault is None and header.size < HEADER_SIZE:
        fault = FAULT_SIZE
    if fault is None and header.size > size - position:
        return header, Reason.END, ""
    fault = fault or fault_of(header)
    if fault is not None:
        return header, Reason.CORRUPT, FAULTS[fault]
    if header.compression or header.is_transactional or header.is_control:
        return header, Reason.SPECIAL, ""
    return header, None, ""


def _records(body: Buffer, header: BatchHeader) -> Iterator[_Record]:
    """The records of a body.

    Raises:
        CorruptRecord: they don't match the header.
    """
    position, end, next_delta = 0, len(body), 0
    for _ in range(header.record_count):
        try:
            seen = check_record(body, position, end, header.base_timestamp)
        except CorruptRecord:
            raise CorruptRecord(FAULTS[FAULT_RECORDS]) from None
        if not next_delta <= seen.offset_delta <= header.last_offset_delta:
            raise CorruptRecord(FAULTS[FAULT_OFFSETS])
        next_delta = seen.offset_delta + 1
        _, attributes = read_varint(body, position, end)
        _, rest = read_varlong(body, attributes + 1, end)
        _, place = read_varint(body, rest, end)
        key_length, place = read_varint(body, place, end)
        yield _Record(
            position,
            rest,
            seen.end,
            seen.timestamp,
            header.base_offset + seen.offset_delta,
            bytes(body[place : place + key_length]) if key_length >= 0 else None,
            seen.value_length >= 0,
        )
        position = seen.end
    if position != end:
        raise CorruptRecord(FAULTS[FAULT_RECORDS])


def _copy(body: Buffer, record: _Record, horizon_ms: int | None) -> bytes | bytearray:
    """A record unchanged, or with its timestamp relative to a new delete horizon."""
    if horizon_ms is None:
        return bytes(body[record.start : record.end])
    _, attributes = read_varint(body, record.start, record.end)
    fields = bytearray(body[attributes : attributes + 1])
    fields += varint(record.timestamp - horizon_ms)
    fields += body[record.rest : record.end]
    return varint(len(fields)) + fields
