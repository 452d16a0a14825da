"""Several batches in flight, and one of them is refused: order is kept, and nothing is there twice.

Over real sockets; with and without a transaction. In a transaction the first batch that cannot be
written ends it, and what was in flight behind it is waited for before the end is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import drumlin
from client.transactions.scripted_transactions import ID, script_transactions
from client.write.flaky_log import FlakyLog, answer, values
from drumlin.client.client import Client
from drumlin.client.errors import DeliveryFailed
from drumlin.client.transactions.errors import TransactionFailed
from drumlin.wire.error_codes import ErrorCode
from rig.brokers.scripted_broker import ScriptedBroker
from rig.data.messages import Shape

ROWS = [b"%d" % number for number in range(40)]
TABLE = pa.table({"value": ROWS})


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 1}) as broker:
        script_transactions(broker)
        yield broker


def connect(broker: ScriptedBroker) -> Client:
    return drumlin.connect(broker.address, retry_backoff_ms=2, request_timeout_ms=10_000)


def append(client: Client, in_transaction: bool) -> None:
    """One record a batch."""
    if not in_transaction:
        client.append(TABLE, "t", batch_bytes=1)
        return
    with client.transaction(ID) as transaction:
        transaction.append(TABLE, "t", batch_bytes=1)


BOTH = pytest.mark.parametrize("in_transaction", [False, True], ids=["idempotent", "transaction"])


@BOTH
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.not_leader_or_follower,
        ErrorCode.not_enough_replicas,
        ErrorCode.kafka_storage_error,
        ErrorCode.request_timed_out,
    ],
    ids=lambda code: code.name,
)
@pytest.mark.parametrize("refused", [[7], [7, 8], [7, 9], range(7, 20)], ids=str)
def test_what_may_pass(
    broker: ScriptedBroker, in_transaction: bool, code: ErrorCode, refused: Any
) -> None:
    """What is in flight after it is refused for its sequence, and all comes again in order."""
    log = FlakyLog(broker, (code if each in refused else None for each in range(1_000)))
    with connect(broker) as client:
        append(client, in_transaction)
    assert values(log) == ROWS
    assert {each.producer_epoch for each in log.headers} == {0}
    assert [each.base_sequence for each in log.headers] == list(range(40))


@BOTH
@pytest.mark.parametrize("count", [1, 3, 5])
def test_duplicates(broker: ScriptedBroker, in_transaction: bool, count: int) -> None:
    """They are in the log, and the broker does not know where any more: that is success."""
    log = FlakyLog(broker, iter(()))
    asked: list[int] = []

    def produce(shape: Shape, request: Any) -> Any:
        written = log.produce(shape, request)
        asked.append(len(asked))
        if len(asked) in range(7, 7 + count):
            return answer(shape, request, ErrorCode.duplicate_sequence_number)
        return written

    broker.script("produce", produce)
    with connect(broker) as client:
        append(client, in_transaction)
    assert values(log) == ROWS
    assert len(asked) == len(ROWS), "nothing is sent again"


@BOTH
def test_a_leader_that_moves(broker: ScriptedBroker, in_transaction: bool) -> None:
    """... with several batches in flight to it, of which the first are in the log already."""
    with ScriptedBroker({"t": 1}, node_id=2) as new:
        log = FlakyLog(broker, iter(()))
        taken: list[int] = []

        def produce(shape: Shape, request: Any) -> Any:
            taken.append(len(taken))
            if len(taken) <= 7:
                written = log.produce(shape, request)
                # The old leader has replicated the sixth and the seventh, and does not know it.
                if len(taken) <= 5:
                    return written
            broker.leader_id, broker.brokers = 2, {2: new.port}
            return answer(shape, request, ErrorCode.not_leader_or_follower)

        broker.script("produce", produce)
        new.script("produce", log.produce)
        with connect(broker) as client:
            append(client, in_transaction)
    assert values(log) == ROWS
    assert {each.producer_epoch for each in log.headers} == {0}


def test_out_of_order_in_a_transaction_ends_it(broker: ScriptedBroker) -> None:
    """A batch is lost, as by an unclean leader: what comes after it must not be committed alone."""
    log = FlakyLog(broker, iter(()))
    asked: list[str] = []

    def produce(shape: Shape, request: Any) -> Any:
        asked.append("produce")
        if len(asked) == 7:
            return answer(shape, request, ErrorCode.out_of_order_sequence_number)
        return log.produce(shape, request)

    broker.script("produce", produce)
    with connect(broker) as client:
        transaction = client.transaction(ID)
        with pytest.raises(DeliveryFailed, match="out_of_order_sequence_number"):
            transaction.append(TABLE, "t", batch_bytes=1)
        sent = len(broker.asked("produce"))
        with pytest.raises(TransactionFailed, match="can only be aborted"):
            transaction.commit()
        transaction.abort()
        assert len(broker.asked("produce")) == sent, "nothing is sent behind it"
    assert values(log) == ROWS[:6]
    names = [name for name, _, _ in broker.requests]
    assert names.count("end_txn") == 1
    assert names.index("end_txn") > max(at for at, name in enumerate(names) if name == "produce")
    assert [each.committed for each in broker.asked("end_txn")] == [False]


def test_out_of_order_without_a_transaction_goes_on_in_the_next_epoch(
    broker: ScriptedBroker,
) -> None:
    log = FlakyLog(
        broker,
        (ErrorCode.out_of_order_sequence_number if each == 6 else None for each in range(1_000)),
    )
    with connect(broker) as client:
        append(client, in_transaction=False)
    assert values(log) == ROWS
    assert [each.producer_epoch for each in log.headers] == [0] * 6 + [1] * 34
    assert [each.base_sequence for each in log.headers] == [*range(6), *range(34)]
