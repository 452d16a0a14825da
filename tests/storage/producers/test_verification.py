"""What a transactional batch needs to enter a log, and which markers may end its transaction."""

from __future__ import annotations

from pathlib import Path

import pytest

from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.producers.append_result import AppendResult
from drumlin.storage.producers.producer_state import ProducerState
from drumlin.storage.producers.verification import Verification
from drumlin.turns import to_end
from drumlin.wire.error_codes import ErrorCode, KafkaError
from storage.samples import NOW_MS, from_producer, marker, reopened

LAST_EPOCH = 2**15 - 1


def ask(
    log: PartitionLog, sequence: int = 0, epoch: int = 0, *, v2: bool = False
) -> Verification | None:
    state: ProducerState = log.producer_state
    return state.begin_verification(7, epoch, sequence, NOW_MS, supports_epoch_bump=v2)


def send(
    log: PartitionLog,
    sequence: int,
    verification: Verification | None,
    *,
    is_transactional: bool = True,
    **fields: int,
) -> AppendResult:
    batch = from_producer(sequence, is_transactional=is_transactional, **fields)
    return log.append_as_leader(batch, 0, NOW_MS, verification)


def refusal(
    log: PartitionLog, sequence: int, verification: Verification | None, **fields: int
) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        send(log, sequence, verification, **fields)
    return refused.value.code


def end(
    log: PartitionLog, *, commit: bool = True, epoch: int = 0, version: int = 0
) -> AppendResult:
    batch = marker(commit=commit, epoch=epoch)
    return log.append_internal(batch, 0, NOW_MS, transaction_version=version)


def end_refusal(log: PartitionLog, *, epoch: int, version: int) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        end(log, epoch=epoch, version=version)
    return refused.value.code


# -- the first batch of a transaction ----------------------------------------------------------


def test_a_transaction_must_be_known(log: PartitionLog) -> None:
    assert refusal(log, 0, None) is ErrorCode.invalid_txn_state
    asked = ask(log)
    assert asked is not None
    assert refusal(log, 0, None) is ErrorCode.invalid_txn_state
    send(log, 0, asked)
    assert ask(log, 1) is None, "it is open now: there is nothing to ask"
    send(log, 1, None)


def test_a_transaction_that_ended_while_it_was_asked_about(log: PartitionLog) -> None:
    asked = ask(log)
    end(log, commit=False)
    assert refusal(log, 0, asked) is ErrorCode.invalid_txn_state
    assert log.producer_state.first_undecided_offset is None


def test_the_next_transaction_needs_its_own_answer(log: PartitionLog) -> None:
    first = ask(log)
    end(log)
    second = ask(log)
    assert second is not first
    assert refusal(log, 0, first) is ErrorCode.invalid_txn_state
    send(log, 0, second)


def test_an_answer_is_used_up_by_the_first_batch(log: PartitionLog) -> None:
    asked = ask(log)
    send(log, 0, asked)
    end(log)
    assert refusal(log, 1, asked) is ErrorCode.invalid_txn_state


def test_batches_that_are_asked_about_together(log: PartitionLog) -> None:
    first, second = ask(log, 0), ask(log, 1)
    assert first is second
    assert refusal(log, 1, second) is ErrorCode.out_of_order_sequence_number
    send(log, 0, first)
    send(log, 1, second)


def test_a_question_that_failed_leaves_that_of_another_batch(log: PartitionLog) -> None:
    first, second = ask(log, 0), ask(log, 1)
    assert first is not None
    log.producer_state.withdraw_verification(7, first)
    send(log, 0, second)
    third = ask(log, 0, epoch=1)
    assert third is not None
    log.producer_state.withdraw_verification(7, third)
    assert refusal(log, 0, third, epoch=1) is ErrorCode.invalid_txn_state


def test_a_marker_of_the_transaction_before_changes_nothing(log: PartitionLog) -> None:
    """In transactions v2 it has the epoch of the next transaction, which may be asked about."""
    send(log, 0, ask(log, v2=True))
    end(log, epoch=1, version=2)
    asked = ask(log, epoch=1, v2=True)
    end(log, epoch=1, version=2)
    send(log, 0, asked, epoch=1)


def test_a_marker_ends_what_is_asked_about_in_its_epoch(log: PartitionLog) -> None:
    asked = ask(log, epoch=1)
    end(log, epoch=1)
    assert refusal(log, 0, asked, epoch=1) is ErrorCode.invalid_txn_state


def test_transactions_v2_begin_with_sequence_0_where_nothing_is_known(log: PartitionLog) -> None:
    asked = ask(log, 5, v2=True)
    assert refusal(log, 5, asked) is ErrorCode.out_of_order_sequence_number
    classic = create_other(log)
    send(classic, 5, ask(classic, 5))


