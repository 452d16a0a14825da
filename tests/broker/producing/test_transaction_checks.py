"""What clients get for the coordinator's answers; the coordinator here answers as it is told.

The real one gives most of these answers only for moments.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from drumlin.broker.parts.failed_verifications import FailedVerifications
from drumlin.broker.producing.produce_verification import TransactionalPart, ask, begin
from drumlin.metadata.names import TRANSACTION_STATE
from drumlin.records.batch.batch import parse_header
from drumlin.storage.producers.producer_state import ProducerState
from drumlin.turns import to_end
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.data.batches import batch
from rig.data.sole_partition import sole_partition

KEY = ("t", 0)


class Coordinator:
    """Gives the answers one after the other, and the last one for ever."""

    def __init__(self, *answers: ErrorCode) -> None:
        self.answers = list(answers)
        self.asked: list[bool] = []

    async def add_partitions(self, *_: Any, verify_only: bool) -> dict[tuple[str, int], ErrorCode]:
        self.asked.append(verify_only)
        return {KEY: self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]}


def broker_with(coordinator: Coordinator, patience_ms: int = 1000, *, has_ids: bool = True) -> Any:
    """The needed part of a broker; `has_ids`: whether there is any transactional id."""
    config = SimpleNamespace(
        transaction_partition_verification_enable=True,
        add_partitions_to_txn_retry_backoff_max_ms=patience_ms,
        add_partitions_to_txn_retry_backoff_ms=1,
    )
    topics = {TRANSACTION_STATE: None} if has_ids else {}
    return SimpleNamespace(
        config=config,
        transactions=coordinator,
        clock=SimpleNamespace(wall_ms=lambda: 0),
        metadata=SimpleNamespace(image=SimpleNamespace(topics=topics)),
        failed_verifications=FailedVerifications(kept_max=2),
    )


def answered(coordinator: Coordinator, version: int, patience_ms: int = 1000) -> ErrorCode:
    """The error for a producer's first batch; NONE if it may enter the log."""
    return produced(broker_with(coordinator, patience_ms), ProducerState(), version)


def produced(
    broker: Any, state: ProducerState, version: int = 12, producer_id: int = 5, sequence: int = 0
) -> ErrorCode:
    """Like `answered`, in a log of which this is the state."""
    names = {"topic": "t", "partition": 0, "name": "t-0", "high_watermark": 0}
    names |= {"start_leader_epoch": lambda _: None, "forget_replicas": lambda: None}
    names["settle_exact_states"] = lambda: None
    log: Any = SimpleNamespace(producer_state=state, size_bytes=0, **names)
    fields = {"producer_id": producer_id, "producer_epoch": 0, "extra_attributes": 16}
    header = parse_header(batch(b"x", base_sequence=sequence, **fields))
    part = TransactionalPart(KEY, sole_partition(log), header)

    async def run() -> ErrorCode:
        verified = to_end(begin(broker, version, [part]))
        assert verified.asked
        await ask(broker, version, "id", [part], verified)
        try:
            verification = verified.check(KEY)
            assert verification is not None
            state.check_client_batch(header, 0, verification)
        except KafkaError as error:
            return error.code
        return ErrorCode.none

    return asyncio.run(run())


@pytest.mark.parametrize("version", [9, 11, 12])
@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (ErrorCode.none, ErrorCode.none),
        (ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch),
        (ErrorCode.invalid_txn_state, ErrorCode.invalid_txn_state),
        (ErrorCode.invalid_producer_id_mapping, ErrorCode.invalid_producer_id_mapping),
        (ErrorCode.coordinator_load_in_progress, ErrorCode.not_enough_replicas),
        (ErrorCode.coordinator_not_available, ErrorCode.not_enough_replicas),
        (ErrorCode.not_coordinator, ErrorCode.not_enough_replicas),
    ],
)
def test_what_all_versions_are_told(version: int, answer: ErrorCode, told: ErrorCode) -> None:
    coordinator = Coordinator(answer)
    assert answered(coordinator, version) is told
    assert coordinator.asked == [version < 12]


@pytest.mark.parametrize(
    ("version", "told"),
    [(10, ErrorCode.invalid_txn_state), (11, ErrorCode.transaction_abortable)],
)
def test_clients_that_do_not_know_abortable(version: int, told: ErrorCode) -> None:
    assert answered(Coordinator(ErrorCode.transaction_abortable), version) is told


def test_classic_producers_come_again_while_a_transaction_ends() -> None:
    coordinator = Coordinator(ErrorCode.concurrent_transactions)
    assert answered(coordinator, 11) is ErrorCode.not_enough_replicas
    assert len(coordinator.asked) == 1


def test_producers_of_v2_are_held_back_while_a_transaction_ends() -> None:
    ending = ErrorCode.concurrent_transactions
    coordinator = Coordinator(ending, ending, ErrorCode.none)
    assert answered(coordinator, 12, patience_ms=60_000) is ErrorCode.none
    assert coordinator.asked == [False] * 3
    assert answered(Coordinator(ending), 12, patience_ms=0) is ending


# -- what stays of questions that were not answered well ---------------------------------------

LOADING = ErrorCode.coordinator_load_in_progress
OUT_OF_ORDER = ErrorCode.out_of_order_sequence_number


def test_who_comes_again_overtakes_nothing_of_its_own() -> None:
    state = ProducerState()
    broker = broker_with(Coordinator(LOADING, ErrorCode.none))
    assert produced(broker, state, sequence=0) is ErrorCode.not_enough_replicas
    assert produced(broker, state, sequence=1) is OUT_OF_ORDER
    assert produced(broker, state, sequence=0) is ErrorCode.none


def test_a_producer_without_transactional_ids_leaves_nothing() -> None:
    state = ProducerState()
    broker = broker_with(Coordinator(ErrorCode.not_coordinator), has_ids=False)
    assert produced(broker, state) is ErrorCode.not_enough_replicas
    assert state.verification_count == 0


@pytest.mark.parametrize("code", [LOADING, ErrorCode.not_coordinator, ErrorCode.invalid_txn_state])
def test_unconfirmed_producers_leave_only_so_much(code: ErrorCode) -> None:
    state = ProducerState()
    broker = broker_with(Coordinator(code))
    for producer_id in range(20):
        produced(broker, state, producer_id=producer_id)
    assert state.verification_count == len(broker.failed_verifications) == 2


def test_who_keeps_coming_again_is_not_forgotten_for_others() -> None:
    state = ProducerState()
    broker = broker_with(Coordinator(*[LOADING] * 11, ErrorCode.none))
    produced(broker, state, producer_id=5, sequence=0)
    for producer_id in range(10, 15):
        produced(broker, state, producer_id=producer_id)
        produced(broker, state, producer_id=5, sequence=3)
    assert produced(broker, state, producer_id=5, sequence=3) is OUT_OF_ORDER
