"""The table of legal transitions, and that nothing else is possible."""

from __future__ import annotations

import itertools

import pytest

from drumlin.coordination.shards.state_batches import Producer
from drumlin.coordination.transactions.records import TransactionMetadata
from drumlin.coordination.transactions.states import BY_LABEL, BY_NUMBER, PREVIOUS, TransactionState
from drumlin.coordination.transactions.transaction import Transaction
from drumlin.wire.error_codes import ErrorCode, KafkaError

#: Down: from; across: to, in the same order. `x`: may be.
TABLE = """
                    Empty  Ongoing  PrepareCommit  PrepareAbort  CompleteCommit  CompleteAbort  Dead  Fence
Empty               x      x        .              x             .               .              x     .
Ongoing             .      x        x              x             .               .              .     x
PrepareCommit       .      .        .              .             x               .              .     .
PrepareAbort        .      .        .              .             .               x              .     .
CompleteCommit      x      x        .              x             .               .              x     .
CompleteAbort       x      x        .              x             .               .              x     .
Dead                .      .        .              .             .               .              .     .
PrepareEpochFence   .      .        .              x             .               .              .     .
"""  # noqa: E501
STATES = list(TransactionState)
MOVES = list(itertools.product(STATES, STATES))


def test_the_table() -> None:
    rows = [line.split()[1:] for line in TABLE.strip().splitlines()[1:]]
    for (source, row), (column, target) in itertools.product(
        zip(STATES, rows, strict=True), enumerate(STATES)
    ):
        assert (source in PREVIOUS[target]) == (row[column] == "x"), (source, target)


def test_names_and_numbers_are_those_of_the_log() -> None:
    assert {number: state.label for number, state in BY_NUMBER.items()} == {
        0: "Empty",
        1: "Ongoing",
        2: "PrepareCommit",
        3: "PrepareAbort",
        4: "CompleteCommit",
        5: "CompleteAbort",
        6: "Dead",
        7: "PrepareEpochFence",
    }
    assert BY_LABEL.keys() == {state.label for state in STATES}


@pytest.mark.parametrize(("source", "target"), MOVES)
def test_no_other_transition_is_made(source: TransactionState, target: TransactionState) -> None:
    metadata = TransactionMetadata(1, 0, 60_000, source)
    transaction = Transaction("x", metadata)
    if source in PREVIOUS[target]:
        transaction._prepare(target)
        transaction.complete()
        assert transaction.metadata.state is target
    else:
        with pytest.raises(AssertionError):
            transaction._prepare(target)
        assert transaction.pending is None


def test_nothing_is_prepared_twice() -> None:
    transaction = Transaction("x", TransactionMetadata(1, 0, 60_000, TransactionState.EMPTY))
    transaction.add_partitions(Producer(1, 0), frozenset({("t", 0)}), 2, now_ms=0)
    with pytest.raises(AssertionError):
        transaction._prepare(TransactionState.ONGOING)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("is_commit", [True, False])
def test_the_other_end_is_refused_and_the_same_is_to_come_again(
    is_commit: bool, version: int
) -> None:
    """While markers are being written: who is told to come again would do so in vain."""
    prepared = TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT
    transaction = Transaction("x", TransactionMetadata(1, 5, 60_000, prepared))
    producer = Producer(1, 5 if version == 1 else 4)  # its epoch was raised by the end
    for asked, code in (
        (is_commit, ErrorCode.concurrent_transactions),
        (not is_commit, ErrorCode.invalid_txn_state),
    ):
        with pytest.raises(KafkaError) as refusal:
            transaction.end(producer, asked, version, 1, lambda: 100)
        assert refusal.value.code is code
