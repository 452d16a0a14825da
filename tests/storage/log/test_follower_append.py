"""What a leader sent is appended as it is, or not at all: files equal the leader's."""

from __future__ import annotations

import errno
import itertools
import struct
from pathlib import Path
from random import Random

import pytest

from drumlin.config.topic import LogConfig
from drumlin.records.batch.batch import HEADER_SIZE, assign_offsets, iterate_headers, seal
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.producers.producer_snapshot import encode_snapshot
from drumlin.storage.producers.producer_state import ProducerState
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.depth import seeds
from storage.doors import FailingFiles
from storage.samples import (
    NOW_MS,
    append,
    batch_of,
    create,
    from_producer,
    marker,
    offsets,
    open_logs,
    read_all,
    read_bytes,
)

CONFIG = LogConfig(
    segment_bytes=5000, segment_ms=3000, index_interval_bytes=300, segment_index_bytes=200
)


# -- whole logs --------------------------------------------------------------------------------


class Leading:
    """Appends batches of all kinds, in a few epochs, and later and later."""

    def __init__(self, log: PartitionLog, chance: Random) -> None:
        self.log, self.chance = log, chance
        self.epoch, self.now_ms = 0, NOW_MS
        self.sequences = dict.fromkeys(range(4), 0)
        self.opened: set[int] = set()

    def append(self, count: int) -> None:
        for _ in range(count):
            self._append_one()

    def _append_one(self) -> None:
        log, chance = self.log, self.chance
        self.now_ms += chance.choice([0, 10, 200])
        self.epoch += chance.random() < 0.05
        producer_id, records = chance.randrange(4), chance.choice([1, 1, 3, 20])
        value = chance.randbytes(chance.choice([1, 40, 150]))
        shape = {"timestamp": self.now_ms, "value": value}
        kind = chance.choice(["plain", "plain", "idempotent", "transactional", "marker"])
        if kind == "plain":
            codec = chance.choice(["none", "lz4", "zstd"])
            append(log, records, leader_epoch=self.epoch, compression=codec, **shape)
        elif kind == "marker" and producer_id in self.opened:
            self.opened.discard(producer_id)
            end = marker(commit=chance.random() < 0.5, producer_id=producer_id)
            log.append_internal(end, self.epoch, self.now_ms)
        else:
            is_transactional = kind == "transactional" or producer_id in self.opened
            if is_transactional:
                self.opened.add(producer_id)
            sequence = self.sequences[producer_id]
            batch = from_producer(
                sequence,
                records,
                producer_id=producer_id,
                is_transactional=is_transactional,
                **shape,
            )
            log.append_as_leader(batch, self.epoch, self.now_ms)
            self.sequences[producer_id] = sequence + records


def files_of(log: PartitionLog) -> dict[str, bytes]:
    """The content of all files, with what is in memory still."""
    for segment in log.segments:
        segment.rest()
    wanted = (".log", ".index", ".timeindex", ".txnindex")
    return {
        each.name: each.read_bytes()
        for each in Path(log.path).iterdir()
        if each.suffix in wanted and each.stat().st_size
    }


