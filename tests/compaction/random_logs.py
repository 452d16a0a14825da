"""Random logs with all that a log can hold, and the dumb twin that says what a reader may see.

The twin is a list of what was appended. It knows nothing of segments, batches or maps, only the
promise: the last value of every key stays, tombstones stay for long enough, what was aborted
never counts, offsets and order never change.
"""

from __future__ import annotations

import copy
import dataclasses
import random
from dataclasses import dataclass

from drumlin.clock import ManualClock
from drumlin.records.batch.batch import BatchHeader, parse_header
from drumlin.records.plain.record import Record, encode_batch
from drumlin.records.validation.validation import PreparedBatch
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.turns import to_end
from storage.samples import marker

_CODECS = ("none", "none", "none", "gzip", "snappy", "lz4", "zstd")
_IDEMPOTENT = (7, 8)
_TRANSACTIONAL = (21, 22, 23)
_HEADERS = (("trace", b"1"), ("empty", None))


@dataclass
class Appended:
    """One record as it was appended."""

    record: Record
    written_ms: int
    producer_id: int
    is_undecided: bool = False
    is_aborted: bool = False
    marker_offset: int = -1


class RandomLog:
    """A log and its twin, changed together."""

    def __init__(self, logs: LogDirectories, log: PartitionLog, seed: int) -> None:
        self.logs = logs
        self.log = log
        self.clock = logs._clock
        assert isinstance(self.clock, ManualClock)
        self.random = random.Random(seed)
        self.appended: list[Appended] = []
        #: Of every batch, as it was appended, by its last offset.
        self.headers: dict[int, BatchHeader] = {}
        #: When a cleaning saw a tombstone for the first time, by its offset.
        self.tombstones_seen_ms: dict[int, int] = {}
        #: The same of markers, or before.
        self.markers_seen_ms: dict[int, int] = {}
        self._sequences: dict[int, int] = {}
        self._epochs: dict[int, int] = {}
        self._keys = [b"", b"\x00\x00\x00\x01", *(b"key-%d" % i for i in range(12))]
        self._number = 0

    def copied(self) -> RandomLog:
        """A twin of its own, for a copy of the log."""
        again = copy.copy(self)
        again.random = random.Random(len(self.appended))
        again.appended = [dataclasses.replace(each) for each in self.appended]
        again.headers = dict(self.headers)
        again.tombstones_seen_ms = dict(self.tombstones_seen_ms)
        again.markers_seen_ms = dict(self.markers_seen_ms)
        again._sequences = dict(self._sequences)
        again._epochs = dict(self._epochs)
        return again

    @property
    def now_ms(self) -> int:
        return self.clock.wall_ms()

    def append_some(self) -> None:
        """A batch without a producer, of an idempotent one, or within a transaction."""
        kind = self.random.random()
        if kind < 0.4:
            self._append(-1)
        elif kind < 0.65:
            self._append(self.random.choice(_IDEMPOTENT))
        else:
            self._append(self.random.choice(_TRANSACTIONAL), is_transactional=True)

    def append_plain(self) -> None:
        """A batch without a producer."""
        self._append(-1)

    def forget_from(self, offset: int) -> None:
        """What was appended from an offset on is lost. No markers are among it."""
        self.appended = [each for each in self.appended if each.record.offset < offset]
        self.headers = {last: each for last, each in self.headers.items() if last < offset}

    def append_filler(self) -> None:
        """A batch that can be cleaned, without a producer, of a key of its own."""
        self._append(-1, [Record(0, self.now_ms, b"filler", b"value")])

    def bump_epoch(self) -> None:
        """A producer starts again."""
        self._start_epoch(self.random.choice(_IDEMPOTENT))

    def _start_epoch(self, producer_id: int) -> None:
        self._epochs[producer_id] = self._epochs.get(producer_id, 0) + 1
        self._sequences[producer_id] = 0

    def _append(
        self,
        producer_id: int,
        records: list[Record] | None = None,
        *,
        is_transactional: bool = False,
    ) -> None:
        if records is None:
            records = [
                self._record(number) for number in range(self.random.choice((1, 1, 2, 3, 7)))
            ]
        count = len(records)
        sequence = self._sequences.get(producer_id, 0) if producer_id >= 0 else -1
        batch = encode_batch(
            records,
            compression=self.random.choice(_CODECS),
            producer_id=producer_id,
            producer_epoch=self._epochs.get(producer_id, 0) if producer_id >= 0 else -1,
            base_sequence=sequence,
            is_transactional=is_transactional,
            timestamp_type=self.random.choice(("CreateTime", "CreateTime", "LogAppendTime")),
        )
        header = parse_header(batch)
        prepared = PreparedBatch(memoryview(batch), header)
        result = self.log.append_as_leader(prepared, 0, self.now_ms)
        if producer_id >= 0:
            self._sequences[producer_id] = sequence + count
        self._note_header(batch)
        for number, record in enumerate(records):
            stamp = header.max_timestamp if header.is_log_append_time else record.timestamp
            seen = Record(
                result.base_offset + number, stamp, record.key, record.value, record.headers
            )
            self.appended.append(
                Appended(seen, self.now_ms, producer_id, is_undecided=is_transactional)
            )

    def _record(self, number: int) -> Record:
        key = self.random.choice(self._keys) if self.random.random() > 0.03 else None
        self._number += 1
        value = None if self.random.random() < 0.2 else b"value %d" % self._number
        headers = _HEADERS if self.random.random() < 0.1 else ()
        timestamp = self.now_ms + self.random.randrange(-1000, 1000)
        return Record(number, timestamp, key, value, headers)

    def end_transaction(self) -> None:
        """Commit or abort one of those that are open."""
        opened = sorted({each.producer_id for each in self.appended if each.is_undecided})
        if not opened:
            return
        producer_id = self.random.choice(opened)
        is_commit = self.random.random() < 0.5
        if self.random.random() < 0.3:  # with or without: as of Kafka 4.0, or before
            self._start_epoch(producer_id)
        batch = marker(
            commit=is_commit, producer_id=producer_id, epoch=self._epochs.get(producer_id, 0)
        )
        result = self.log.append_internal(batch, 0, self.now_ms)
        self._note_header(batch)
        for each in self.appended:
            if each.is_undecided and each.producer_id == producer_id:
                each.is_undecided, each.is_aborted = False, not is_commit
                each.marker_offset = result.base_offset

    def end_all_transactions(self) -> None:
        while any(each.is_undecided for each in self.appended):
            self.end_transaction()

    def _note_header(self, batch: bytearray | memoryview) -> None:
        header = parse_header(batch)
        self.headers[header.last_offset] = header

    def delete_records(self) -> None:
        """The log starts later from now on."""
        log = self.log
        undecided = log.producer_state.first_undecided_offset
        end = log.log_end_offset if undecided is None else undecided
        if end > log.log_start_offset:
            step = max(1, (end - log.log_start_offset) // 4)
            log.delete_records_before(log.log_start_offset + self.random.randrange(step))
            to_end(self.logs.delete_old_segments())

    def truncate(self) -> None:
        """Cut the log somewhere after its last marker, where nothing can have been cleaned."""
        log = self.log
        markers = [h.last_offset for h in self.headers.values() if h.is_control]
        first = max(log.segments.active.base_offset, log.log_start_offset, *markers, 0) + 1
        if first >= log.log_end_offset:
            return
        log.truncate_to(self.random.randrange(first, log.log_end_offset))
        self.forget_from(log.log_end_offset)
        for each in log.producer_state.freeze().entries():
            self._sequences[each.producer_id] = each.last_sequence + 1
            self._epochs[each.producer_id] = each.producer_epoch
        known = {each.producer_id for each in log.producer_state.freeze().entries()}
        self._sequences = {n: each for n, each in self._sequences.items() if n in known}
        self._epochs = {n: each for n, each in self._epochs.items() if n in known}

    def note_seen_markers(self) -> None:
        """A cleaning may look at whatever is in sealed segments."""
        for offset, header in self.headers.items():
            if header.is_control and offset < self.log.segments.active.base_offset:
                self.markers_seen_ms.setdefault(offset, self.now_ms)

    def note_seen_tombstones(self, round_end_offset: int) -> None:
        """A cleaning got as far as this."""
        for each in self.appended:
            if each.record.offset < round_end_offset and each.record.value is None:
                self.tombstones_seen_ms.setdefault(each.record.offset, self.now_ms)

    def latest(self, end_offset: int) -> dict[bytes, Appended]:
        """For each key the last record that counts, below an offset."""
        found: dict[bytes, Appended] = {}
        for each in self.appended:
            record = each.record
            if record.offset < end_offset and record.key is not None and not each.is_aborted:
                found[record.key] = each
        return found
