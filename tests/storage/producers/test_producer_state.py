"""Sequences, epochs and transactions: the rules, and what is left of them after a stop."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from crc32c import crc32c

from drumlin.config.topic import LogConfig
from drumlin.records.batch.batch import (
    CRC_START,
    HEADER_SIZE,
    LOG_OVERHEAD,
    SEQUENCE_MODULO,
    parse_header,
)
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.log import durability
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.producers.append_result import AppendResult
from drumlin.storage.producers.producer_snapshot import (
    CorruptSnapshot,
    decode_snapshot,
    encode_snapshot,
)
from drumlin.storage.producers.producer_table import FrozenProducers, table_of
from drumlin.turns import to_end
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.time.stepped import Stepped
from storage.samples import NOW_MS, append, create, from_producer, marker, reopened

DAY_MS = 86_400_000


def send(log: PartitionLog, sequence: int, count: int = 1, **fields: object) -> AppendResult:
    return log.append_as_leader(from_producer(sequence, count, **fields), 0, NOW_MS)


def refusal(log: PartitionLog, sequence: int, count: int = 1, **fields: object) -> ErrorCode:
    before = (log.log_end_offset, log.size_bytes)
    with pytest.raises(KafkaError) as refused:
        send(log, sequence, count, **fields)
    assert (log.log_end_offset, log.size_bytes) == before
    return refused.value.code


# -- sequences ---------------------------------------------------------------------------------


def test_sequences_follow_each_other(log: PartitionLog) -> None:
    assert send(log, 0, 3).base_offset == 0
    assert send(log, 3, 2).base_offset == 3
    assert refusal(log, 6) is ErrorCode.out_of_order_sequence_number
    assert send(log, 5).base_offset == 5


def test_the_last_five_batches_are_recognised(log: PartitionLog) -> None:
    first = [send(log, 2 * number, 2) for number in range(6)]
    for number in range(1, 6):
        again = send(log, 2 * number, 2)
        assert again.is_duplicate
        assert again[:2] == first[number][:2]
    assert log.log_end_offset == 12
    assert refusal(log, 0, 2) is ErrorCode.out_of_order_sequence_number


def test_a_duplicate_has_the_same_records(log: PartitionLog) -> None:
    send(log, 0, 3)
    assert refusal(log, 0, 2) is ErrorCode.out_of_order_sequence_number
    assert refusal(log, 1, 2) is ErrorCode.out_of_order_sequence_number


def test_an_unknown_producer_may_begin_anywhere(log: PartitionLog) -> None:
    assert send(log, 42).base_offset == 0
    assert send(log, 43).base_offset == 1


def test_sequences_wrap(log: PartitionLog) -> None:
    last = SEQUENCE_MODULO - 1
    send(log, last - 1, 1)
    assert send(log, last, 3).base_offset == 1  # numbers last, 0 and 1
    assert send(log, last, 3).is_duplicate
    assert refusal(log, 3) is ErrorCode.out_of_order_sequence_number
    assert send(log, 2).base_offset == 4


# -- epochs ------------------------------------------------------------------------------------


def test_a_superseded_producer_is_refused(log: PartitionLog) -> None:
    send(log, 0, epoch=1)
    assert refusal(log, 1, epoch=0) is ErrorCode.invalid_producer_epoch


def test_a_new_epoch_counts_from_zero(log: PartitionLog) -> None:
    send(log, 0, 5)
    assert refusal(log, 5, epoch=1) is ErrorCode.out_of_order_sequence_number
    assert not send(log, 0, 5, epoch=1).is_duplicate
    assert send(log, 0, 5, epoch=1).is_duplicate


# -- expiry ------------------------------------------------------------------------------------


def test_silent_producers_are_forgotten(log: PartitionLog) -> None:
    send(log, 0)
    assert to_end(log.producer_state.expire(NOW_MS + DAY_MS - 1, DAY_MS)) == 0
    assert to_end(log.producer_state.expire(NOW_MS + DAY_MS, DAY_MS)) == 1
    assert send(log, 17).base_offset == 1


def test_not_with_an_open_transaction(log: PartitionLog) -> None:
    send(log, 0, is_transactional=True)
    assert to_end(log.producer_state.expire(NOW_MS + DAY_MS, DAY_MS)) == 0


def test_not_when_the_log_is_cut_meanwhile(log: PartitionLog) -> None:
    """The marker is cut off that ended a transaction: it is open again."""
    for producer_id in range(1_500):
        send(log, 0, producer_id=producer_id)
    first = send(log, 0, producer_id=1_500, is_transactional=True).base_offset
    log.append_internal(marker(commit=True, producer_id=1_500), 0, NOW_MS)
    expiring = Stepped(log.producer_state.expire(NOW_MS + DAY_MS, DAY_MS))
    next(expiring)
    log.truncate_to(first + 1)
    expiring.to_end()
    assert len(log.producer_state) == 1_501
    assert log.producer_state.has_open_transaction(1_500, 0)


# -- transactions ------------------------------------------------------------------------------


def test_the_first_undecided_offset(log: PartitionLog) -> None:
    append(log, 2)
    assert log.producer_state.first_undecided_offset is None
    send(log, 0, 2, is_transactional=True)
    assert log.producer_state.first_undecided_offset == 2
    send(log, 2, is_transactional=True)
    assert log.producer_state.first_undecided_offset == 2
    log.append_internal(marker(commit=True), 0, NOW_MS)
    assert log.producer_state.first_undecided_offset is None
    assert log.aborted_transactions(0, 100) == []


def test_aborted_transactions_are_indexed(log: PartitionLog) -> None:
    append(log, 3)
    send(log, 0, 2, is_transactional=True)
    append(log, 1)
    log.append_internal(marker(commit=False), 0, NOW_MS)
    assert log.aborted_transactions(0, 100) == [(7, 3, 6, 7)]
    assert log.aborted_transactions(7, 100) == []


def test_an_empty_transaction_leaves_no_trace(log: PartitionLog) -> None:
    log.append_internal(marker(commit=False), 0, NOW_MS)
    assert log.aborted_transactions(0, 100) == []
    assert send(log, 0).base_offset == 1


def test_records_outside_of_the_open_transaction_are_refused(log: PartitionLog) -> None:
    send(log, 0, is_transactional=True)
    assert refusal(log, 1) is ErrorCode.invalid_txn_state


def test_an_old_coordinator_is_refused(log: PartitionLog) -> None:
    log.append_internal(marker(commit=True, coordinator_epoch=5), 0, NOW_MS)
    with pytest.raises(KafkaError) as refused:
        log.append_internal(marker(commit=True, coordinator_epoch=4), 0, NOW_MS)
    assert refused.value.code is ErrorCode.transaction_coordinator_fenced
    with pytest.raises(KafkaError) as refused:
        log.append_internal(marker(commit=True, epoch=-1, coordinator_epoch=5), 0, NOW_MS)
    assert refused.value.code is ErrorCode.invalid_producer_epoch


# -- across stops ------------------------------------------------------------------------------


@pytest.mark.parametrize("clean", [True, False])
def test_state_survives_a_stop(tmp_path: Path, logs: LogDirectories, clean: bool) -> None:
    config = LogConfig(segment_bytes=400)
    log = create(logs, config)
    for number in range(6):
        send(log, 3 * number, 3)
    log.append_as_leader(from_producer(0, producer_id=8, is_transactional=True), 0, NOW_MS)
    if clean:
        logs.close()
    logs, log = reopened(logs, tmp_path, config)
    assert send(log, 15, 3).is_duplicate
    assert refusal(log, 19) is ErrorCode.out_of_order_sequence_number
    assert send(log, 18).base_offset == 19
    assert log.producer_state.first_undecided_offset == 18
    logs.abandon()


def test_open_transactions_survive_a_crash(tmp_path: Path, logs: LogDirectories) -> None:
    config = LogConfig(segment_bytes=300)
    log = create(logs, config)
    append(log, 1)
    send(log, 0, 2, is_transactional=True)
    for _ in range(4):
        append(log, 2)
    logs, log = reopened(logs, tmp_path, config)
    assert log.producer_state.first_undecided_offset == 1
    log.append_internal(marker(commit=False), 0, NOW_MS)
    aborted = log.aborted_transactions(0, 100)
    assert aborted == [(7, 1, 11, 12)]
    logs, log = reopened(logs, tmp_path, config)
    assert log.aborted_transactions(0, 100) == aborted
    assert log.producer_state.first_undecided_offset is None
    logs.abandon()


def emptied_marker(base_offset: int) -> bytearray:
    """What a cleaning may leave of the end of a transaction: a header, and no record."""
    header = bytearray(marker(commit=True, epoch=3)[:HEADER_SIZE])
    struct.pack_into(">qi", header, 0, base_offset, HEADER_SIZE - LOG_OVERHEAD)
    struct.pack_into(">i", header, 57, 0)
    struct.pack_into(">I", header, CRC_START - 4, crc32c(bytes(header[CRC_START:])))
    return header


def test_an_emptied_marker_opens_no_transaction(tmp_path: Path, logs: LogDirectories) -> None:
    log = create(logs)
    log.append_as_follower(memoryview(emptied_marker(5)), NOW_MS)
    append(log)
    for is_clean in (None, True, False):
        if is_clean is not None:
            if is_clean:
                logs.close()
            logs, log = reopened(logs, tmp_path)
        assert log.producer_state.first_undecided_offset is None
        entry = log.producer_state.get(7)
        assert entry is not None
        assert (entry.producer_epoch, entry.last_sequence) == (3, -1)
        assert entry.last_timestamp == NOW_MS
        assert refusal(log, 0, epoch=2) is ErrorCode.invalid_producer_epoch
    send(log, 0, epoch=3)
    logs.abandon()


def test_an_emptied_marker_has_ended_its_transaction(tmp_path: Path, logs: LogDirectories) -> None:
    """Its records may still be open in a snapshot from before they were cleaned away."""
    log = create(logs)
    send(log, 0, 2, is_transactional=True)
    log.append_as_follower(memoryview(emptied_marker(2)), NOW_MS)
    assert log.producer_state.first_undecided_offset is None
    logs, log = reopened(logs, tmp_path)
    assert log.producer_state.first_undecided_offset is None
    logs.abandon()


def test_producers_outlive_their_deleted_records(tmp_path: Path, logs: LogDirectories) -> None:
    log = create(logs)
    send(log, 0, 2, is_transactional=True)
    append(log)
    log.delete_records_before(log.log_end_offset)
    logs.close()
    logs, log = reopened(logs, tmp_path)
    assert log.log_start_offset == 3
    assert log.producer_state.first_undecided_offset == 0
    assert refusal(log, 7, is_transactional=True) is ErrorCode.out_of_order_sequence_number
    assert send(log, 0, 2, is_transactional=True).is_duplicate
    logs.abandon()


def test_truncation_takes_sequences_back(logs: LogDirectories) -> None:
    log = create(logs, LogConfig(segment_bytes=400))
    for number in range(8):
        send(log, number)
    log.truncate_to(5)
    assert refusal(log, 6) is ErrorCode.out_of_order_sequence_number
    assert send(log, 5).base_offset == 5


# -- snapshots ---------------------------------------------------------------------------------


def test_snapshots_are_read_as_written(log: PartitionLog) -> None:
    send(log, 5, 3)
    send(log, 8, 2, is_transactional=True)
    content = encode_snapshot(log.producer_state.freeze())
    (entry,) = decode_snapshot(content)
    assert (entry.producer_id, entry.producer_epoch, entry.last_sequence) == (7, 0, 9)
    assert entry.transaction_first_offset == 3
    assert encode_snapshot(table_of([entry]).freeze()) == content
    for damaged in (content[:-1], content + b"\x00", b"", content[:6] + b"\x01" + content[7:]):
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(damaged)


def test_a_roll_keeps_the_producers_of_its_offset(tmp_path: Path, logs: LogDirectories) -> None:
    """They are written later, in a thread, and change meanwhile."""
    log = create(logs, LogConfig(segment_bytes=10_000))
    for producer_id in range(2000):
        log.producer_state.update(
            parse_header(from_producer(0).buffer)._replace(producer_id=producer_id), 0, NOW_MS
        )
    send(log, 1)
    expected = encode_snapshot(log.producer_state.freeze())
    log.roll(NOW_MS)
    end_offset = log.log_end_offset
    for producer_id in range(1500, 2500):
        log.producer_state.update(
            parse_header(from_producer(3).buffer)._replace(producer_id=producer_id), 9, NOW_MS
        )
    send(log, 2)
    to_end(log.producer_state.expire(NOW_MS + DAY_MS, DAY_MS))
    log.flush()
    path = log.directory / f"{end_offset:020d}.snapshot"
    assert path.read_bytes() == expected


def test_a_roll_encodes_no_producers(logs: LogDirectories, monkeypatch: pytest.MonkeyPatch) -> None:
    encoding: list[int] = []

    def watched(producers: FrozenProducers) -> bytes:
        encoding.append(len(producers))
        return encode_snapshot(producers)

    monkeypatch.setattr(durability, "encode_snapshot", watched)
    log = create(logs)
    send(log, 0)
    log.roll(NOW_MS)
    assert not encoding
    log.flush()
    assert encoding == [1]


@pytest.mark.parametrize(
    "damaged",
    [
        lambda _: b"nonsense",
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        lambda content: content[:-1],
    ],
    ids=["nonsense", "changed", "cut off"],
)
def test_a_broken_snapshot_is_passed_over(
    tmp_path: Path, logs: LogDirectories, damaged: Callable[[bytes], bytes]
) -> None:
    config = LogConfig(segment_bytes=200)
    log = create(logs, config)
    for number in range(8):
        send(log, number)
    log.flush()
    logs.write_checkpoints()  # else they are not looked at
    snapshots = sorted(log.directory.glob("*.snapshot"))
    assert len(snapshots) >= 2
    snapshots[-1].write_bytes(damaged(snapshots[-1].read_bytes()))
    logs, log = reopened(logs, tmp_path, config)
    assert not snapshots[-1].exists()
    assert send(log, 7).is_duplicate
    logs.abandon()
