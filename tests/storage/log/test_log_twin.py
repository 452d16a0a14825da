"""Random lists of operations on one log, beside a Python list that says what must be in it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drumlin.config.topic import LogConfig
from drumlin.records.batch.batch import assign_offsets
from drumlin.records.plain.record import Record, decode_records
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.log.truncation import Truncation
from rig.depth import so_many
from storage.doors import ForgetfulFiles
from storage.samples import (
    IN_MEMORY,
    NOW_MS,
    batch_of,
    create,
    open_logs,
    prepared,
    read_all,
    read_bytes,
)

_CONFIG = LogConfig(
    segment_bytes=700,
    index_interval_bytes=100,
    retention_bytes=2500,
    retention_ms=1000,
    segment_jitter_ms=0,
)

_fraction = st.floats(0, 1, allow_nan=False)
_operation = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 5), st.integers(0, 100)),
    st.tuples(st.just("append"), st.integers(1, 5), st.integers(0, 30)),
    st.tuples(st.just("produce"), st.integers(1, 5), st.integers(0, 30)),
    st.tuples(st.just("replicate"), st.lists(st.integers(1, 5), min_size=1, max_size=8)),
    st.tuples(st.just("new_epoch"), st.integers(1, 3)),
    st.tuples(st.sampled_from(["roll", "flush", "checkpoint", "retain_size", "retain_time"])),
    st.tuples(st.sampled_from(["truncate", "delete_records", "truncate_fully"]), _fraction),
    st.tuples(
        st.just("truncate_in_steps"),
        _fraction,
        st.sampled_from(["roll", "flush", "checkpoint", "retain_size", "new_epoch"]),
        st.sampled_from(["roll", "flush", "checkpoint", "retain", "new_epoch"]),
    ),
    st.tuples(st.sampled_from(["stop", "crash", "power"])),
)


@dataclass
class Twin:
    """The log and the list."""

    path: Path
    files: ForgetfulFiles = field(default_factory=ForgetfulFiles)
    batches: list[list[Record]] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)  # of each batch
    sequences: dict[int, int] = field(default_factory=dict)  # by the last offset of a batch
    epoch: int = 0
    known_from: int = 0
    number: int = 0

    def __post_init__(self) -> None:
        self.logs = open_logs(self.path, config=_CONFIG, files=self.files)
        self.log = create(self.logs, _CONFIG)

    # -- operations --------------------------------------------------------------------

    def append(self, count: int, size: int, **producer: int) -> None:
        self.number += 1
        value = b"%d" % self.number + bytes(size)
        base_offset = self.log.log_end_offset
        timestamp = NOW_MS + 100 * self.number
        batch = prepared(count, value=value, timestamp=timestamp, **producer)
        result = self.log.append_as_leader(batch, self.epoch, NOW_MS)
        assert result.base_offset == base_offset
        self.epochs.append(self.epoch)
        self.batches.append(
            [Record(base_offset + i, timestamp + i, b"key-%d" % i, value) for i in range(count)]
        )

    def produce(self, count: int, size: int) -> None:
        """By an idempotent producer, which starts again where the log has forgotten it."""
        entry = self.log.producer_state.get(7)
        sequence = 0 if entry is None else entry.last_sequence + 1
        self.append(count, size, producer_id=7, producer_epoch=0, base_sequence=sequence)
        self.sequences[self.batches[-1][-1].offset] = sequence + count - 1

    def replicate(self, counts: list[int]) -> None:
        """Batches of a leader, some at a time."""
        content, offset = bytearray(), self.log.log_end_offset
        for count in counts:
            self.number += 1
            value, timestamp = b"%d" % self.number, NOW_MS + 100 * self.number
            batch = batch_of(count, base_offset=offset, timestamp=timestamp, value=value)
            assign_offsets(batch, 0, offset, self.epoch)
            self.epochs.append(self.epoch)
            self.batches.append(
                [Record(offset + i, timestamp + i, b"key-%d" % i, value) for i in range(count)]
            )
            content += batch
            offset += count
        self.log.append_as_follower(memoryview(content), NOW_MS)

    def new_epoch(self, step: int = 1) -> None:
        self.epoch += step

    def roll(self) -> None:
        self.log.roll(NOW_MS)

    def flush(self) -> None:
        self.log.flush()
        assert self.log.recovery_point == self.log.log_end_offset

    def checkpoint(self) -> None:
        self.logs.write_checkpoints()

    def retain_size(self) -> None:
        self.log.delete_old_segments(NOW_MS)
        if len(self.log.segments) > 1:
            excess = self.log.size_bytes - _CONFIG.retention_bytes
            assert excess < self.log.segments.first.size

    def retain_time(self) -> None:
        now_ms = NOW_MS + 100 * self.number - 500
        self.log.delete_old_segments(now_ms)
        oldest_ms = self.log.segments.first.largest_timestamp.timestamp
        assert oldest_ms == -1 or now_ms - oldest_ms <= _CONFIG.retention_ms

    def truncate(self, fraction: float) -> None:
        offset = self._offset_at(fraction)
        self.log.truncate_to(offset)
        self._keep_below(offset)

    def truncate_in_steps(self, fraction: float, before: str, after: str) -> None:
        """What else is done with a log may come between the steps."""
        offset = self._offset_at(fraction)
        if offset == self.log.log_end_offset:
            return
        truncation = Truncation(self.log, offset)
        truncation.prepare()
        getattr(self, before if before != "flush" else "sync")()
        while not truncation.cut():
            truncation.prepare()
        self._keep_below(offset)
        getattr(self, after if after != "flush" else "sync")()
        assert self.log.recovery_point <= self.log.log_end_offset
        truncation.rebuild()
        truncation.finish()

    def retain(self) -> None:
        self.log.delete_old_segments(NOW_MS)

    def sync(self) -> None:
        self.log.flush()

    def delete_records(self, fraction: float) -> None:
        self.log.delete_records_before(self._offset_at(fraction))
        # A crash may bring records back, until the checkpoint; but not their epochs.
        self.known_from = max(self.known_from, self.log.log_start_offset)

    def truncate_fully(self, fraction: float) -> None:
        offset = self._offset_at(fraction) + 10
        self.log.truncate_fully_and_start_at(offset)
        self._keep_below(0)

    def stop(self) -> None:
        start, end = self.log.log_start_offset, self.log.log_end_offset
        self.logs.close()
        self._open_again()
        assert self.logs.was_clean
        assert (self.log.log_start_offset, self.log.log_end_offset) == (start, end)
        assert self.log.recovery_point == end

    def crash(self) -> None:
        end = self.log.log_end_offset
        self.logs.abandon()
        self._open_again()
        assert self.log.log_end_offset == end

    def power(self) -> None:
        """Only what was synced is left: all up to the recovery point.

        Behind it a segment may end early although there is another one, as in Apache Kafka: what
        is there is kept.
        """
        durable = self.log.recovery_point
        self.logs.abandon()
        self.files.lose_unsynced()
        if not self.path.joinpath("t-0").exists():
            self.path.joinpath("t-0").mkdir()
        self._open_again()
        assert durable <= self.log.log_end_offset
        left = {record.offset for record in read_all(self.log)}
        kept = [
            (batch, epoch)
            for batch, epoch in zip(self.batches, self.epochs, strict=True)
            if batch[-1].offset < max(durable, self.log.log_start_offset)
            or batch[-1].offset in left
        ]
        self.batches, self.epochs = [each[0] for each in kept], [each[1] for each in kept]
        ends = {batch[-1].offset for batch in self.batches}
        self.sequences = {at: each for at, each in self.sequences.items() if at in ends}

    # -- comparing ---------------------------------------------------------------------

    def check(self) -> None:
        log = self.log
        expected = [
            record
            for batch in self.batches
            for record in batch
            if record.offset >= log.log_start_offset
        ]
        assert read_all(log) == expected
        if self.batches:
            assert self.batches[-1][-1].offset < log.log_end_offset
        for batch in self.batches[:: max(1, len(self.batches) // 3)]:
            if batch[0].offset >= log.log_start_offset:
                end_offset = batch[-1].offset + 1
                content = read_bytes(log, batch[-1].offset, end_offset=end_offset)
                assert list(decode_records(content)) == batch
                found = log.offset_for_timestamp(batch[-1].timestamp)
                assert found is not None
                assert found[:2] == (batch[-1].offset, batch[-1].timestamp)
        self._check_epochs(log)
        self._check_sequences(log)

    def _check_sequences(self, log: PartitionLog) -> None:
        """The last batch of the producer that is in the log is the last that the log knows of."""
        for batch in reversed(self.batches):
            last_offset = batch[-1].offset
            if last_offset in self.sequences and last_offset >= log.log_start_offset:
                entry = log.producer_state.get(7)
                assert entry is not None
                assert entry.last_sequence == self.sequences[last_offset]
                return

    def _check_epochs(self, log: PartitionLog) -> None:
        for batch, epoch in zip(self.batches, self.epochs, strict=True):
            if batch[0].offset >= max(log.log_start_offset, self.known_from):
                assert log.leader_epochs.epoch_for(batch[0].offset) == epoch

    # -- helpers -----------------------------------------------------------------------

    def _offset_at(self, fraction: float) -> int:
        start, end = self.log.log_start_offset, self.log.log_end_offset
        return start + round(fraction * (end - start))

    def _keep_below(self, offset: int) -> None:
        kept = [batch for batch in self.batches if batch[-1].offset < offset]
        self.batches, self.epochs = kept, self.epochs[: len(kept)]
        self.sequences = {at: each for at, each in self.sequences.items() if at < offset}

    def _open_again(self) -> None:
        self.logs = open_logs(self.path, config=_CONFIG, files=self.files)
        log = self.logs.get("t", 0)
        assert log is not None
        self.log = log


@settings(
    derandomize=True,
    deadline=None,
    report_multiple_bugs=False,
    max_examples=so_many(60, 150),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.lists(_operation, min_size=5, max_size=50))
def test_the_log_is_what_the_list_says(operations: list[tuple[str, *tuple[float, ...]]]) -> None:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as path:
        twin = Twin(Path(path))
        for name, *arguments in operations:
            getattr(twin, name)(*arguments)
            twin.check()
        twin.logs.abandon()