@pytest.mark.parametrize("seed", seeds(4, 40))
def test_a_followers_files_are_the_leaders(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    leaders, followers = open_logs(tmp_path / "leader"), open_logs(tmp_path / "follower")
    log, copy = create(leaders, CONFIG), create(followers, CONFIG)
    leading = Leading(log, chance)
    for _ in range(6):
        leading.append(60)
        while copy.log_end_offset < log.log_end_offset:
            most = chance.choice([1, 400, 3000, 1 << 20])
            copy.append_as_follower(
                memoryview(read_bytes(log, copy.log_end_offset, max_bytes=most)), NOW_MS
            )
    assert len(log.segments) > 5
    assert files_of(copy) == files_of(log)
    assert copy.leader_epochs.entries == log.leader_epochs.entries
    assert copy.producer_state.first_undecided_offset == log.producer_state.first_undecided_offset
    states = [encode_snapshot(each.producer_state.freeze()) for each in (log, copy)]
    assert states[0] == states[1]
    end_offset = log.log_end_offset
    assert copy.aborted_transactions(0, end_offset) == log.aborted_transactions(0, end_offset)
    for timestamp in range(NOW_MS, NOW_MS + 5000, 111):
        assert copy.offset_for_timestamp(timestamp) == log.offset_for_timestamp(timestamp)
    leaders.abandon()
    followers.abandon()


def test_a_log_from_the_midst_of_another(logs: LogDirectories, log: PartitionLog) -> None:
    """Epochs and producers are those of what was copied."""
    for number in range(6):
        log.append_as_leader(from_producer(2 * number, 2), number // 2, NOW_MS)
    copy = create(logs, topic="copy")
    copy.truncate_fully_and_start_at(4)
    copy.append_as_follower(memoryview(read_bytes(log, 4)), NOW_MS)
    assert copy.leader_epochs.entries == ((1, 4), (2, 8))
    entry = copy.producer_state.get(7)
    assert entry is not None
    assert entry.last_sequence == 11


def test_batches_of_many_sizes_go_through_in_steps(logs: LogDirectories, log: PartitionLog) -> None:
    content, offset = bytearray(), 0
    for size in (10, 300_000, 10, 10, 700_000, 200_000, 200_000, 10):
        batch = batch_of(2, base_offset=offset, value=bytes(size))
        assign_offsets(batch, 0, offset, 0)
        content += batch
        offset += 2
    ends, position = [], 0
    while position < len(content):
        before = position
        position = log.append_next(memoryview(content), position, NOW_MS)
        assert position > before
        assert log.size_bytes == position
        ends.append(log.log_end_offset)
    assert len(ends) > 2
    assert read_bytes(log) == content


# -- what is refused ---------------------------------------------------------------------------


def followed_by(*batches: bytes | bytearray) -> memoryview:
    """These batches after one with the offsets 0 and 1."""
    first = batch_of(2)
    assign_offsets(first, 0, 0, 0)
    return memoryview(b"".join([first, *batches]))


def numbered(base_offset: int, count: int = 2, leader_epoch: int = 0) -> bytearray:
    batch = batch_of(count, base_offset=base_offset)
    assign_offsets(batch, 0, base_offset, leader_epoch)
    return batch


def patched(position: int, layout: str, value: int, *, is_sealed: bool = True) -> bytearray:
    batch = numbered(2)
    struct.pack_into(layout, batch, position, value)
    if is_sealed:
        seal(batch, 0, len(batch))
    return batch


BAD: dict[str, bytearray] = {
    "a wrong byte": patched(90, "B", 0, is_sealed=False),
    "a wrong checksum": patched(17, ">I", 5, is_sealed=False),
    "an old format": patched(16, "b", 1),
    "a later format": patched(16, "b", 3),
    "no length": patched(8, ">i", 0),
    "a length that is too small": patched(8, ">i", HEADER_SIZE - 13),
    "a negative length": patched(8, ">i", -1),
    "a last offset before the first": patched(23, ">i", -1),
    "offsets that overflow": patched(0, ">q", 2**63 - 2, is_sealed=False),
    "negative offsets": patched(0, ">q", -5, is_sealed=False),
    "offsets that are there already": patched(0, ">q", 1, is_sealed=False),
    "zeros": bytearray(200),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_nothing_of_a_bad_batch_is_appended(log: PartitionLog, bad: bytearray) -> None:
    with pytest.raises(KafkaError) as refused:
        log.append_as_follower(followed_by(bad, numbered(4)), NOW_MS)
    assert refused.value.code in {ErrorCode.corrupt_message, ErrorCode.offset_out_of_range}
    assert "t-0" in str(refused.value)
    assert log.log_end_offset == 2
    assert offsets(read_all(log)) == [0, 1]
    with pytest.raises(KafkaError):
        log.append_as_follower(memoryview(bad), NOW_MS)
    log.append_as_follower(memoryview(numbered(2)), NOW_MS)
    assert offsets(read_all(log)) == [0, 1, 2, 3]


@pytest.mark.parametrize("size", [1, 11, HEADER_SIZE - 1, HEADER_SIZE, HEADER_SIZE + 20])
def test_a_last_batch_that_is_cut_off_is_left_out(log: PartitionLog, size: int) -> None:
    log.append_as_follower(followed_by(numbered(2)[:size]), NOW_MS)
    assert log.log_end_offset == 2
    with pytest.raises(KafkaError) as refused:  # an answer has one whole batch at least
        log.append_as_follower(memoryview(numbered(2)[:size]), NOW_MS)
    assert refused.value.code is ErrorCode.corrupt_message


def test_no_records_change_nothing(log: PartitionLog) -> None:
    log.append_as_follower(memoryview(b""), NOW_MS)
    assert log.log_end_offset == 0


def test_a_marker_that_is_none_is_bad(log: PartitionLog) -> None:
    batch = bytearray(marker(commit=True))
    batch[HEADER_SIZE:] = b"\xff" * (len(batch) - HEADER_SIZE)
    seal(batch, 0, len(batch))
    with pytest.raises(KafkaError) as refused:
        log.append_as_follower(memoryview(batch), NOW_MS)
    assert refused.value.code is ErrorCode.corrupt_message
    assert log.log_end_offset == 0


def test_records_of_a_later_epoch_than_the_followers_stay_out(log: PartitionLog) -> None:
    content = followed_by(numbered(2, leader_epoch=3), numbered(4, leader_epoch=4))
    position = log.append_next(content, 0, NOW_MS, 3)
    while (end := log.append_next(content, position, NOW_MS, 3)) > position:
        position = end
    assert log.log_end_offset == 4
    assert position < len(content)


def test_missing_offsets_were_cleaned_away(log: PartitionLog) -> None:
    log.append_as_follower(followed_by(numbered(10), numbered(50)), NOW_MS)
    assert offsets(read_all(log)) == [0, 1, 10, 11, 50, 51]


# -- failures ----------------------------------------------------------------------------------

CHANGING = ("create", "write_at", "rename", "set_aside")


@pytest.mark.parametrize("operation", CHANGING)
@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES])
def test_after_an_error_it_goes_on_where_it_was(tmp_path: Path, operation: str, code: int) -> None:
    """Whatever call fails, and when: files equal the leader's in the end."""
    leaders = open_logs(tmp_path / "leader")
    log = create(leaders, CONFIG)
    Leading(log, Random(5)).append(150)
    content, expected = read_all_bytes(log), files_of(log)
    for after in itertools.count():
        files = FailingFiles()
        followers = open_logs(tmp_path / str(after), files=files)
        copy = create(followers, CONFIG)
        files.fail(operation, code=code, after=3 * after, only_once=True)
        follow(copy, content)
        has_failed = files.failures > 0
        files.heal()
        if copy.log_directory.is_online:
            follow(copy, content)
            assert copy.log_end_offset == log.log_end_offset
            assert copy.leader_epochs.entries == log.leader_epochs.entries
            assert files_of(copy) == expected
        followers.abandon()
        if not has_failed:
            break
    leaders.abandon()


def read_all_bytes(log: PartitionLog) -> bytes:
    content, offset = b"", 0
    while offset < log.log_end_offset:
        some = read_bytes(log, offset)
        content += some
        *_, (_, last) = iterate_headers(some)
        offset = last.end_offset
    return content


def follow(log: PartitionLog, content: bytes) -> None:
    """Append what follows the log's end, until something fails."""
    start = next(
        (at for at, header in iterate_headers(content) if header.base_offset >= log.log_end_offset),
        len(content),
    )
    try:
        log.append_as_follower(memoryview(content)[start:], NOW_MS)
    except KafkaError as error:
        assert error.code is ErrorCode.kafka_storage_error


def test_what_is_written_counts_whatever_becomes_of_what_is_known_of_producers(
    log: PartitionLog,
) -> None:
    class Starved(ProducerState):
        __slots__ = ()

        def follow(self, header: object, marker: object) -> None:
            raise MemoryError

    log.producer_state = Starved()
    batch = from_producer(0, 3).buffer
    with pytest.raises(MemoryError):
        log.append_as_follower(batch, NOW_MS)
    assert log.log_end_offset == 3


def test_a_deleted_log_takes_nothing(logs: LogDirectories, log: PartitionLog) -> None:
    logs.delete("t", 0)
    with pytest.raises(KafkaError) as refused:
        log.append_as_follower(memoryview(numbered(0)), NOW_MS)
    assert refused.value.code is ErrorCode.kafka_storage_error