def create_other(log: PartitionLog) -> PartitionLog:
    log.truncate_fully_and_start_at(0)
    return log


def test_an_epoch_that_is_over_is_not_asked_about(log: PartitionLog) -> None:
    send(log, 0, ask(log, epoch=3), epoch=3)
    with pytest.raises(KafkaError) as refused:
        ask(log, epoch=2)
    assert refused.value.code is ErrorCode.invalid_producer_epoch
    assert refusal(log, 0, None, epoch=2) is ErrorCode.invalid_producer_epoch


def test_a_duplicate_is_answered_although_its_transaction_has_ended(log: PartitionLog) -> None:
    first = send(log, 0, ask(log))
    end(log)
    again = send(log, 0, None)
    assert again.is_duplicate
    assert again[:2] == first[:2]


def test_questions_are_forgotten_in_the_end(log: PartitionLog) -> None:
    asked = ask(log)
    to_end(log.producer_state.expire(NOW_MS + 1000, 1000))
    assert refusal(log, 0, asked) is ErrorCode.invalid_txn_state


def test_questions_do_not_survive_a_cut(log: PartitionLog) -> None:
    send(log, 0, None, is_transactional=False)
    send(log, 1, None, is_transactional=False)
    asked = ask(log, 2)
    log.truncate_to(1)
    assert refusal(log, 1, asked) is ErrorCode.invalid_txn_state


# -- markers -----------------------------------------------------------------------------------


def test_a_classic_marker_has_the_epoch_of_the_transaction(log: PartitionLog) -> None:
    send(log, 0, ask(log, epoch=4), epoch=4)
    assert end_refusal(log, epoch=3, version=1) is ErrorCode.invalid_producer_epoch
    end(log, epoch=4, version=1)
    end(log, epoch=4, version=1)


def test_a_marker_of_v2_has_an_epoch_of_its_own(log: PartitionLog) -> None:
    """A late marker of the transaction before must not end the one that is open."""
    send(log, 0, ask(log, epoch=4, v2=True), epoch=4)
    assert end_refusal(log, epoch=3, version=2) is ErrorCode.invalid_producer_epoch
    assert end_refusal(log, epoch=4, version=2) is ErrorCode.invalid_producer_epoch
    assert log.producer_state.first_undecided_offset == 0
    end(log, epoch=5, version=2)
    assert log.producer_state.first_undecided_offset is None
    end(log, epoch=5, version=2)  # a client that sends it again has missed the answer
    assert end_refusal(log, epoch=4, version=2) is ErrorCode.invalid_producer_epoch
    send(log, 0, ask(log, epoch=5, v2=True), epoch=5)


def test_the_last_epoch_has_none_behind_it(log: PartitionLog) -> None:
    send(log, 0, ask(log, epoch=LAST_EPOCH, v2=True), epoch=LAST_EPOCH)
    end(log, epoch=LAST_EPOCH, version=2)
    assert log.producer_state.first_undecided_offset is None


def test_a_coordinators_batch_needs_a_transaction_too(log: PartitionLog) -> None:
    batch = from_producer(-1, is_transactional=True)
    with pytest.raises(KafkaError) as refused:
        log.append_internal(batch.buffer, 0, NOW_MS, verification=None)
    assert refused.value.code is ErrorCode.invalid_txn_state
    asked = ask(log, -1)
    log.append_internal(batch.buffer, 0, NOW_MS, verification=asked)
    log.append_internal(batch.buffer, 0, NOW_MS, verification=None)
    assert log.producer_state.first_undecided_offset == 0
    assert log.log_end_offset == 2


# -- transactions that outlive what they began with --------------------------------------------


def test_an_open_transaction_whose_beginning_was_deleted(
    tmp_path: Path, logs: LogDirectories, log: PartitionLog
) -> None:
    for sequence in range(4):
        send(log, sequence, ask(log, sequence))
    log.delete_records_before(2)
    end(log, commit=False)
    for attempt in range(2):
        assert [each[:3] for each in log.aborted_transactions(2, 100)] == [(7, 0, 4)]
        assert log.producer_state.first_undecided_offset is None
        if not attempt:
            logs, log = reopened(logs, tmp_path)
    logs.abandon()


def test_what_nobody_can_answer_is_not_kept(log: PartitionLog) -> None:
    asked = ask(log)
    assert asked is not None
    log.producer_state.withdraw_verification(7, asked)
    again = ask(log, 5)
    assert again is not asked
    log.producer_state.withdraw_verification(7, asked)  # it is another one now
    send(log, 5, again)


def test_whoever_names_another_producer_takes_nothing_from_it(log: PartitionLog) -> None:
    asked = ask(log)
    assert ask(log) is asked  # with a transactional id that is not its own
    assert asked is not None
    log.producer_state.withdraw_verification(7, asked)
    send(log, 0, asked)
