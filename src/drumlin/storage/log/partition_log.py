"""One partition's log: offsets over segments.

Owns the choice of the segment for an append, the assignment of offsets, and durability. Only
one thread, the broker's loop, may change it; `flush`, `read` and the searches may run in others.

    log start offset <= log end offset; the recovery point is at or below the log end offset
    segments:  [base, base) [base, base) ... [base of the active one, log end offset)

An `OSError` takes the log dir offline and is raised as KAFKA_STORAGE_ERROR; a failed append leaves
nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn, TypeVar
from uuid import UUID

from drumlin.config.topic import LogConfig
from drumlin.records.batch.batch import CONTROL_MASK, BatchHeader, assign_offsets, parse_header
from drumlin.records.validation.validation import PreparedBatch
from drumlin.storage.directory import partition_metadata
from drumlin.storage.directory.log_directory import LogDirectory, storage_error
from drumlin.storage.log import clean_shutdown, expiry, follower_append, truncation
from drumlin.storage.log.cleaning_view import CleaningView, cleaning_view
from drumlin.storage.log.leader_epochs import EpochEnd
from drumlin.storage.log.log_state import LogState
from drumlin.storage.producers.append_result import AppendResult, result_of
from drumlin.storage.producers.control_records import parse_marker
from drumlin.storage.producers.producer_state import TransactionMarker
from drumlin.storage.producers.verification import NOT_REQUIRED, Verification
from drumlin.storage.segment.file_slice import FileSlice, ReadResult
from drumlin.storage.segment.roll_rule import is_overdue
from drumlin.storage.segment.segment import Segment
from drumlin.storage.segment.segment_list import SegmentList
from drumlin.storage.segment.timestamp_search import OffsetFound, find_max_timestamp, find_timestamp
from drumlin.storage.segment.transaction_index import AbortedTransaction
from drumlin.wire.error_codes import ErrorCode, KafkaError

T = TypeVar("T")
_NOTHING: Final = ReadResult(())
_EPOCH_MAX: Final = 2**31 - 1


class PartitionLog(LogState):
    """A log. Only `recovery.load_log` and `LogDirectories.create` create one.

    Every access to the disk raises `KafkaError` KAFKA_STORAGE_ERROR when it fails.
    """

    def __init__(
        self,
        log_directory: LogDirectory,
        path: str,
        topic: str,
        partition: int,
        topic_id: UUID,
        config: LogConfig,
        segments: SegmentList,
    ) -> None:
        super().__init__(log_directory, path, topic, partition, topic_id, config, segments)
        self._files = log_directory.files
        self._open_files = log_directory.open_files
        self._last_flush_s = log_directory.clock.monotonic()
        self._end_offset_when_last_looked = -1

    @property
    def directory(self) -> Path:
        return Path(self.path)

    def write_topic_id(self, topic_id: UUID) -> None:
        """Write the topic id into the folder; durable with the next flush."""
        path = f"{self.path}/{partition_metadata.FILE_NAME}"
        with self._failing_as("name"):
            self._files.write_file(path, partition_metadata.encode_partition_metadata(topic_id))
        self.durability.note_new_folder(path)
        self.topic_id = topic_id

    # -- failures ----------------------------------------------------------------------

    def _failed(self, error: OSError, attempt: str) -> KafkaError:
        """The exception for `error`, which is not the device's failure if the log was deleted."""
        if self.is_deleted:
            return storage_error(f"{self.name} was deleted")
        return self.log_directory.fail_log(error, f"{attempt} {self.name}")

    @contextmanager
    def _failing_as(self, attempt: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._failed(error, attempt) from error

    # -- appending ---------------------------------------------------------------------

    def append_as_leader(
        self,
        batch: PreparedBatch,
        leader_epoch: int,
        now_ms: int,
        verification: Verification | None = NOT_REQUIRED,
    ) -> AppendResult:
        """Append a client's batch, unless it is a duplicate.

        `verification`: see `ProducerState.check_client_batch`.

        Raises:
            KafkaError: OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH,
                INVALID_TXN_STATE, RECORD_LIST_TOO_LARGE, KAFKA_STORAGE_ERROR.
        """
        header, buffer = batch.header, batch.buffer
        if len(buffer) > self._config.segment_bytes:
            self._refuse_size(buffer)
        has_producer = header.producer_id >= 0
        base_offset = self.log_end_offset
        if has_producer:
            try:
                state = self.producer_state
                duplicate = state.check_client_batch(header, base_offset, verification)
            except KafkaError:
                # If the log dir is offline, this is only out of order as earlier batches failed.
                self.log_directory.check_writable()
                raise
            if duplicate is not None:
                return AppendResult.of_duplicate(duplicate, self.log_start_offset)
        log_append_time_ms = batch.log_append_time_ms
        timestamp = header.max_timestamp if log_append_time_ms < 0 else log_append_time_ms
        last_offset = base_offset + header.last_offset_delta
        assign_offsets(buffer, 0, base_offset, leader_epoch)
        self._write(buffer, base_offset, last_offset, leader_epoch, timestamp, now_ms)
        try:
            if has_producer:
                self.producer_state.update(header, base_offset, timestamp)
        finally:  # set last, so that readers up to it see open transactions; even after an error
            self.log_end_offset = last_offset + 1
        return result_of(
            (base_offset, last_offset, log_append_time_ms, self.log_start_offset, False)
        )

    def append_internal(
        self,
        batch: memoryview,
        leader_epoch: int,
        now_ms: int,
        *,
        verification: Verification | None = NOT_REQUIRED,
        transaction_version: int = 0,
    ) -> AppendResult:
        """Append a batch, or a marker, that a coordinator on this broker has built.

        `verification` is for batches in transactions, `transaction_version` for markers.
        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED,
                INVALID_TXN_STATE, RECORD_LIST_TOO_LARGE, KAFKA_STORAGE_ERROR.
        """
        if len(batch) > self._config.segment_bytes:
            self._refuse_size(batch)
        base_offset = self.log_end_offset
        assign_offsets(batch, 0, base_offset, leader_epoch)
        header = parse_header(batch)
        if header.producer_id < 0 and not header.attributes & CONTROL_MASK:  # the usual case
            last_offset = base_offset + header.last_offset_delta
            timestamp = header.max_timestamp
            self._write(batch, base_offset, last_offset, leader_epoch, timestamp, now_ms)
            self.log_end_offset = last_offset + 1
            return result_of((base_offset, last_offset, -1, self.log_start_offset, False))
        marker, state = parse_marker(batch, header), self.producer_state
        if marker is not None:
            state.check_marker(header, marker, transaction_version)
        elif header.has_producer_id:
            if header.is_transactional:
                state.check_transaction(header, verification)
            state.check_epoch(header)
        self._write(
            batch,
            base_offset,
            header.last_offset,
            leader_epoch,
            header.max_timestamp,
            now_ms,
            None if marker is None else state.aborted_by(header, marker, base_offset),
        )
        self._follow(header, marker)
        return AppendResult(base_offset, header.last_offset, -1, self.log_start_offset)

    def append_as_follower(self, batches: memoryview, now_ms: int) -> None:
        """Append a leader's batches, up to one that is cut off.

        Raises:
            KafkaError: CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE if a batch does not continue the log,
                KAFKA_STORAGE_ERROR. The batches before it are appended.
        """
        position, end = -1, 0
        while end > position:
            position, end = end, self.append_next(batches, end, now_ms)

    def append_next(
        self, batches: memoryview, position: int, now_ms: int, leader_epoch: int = _EPOCH_MAX
    ) -> int:
        """Do a step of `append_as_follower`, for answers that take longer than a turn of the loop.

        See `follower_append.append_next`. After an error nothing of the step is appended.
        """
        self._check_appendable()
        with self._failing_as("append to"):
            return follower_append.append_next(
                self, batches, position, now_ms, leader_epoch, self._roll
            )

    def start_leader_epoch(self, leader_epoch: int) -> None:
        """Start a leader epoch of this broker at the log end offset."""
        if leader_epoch > self.leader_epochs.latest_epoch:
            due_at = self.log_end_offset if self.epoch_due_at is None else self.epoch_due_at
            self.leader_epochs.assign(leader_epoch, due_at)
            self.epoch_due_at = None

    def _refuse_size(self, batch: memoryview) -> NoReturn:
        raise KafkaError(
            ErrorCode.record_list_too_large,
            f"a batch of {len(batch)} bytes does not fit into a segment of "
            f"{self._config.segment_bytes}",
        )

    def _write(
        self,
        batch: memoryview,
        base_offset: int,
        last_offset: int,
        leader_epoch: int,
        timestamp: int,
        now_ms: int,
        aborted: AbortedTransaction | None = None,
    ) -> None:
        """Write a batch at the end of the log: the only part of an append that can fail."""
        if self.log_directory.failure is not None or self.is_moving:
            self._check_appendable()
        try:
            segment = self.segments.active
            if self.roll_rule.applies(segment, len(batch), last_offset, timestamp, now_ms):
                segment = self._roll(base_offset, now_ms)
            if aborted is not None:  # before the marker, at which readers expect it
                segment.transaction_index.append(aborted)
                self.durability.note_new_names()  # the first entry creates the file
            segment.append(batch, last_offset, timestamp, self._config.index_interval_bytes)
        except OSError as error:
            if aborted is not None:
                segment.transaction_index.forget_last(aborted)
            raise self._failed(error, "append to") from error
        if leader_epoch > self.leader_epochs.latest_epoch:
            self.leader_epochs.assign(leader_epoch, base_offset)

    def _check_appendable(self) -> None:
        """Refuse appends while the log dir is offline, or the log is changing its log dir.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR; NOT_LEADER_OR_FOLLOWER for a moment while the log
                changes its log dir. Appends whose order matters wait before this call.
        """
        self.log_directory.check_writable()
        if self.is_moving:
            message = f"{self.name} is changing its log dir"
            raise KafkaError(ErrorCode.not_leader_or_follower, message)

    def _follow(self, header: BatchHeader, marker: TransactionMarker | None) -> None:
        """Update offsets and producer state after a batch was written."""
        try:
            if header.has_producer_id:
                self.producer_state.follow(header, marker)
        finally:  # as in `append_as_leader`
            self.log_end_offset = header.end_offset

    # -- rolling -----------------------------------------------------------------------

    def roll(self, now_ms: int) -> None:
        """Roll a new segment, unless the active one is empty or the log is being cut."""
        self.log_directory.check_writable()
        if self.segments.active.size and not (self.is_being_cut or self.is_moving):
            with self._failing_as("roll"):
                self._roll(self.log_end_offset, now_ms)

    def _roll(self, base_offset: int, now_ms: int) -> Segment:
        """Seal the active segment and add a new one after it, starting at `base_offset`."""
        if self.is_deleted:  # the folder may belong to another log with this name by now
            raise storage_error(f"{self.name} was deleted")
        active = self.segments.active
        if active.size == 0:  # the relative offset would overflow: the segment is replaced
            segment = Segment.create(self.path, base_offset, self._open_files, now_ms)
            self.segments.replace((active,), (segment,))
            active.remove_files()
        else:
            active.seal()
            segment = Segment.create(self.path, base_offset, self._open_files, now_ms)
            self.segments.add(segment)
            self.durability.note_sealed(active)
        self.durability.note_snapshot(base_offset, self.producer_state.freeze())
        self.durability.note_new_names()
        self.roll_rule.draw_jitter()
        self.awaits_flush = True
        return segment

    def roll_if_overdue(self, now_ms: int) -> None:
        """Roll a new segment if records have waited too long for compaction."""
        if is_overdue(self.segments.active, self._config, now_ms):
            self.roll(now_ms)

    # -- durability --------------------------------------------------------------------

    @property
    def is_flush_due(self) -> bool:
        """Whether acknowledgements must wait for `flush` (`flush.messages`)."""
        return self.log_end_offset - self.durability.recovery_point >= self._config.flush_messages

    def flush(self, up_to_offset: int | None = None) -> None:
        """Make everything below `up_to_offset` (default: all) durable. Blocks.

        Thread-safe; concurrent callers share a sync.
        """
        if up_to_offset is not None and up_to_offset <= self.recovery_point:
            return
        self.log_directory.check_writable()
        durability = self.durability
        with self._failing_as("flush"), durability.lock:
            self.awaits_flush = False  # before the sync, as segments may be sealed meanwhile
            try:
                durability.sync(self.segments, self.leader_epochs, self.log_end_offset)
            except BaseException:
                self.awaits_flush = True
                raise
        self._last_flush_s = self.log_directory.clock.monotonic()

    def is_flush_overdue(self, now_s: float) -> bool:
        """Whether records have waited for a flush as long as `flush.ms` allows."""
        return (
            now_s - self._last_flush_s >= self._config.flush_ms / 1000
            and self.recovery_point < self.log_end_offset
        )

    def close(self) -> None:
        """Make everything durable and close the files, for a clean shutdown."""
        self.log_directory.check_writable()
        with self._failing_as("close"):
            clean_shutdown.complete(self)
        self.flush()
        self.close_files()

    def close_or_note(self) -> None:
        """Close the log; if that fails, the next start has to recover it."""
        if self.log_directory.is_online:
            try:
                self.close()
            except KafkaError:  # logged where it failed
                self.log_directory.in_disorder.add((self.topic, self.partition))

    def release_if_idle(self) -> None:
        """Release the resources for appends, if there was no append since the last call."""
        if self.log_end_offset == self._end_offset_when_last_looked:
            with self._failing_as("complete the files of"):
                self.segments.active.rest()
        self._end_offset_when_last_looked = self.log_end_offset

    def mark_deleted(self) -> None:
        """Mark the log deleted: readers keep the slices that they hold, everything else stops."""
        self.is_deleted = True
        self.durability.give_up()
        self.awaits_flush = False
        for segment in self.segments:
            segment.discard()

    def close_files(self) -> None:
        """Release descriptors and unused blocks; the next use opens the files again."""
        for segment in self.segments:
            segment.close()

    # -- reading -----------------------------------------------------------------------

    def read(
        self,
        start_offset: int,
        max_bytes: int,
        end_offset: int,
        minimum_one_batch: bool,
        *,
        may_block: bool = True,
    ) -> ReadResult:
        """Read batches from the one that holds `start_offset`, only below `end_offset`.

        Offsets that were compacted away are skipped. The last batch may be cut at `max_bytes`; the
        first is returned whole (`minimum_one_batch`) or not at all.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR.
            BlockingIOError: with `may_block=False`, when finding the batch needs the device.
        """
        if not self.log_start_offset <= start_offset <= self.log_end_offset:
            raise KafkaError(
                ErrorCode.offset_out_of_range,
                f"offset {start_offset} of {self.name}, which has {self.log_start_offset} to "
                f"{self.log_end_offset}",
            )
        self.log_directory.check_readable()
        if start_offset >= end_offset:
            return _NOTHING
        wanted = (start_offset, max_bytes, end_offset, minimum_one_batch, may_block)
        try:
            return self._read(*wanted)
        except BlockingIOError:
            raise
        except FileNotFoundError:  # perhaps a segment was deleted meanwhile
            return self.look(lambda: self._read(*wanted))
        except OSError as error:
            raise self._failed(error, "read") from error

    def _read(
        self, start_offset: int, max_bytes: int, end_offset: int, needs_one: bool, may_block: bool
    ) -> ReadResult:
        directory = self.log_directory
        how = self._files.read_at if may_block else self._files.read_resident_at
        for segment, end in self.segments.between(start_offset, end_offset, how):
            found = segment.read(start_offset, max_bytes, end, needs_one, directory, how)
            if found is not None:
                return ReadResult((found,))
        return _NOTHING

    def aborted_transactions(
        self, start_offset: int, end_offset: int, *, may_block: bool = True
    ) -> list[AbortedTransaction]:
        """The aborted transactions with records in the range, for a READ_COMMITTED reader."""
        return self.look(
            lambda: self.segments.aborted_transactions(start_offset, end_offset, may_block)
        )

    def aborted_in(
        self, piece: FileSlice, start_offset: int, end_offset: int, *, may_block: bool = True
    ) -> list[AbortedTransaction]:
        """The aborted transactions with offsets in `piece`, read from `start_offset` on."""
        how = self._files.read_at if may_block else self._files.read_resident_at
        return self.look(
            lambda: self.segments.aborted_in(piece, start_offset, end_offset, how, may_block)
        )

    def offset_for_timestamp(self, timestamp: int) -> OffsetFound | None:
        """The first record with this timestamp or a later one."""
        return self.look(lambda: find_timestamp(self.segments, timestamp, self.log_start_offset))

    def max_timestamp_offset(self) -> OffsetFound | None:
        """The first record with the largest timestamp."""
        return self.look(lambda: find_max_timestamp(self.segments, self.log_start_offset))

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEnd:
        """The largest epoch up to `leader_epoch`, with its end offset."""
        return self.leader_epochs.end_offset_for(leader_epoch, self.log_end_offset)

    def look(self, attempt: Callable[[], T]) -> T:
        """Look something up in the files; again, if segments were deleted. Thread-safe."""
        self.log_directory.check_readable()
        while True:
            segments = self.segments.snapshot()
            try:
                return attempt()
            except BlockingIOError:
                raise
            except OSError as error:
                if not self._has_changed(segments, error):
                    raise self._failed(error, "read") from error

    def _has_changed(self, segments: tuple[Segment, ...], error: OSError) -> bool:
        """Whether a segment was deleted during a look-up, which must be repeated then."""
        return isinstance(error, FileNotFoundError) and self.segments.snapshot() != segments

    # -- removing ----------------------------------------------------------------------

    def delete_old_segments(self, now_ms: int, end_offset: int | None = None) -> list[str]:
        """Delete expired segments below `end_offset` (default: all).

        Deletes a few at a time: call it until none is left. It reads no file, so only segments with
        known timestamps expire.

        Returns:
            Files to be removed after `file.delete.delay.ms`.
        """
        self.log_directory.check_readable()
        with self._failing_as("delete segments of"):
            return expiry.delete_old_segments(self, now_ms, end_offset, self._roll)

    def cleaning_view(self) -> CleaningView:
        return cleaning_view(self)

    def truncate_to(self, offset: int) -> None:
        """Remove all batches with an offset at or after `offset`. Blocks."""
        truncation.truncate(self, offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove everything; the next record gets `offset`. Blocks."""
        truncation.truncate_fully(self, offset)
