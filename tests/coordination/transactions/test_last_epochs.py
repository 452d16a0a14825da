"""The end of a producer id's epochs: the next is 0 of another producer id."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from drumlin.coordination.shards.state_batches import Producer
from drumlin.coordination.transactions.participants import Participants
from drumlin.coordination.transactions.records import TransactionMetadata
from drumlin.coordination.transactions.states import TransactionState
from drumlin.coordination.transactions.transaction import LAST_EPOCH, Transaction
from drumlin.wire.error_codes import ErrorCode, KafkaError

OLD, NEW = 7, 100
TIMEOUT_MS = 60_000
T0 = Participants({("t", 0)})
LAST = Producer(OLD, LAST_EPOCH)


@pytest.fixture
def ids() -> Iterator[int]:
    return itertools.count(NEW)


def at_last_epoch(state: TransactionState, last_epoch: int = -1) -> Transaction:
    partitions = T0 if state is TransactionState.ONGOING else Participants()
    metadata = TransactionMetadata(
        OLD,
        LAST_EPOCH,
        TIMEOUT_MS,
        state,
        partitions,
        previous_producer_id=OLD,
        client_version=2,
        last_producer_epoch=last_epoch,
    )
    return Transaction("x", metadata)


def begin(
    transaction: Transaction, expected: Producer | None, ids: Iterator[int]
) -> TransactionMetadata:
    begun = transaction.init_producer(TIMEOUT_MS, expected, 1, lambda: next(ids))
    transaction.complete()
    return begun


def end(
    transaction: Transaction,
    producer: Producer,
    ids: Iterator[int],
    is_commit: bool = True,
    version: int = 2,
) -> TransactionMetadata | None:
    prepared = transaction.end(producer, is_commit, version, 1, lambda: next(ids))
    if prepared is not None:
        transaction.complete()
    return prepared


def finish(transaction: Transaction) -> Producer:
    transaction.prepare_complete(2)
    transaction.complete()
    return Producer(transaction.metadata.producer_id, transaction.metadata.producer_epoch)


def test_a_new_producer_gets_a_new_id(ids: Iterator[int]) -> None:
    begun = begin(at_last_epoch(TransactionState.EMPTY), None, ids)
    assert (begun.producer_id, begun.producer_epoch) == (NEW, 0)


def test_a_producer_that_goes_on_gets_a_new_id_and_may_ask_again(ids: Iterator[int]) -> None:
    transaction = at_last_epoch(TransactionState.EMPTY)
    for _ in range(2):
        begun = begin(transaction, LAST, ids)
        assert (begun.producer_id, begun.producer_epoch) == (NEW, 0)
    with pytest.raises(KafkaError) as refusal:
        begin(transaction, LAST._replace(producer_epoch=LAST_EPOCH - 1), ids)
    assert refusal.value.code is ErrorCode.producer_fenced


def test_an_old_id_goes_on_with_no_epoch_of_the_new_one(ids: Iterator[int]) -> None:
    """A producer that was left long ago has the epochs that its successor gets again."""
    transaction = at_last_epoch(TransactionState.EMPTY)
    begin(transaction, LAST, ids)
    for epoch in (0, 1, LAST_EPOCH - 1):
        with pytest.raises(KafkaError) as refusal:
            begin(transaction, Producer(OLD, epoch), ids)
        assert refusal.value.code is ErrorCode.producer_fenced
    assert transaction.metadata.producer_epoch == 0


@pytest.mark.parametrize("is_commit", [True, False])
def test_no_partition_is_verified_once_the_end_is_prepared(
    ids: Iterator[int], is_commit: bool
) -> None:
    """Its marker may be written by now: what came after it would belong to no transaction."""
    transaction = at_last_epoch(TransactionState.ONGOING)
    assert transaction.verify_partitions(LAST, [("t", 0)]) == {("t", 0): ErrorCode.none}
    end(transaction, LAST, ids, is_commit, version=1)  # the producer keeps its epoch
    with pytest.raises(KafkaError) as refusal:
        transaction.verify_partitions(LAST, [("t", 0)])
    assert refusal.value.code is ErrorCode.concurrent_transactions


def test_who_asks_again_for_the_last_epoch_gets_it(ids: Iterator[int]) -> None:
    transaction = at_last_epoch(TransactionState.EMPTY, last_epoch=LAST_EPOCH - 1)
    begun = begin(transaction, LAST._replace(producer_epoch=LAST_EPOCH - 1), ids)
    assert (begun.producer_id, begun.producer_epoch) == LAST


@pytest.mark.parametrize("is_commit", [True, False])
def test_the_end_gives_a_new_id(ids: Iterator[int], is_commit: bool) -> None:
    transaction = at_last_epoch(TransactionState.ONGOING)
    prepared = end(transaction, LAST, ids, is_commit)
    # The markers carry the one epoch that no producer is given.
    assert prepared is not None
    assert (prepared.producer_id, prepared.producer_epoch) == (OLD, LAST_EPOCH + 1)
    assert prepared.next_producer_id == NEW
    assert finish(transaction) == (NEW, 0)
    # A producer that asks again with the old id is told the same.
    assert end(transaction, LAST, ids, is_commit) is None
    with pytest.raises(KafkaError) as refusal:
        end(transaction, LAST, ids, not is_commit)
    assert refusal.value.code is ErrorCode.invalid_txn_state
    assert transaction.add_partitions(Producer(NEW, 0), frozenset(T0), 2, 3) is not None
    transaction.complete()
    # And no more, once another transaction has begun.
    with pytest.raises(KafkaError) as refusal:
        end(transaction, LAST, ids, is_commit)
    assert refusal.value.code is ErrorCode.invalid_producer_id_mapping


def test_an_abort_of_nothing_gives_a_new_id(ids: Iterator[int]) -> None:
    transaction = at_last_epoch(TransactionState.COMPLETE_COMMIT)
    assert end(transaction, LAST, ids, is_commit=False) is not None
    assert finish(transaction) == (NEW, 0)


def test_the_classic_end_keeps_the_last_epoch(ids: Iterator[int]) -> None:
    transaction = at_last_epoch(TransactionState.ONGOING)
    assert end(transaction, LAST, ids, version=0) is not None
    assert finish(transaction) == LAST


def test_who_is_fenced_at_the_last_epoch_loses_the_id(ids: Iterator[int]) -> None:
    transaction = at_last_epoch(TransactionState.ONGOING)
    fenced = begin(transaction, None, ids)
    assert fenced.state is TransactionState.PREPARE_ABORT
    assert (fenced.producer_epoch, fenced.next_producer_id) == (LAST_EPOCH + 1, NEW)
    assert finish(transaction) == (NEW, 0)
    begun = begin(transaction, None, ids)
    assert (begun.producer_id, begun.producer_epoch) == (NEW, 1)
