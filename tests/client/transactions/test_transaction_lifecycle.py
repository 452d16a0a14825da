"""A transaction leaves nothing behind, crosses no fork, and asks for no time-out in vain."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

import drumlin
from client.transactions.scripted_transactions import (
    ID,
    begun,
    config,
    described,
    ended_with,
    refused,
    script_transactions,
    taken,
)
from drumlin import lowlevel
from drumlin.client.client import Client
from drumlin.client.errors import ClientError, DeliveryFailed, NotAuthorized, RequestRefused
from drumlin.client.transactions.errors import (
    OutcomeUnknown,
    ProducerFenced,
    TransactionAborted,
    TransactionCommitted,
    TransactionError,
    TransactionFailed,
    TransactionTimedOut,
    UnknownTransaction,
)
from drumlin.client.transactions.requests import OpenTransaction
from drumlin.client.transactions.transaction import Transaction
from drumlin.client.write.deliveries import EncodingRules
from drumlin.wire.error_codes import ErrorCode
from rig.brokers.scripted_broker import Answer, CloseConnection, ScriptedBroker, Silence
from rig.data.messages import Shape
from rig.waiting import wait_until


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 4}) as broker:
        script_transactions(broker)
        yield broker


@pytest.fixture
def client(broker: ScriptedBroker) -> Iterator[Client]:
    options: dict[str, Any] = {"retry_backoff_ms": 2, "call_timeout_ms": 2_000}
    with drumlin.connect(broker.address, request_timeout_ms=500, **options) as client:
        yield client


# -- time-outs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "limit_ms", "asked_ms"),
    [
        (config("7200000"), 7_200_000, [7_200_000]),
        (config("30000"), 30_000, [30_000]),
        (config(None, ErrorCode.cluster_authorization_failed), 900_000, [900_000]),
        (
            config(None, ErrorCode.cluster_authorization_failed),
            120_000,
            [900_000, 600_000, 300_000, 120_000],
        ),
        (config("7200000"), 700_000, [7_200_000, 900_000, 600_000]),
    ],
    ids=["told", "told little", "not told", "not told, little", "told too much"],
)
def test_the_longest_timeout_that_is_allowed(
    broker: ScriptedBroker, client: Client, said: Answer, limit_ms: int, asked_ms: list[int]
) -> None:
    broker.script("describe_configs", said)
    broker.script("init_producer_id", begun(limit_ms))
    for _ in range(2):  # the second knows
        assert client.transaction(ID).timeout_ms == asked_ms[-1]
    requests = broker.asked("init_producer_id")
    asked = [each.transaction_timeout.total_seconds() * 1000 for each in requests]
    assert asked == [*asked_ms, asked_ms[-1]]
    assert len(broker.asked("describe_configs")) == 1


def test_a_timeout_that_was_asked_for_is_not_walked_down(
    broker: ScriptedBroker, client: Client
) -> None:
    broker.script("init_producer_id", begun(1_000))
    with pytest.raises(RequestRefused, match="invalid_transaction_timeout"):
        client.transaction(ID, timeout_ms=2_000)
    assert len(broker.asked("init_producer_id")) == 1


# -- what is left behind -------------------------------------------------------------------------


def tasks_of(client: Client) -> set[asyncio.Task[Any]]:
    async def others() -> set[asyncio.Task[Any]]:
        return asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[arg-type]

    return client._thread.run(others())


def append(transaction: Transaction) -> None:
    table = pa.table({"value": ["x"] * 8, "partition": [0, 1, 2, 3] * 2})
    transaction.append(table, "t", partition="partition", batch_bytes=1, delivery_timeout_ms=1_500)


@pytest.mark.parametrize("api", ["add_partitions_to_txn", "produce"])
def test_a_failed_transaction_leaves_no_task_behind(
    broker: ScriptedBroker, client: Client, api: str
) -> None:
    broker.script("produce", refused)
    broker.script(api, lambda shape, request: Silence())
    transaction = client.transaction(ID)
    with pytest.raises((DeliveryFailed, TransactionError)):
        append(transaction)
    with pytest.raises(TransactionFailed, match="can only be aborted"):
        transaction.commit()
    transaction.abort()
    wait_until(lambda: not tasks_of(client), "the last task")
    assert [each.committed for each in broker.asked("end_txn")] == [False]


def test_an_interrupted_append_is_not_committed_in_part(
    broker: ScriptedBroker, client: Client
) -> None:
    broker.script("produce", lambda shape, request: Silence())
    transaction = client.transaction(ID)

    def interrupt() -> None:
        wait_until(lambda: broker.asked("produce"), "the first batch")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    user = threading.Thread(target=interrupt)
    user.start()
    with pytest.raises(KeyboardInterrupt):
        table = pa.table({"value": ["x"] * 8})
        transaction.append(table, "t", batch_bytes=1, buffer_bytes=1, delivery_timeout_ms=60_000)
    user.join()
    with pytest.raises(TransactionFailed, match="written in part"):
        transaction.commit()


def test_the_exception_of_the_block_is_what_is_seen(broker: ScriptedBroker, client: Client) -> None:
    broker.script("produce", lambda shape, request: Silence())
    broker.script("end_txn", lambda shape, request: Silence())
    with pytest.raises(ZeroDivisionError) as error, client.transaction(ID) as transaction:
        transaction.writer("t").send("x")
        wait_until(lambda: broker.asked("produce"), "the record to be sent")
        1 / 0  # noqa: B018
    assert any("could not be aborted" in note for note in error.value.__notes__)
    assert transaction.state == "unknown"


# -- forks ---------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("use", [append, Transaction.commit, Transaction.abort])
def test_it_does_not_cross_a_fork(
    broker: ScriptedBroker, client: Client, use: Callable[[Transaction], object]
) -> None:
    transaction = client.transaction(ID)
    child = os.fork()
    if child == 0:
        try:
            use(transaction)
        except ClientError as error:
            os._exit(7 if "before a fork" in str(error) else 1)
        os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    transaction.commit()


# -- what is never committed in part -------------------------------------------------------------


def test_rows_that_were_lost_while_the_commit_waited_are_not_committed_without(
    broker: ScriptedBroker, client: Client
) -> None:
    """The stream appender was not finished: only the commit hears of its last batch."""
    gate = threading.Event()

    def refused_late(shape: Shape, request: Any) -> Any:
        gate.wait(5)
        return refused(shape, request)

    broker.script("produce", refused_late)
    transaction = client.transaction(ID)
    appender = lowlevel.stream_appender(transaction, "t", encoding=EncodingRules(window_bytes=2))
    appender.add(pa.RecordBatch.from_pydict({"value": ["x" * (1 << 20)]}))  # sent at once
    threading.Timer(0.2, gate.set).start()
    with pytest.raises(TransactionFailed):
        transaction.commit()
    transaction.abort()
    assert [each.committed for each in broker.asked("end_txn")] == [False]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.transactional_id_authorization_failed,
        ErrorCode.transaction_abortable,
        ErrorCode.invalid_request,
    ],
    ids=lambda code: code.name,
)
def test_a_commit_that_changed_nothing_leaves_it_to_be_aborted(
    broker: ScriptedBroker, client: Client, code: ErrorCode
) -> None:
    broker.script("end_txn", ended_with(code))
    broker.script("produce", taken)
    with pytest.raises(RequestRefused), client.transaction(ID) as transaction:
        append(transaction)
    assert transaction.state == "aborted"
    assert [each.committed for each in broker.asked("end_txn")] == [True, False]


@pytest.mark.parametrize("state", ["Ongoing", "Dead"])
def test_what_was_refused_is_not_taken_for_ended(
    broker: ScriptedBroker, client: Client, state: str
) -> None:
    broker.script("end_txn", ended_with(ErrorCode.invalid_txn_state))
    broker.script("describe_transactions", described(state))
    with pytest.raises(TransactionError, match=f"refused in the state {state}"):
        lowlevel.end_transaction(client, OpenTransaction(ID, 7, 0), commit=True)
    broker.script("describe_transactions", described("Empty"))
    lowlevel.end_transaction(client, OpenTransaction(ID, 7, 0), commit=True)


@pytest.mark.parametrize(
    ("commit", "state", "epoch", "error"),
    [
        (True, "CompleteAbort", 0, TransactionAborted),
        (True, "PrepareAbort", 0, TransactionAborted),
        (True, "CompleteAbort", 1, TransactionTimedOut),  # its epoch was raised, to fence it
        (True, "Ongoing", 1, ProducerFenced),
        (True, "CompleteCommit", 2, ProducerFenced),
        (False, "CompleteCommit", 0, TransactionCommitted),
        (False, "PrepareCommit", 0, TransactionCommitted),
        (True, "CompleteCommit", 0, None),
        (False, "CompleteAbort", 0, None),
    ],
)
def test_who_is_refused_is_told_what_became_of_it(
    broker: ScriptedBroker,
    client: Client,
    commit: bool,
    state: str,
    epoch: int,
    error: type[TransactionError] | None,
) -> None:
    refusal = ErrorCode.invalid_txn_state
    broker.script("end_txn", ended_with(refusal, abort=refusal))
    broker.script("describe_transactions", described(state, epoch))
    identity = OpenTransaction(ID, 7, 0)
    found = lowlevel.end_transactions(client, [identity], commit=commit)[identity]
    assert type(found) is (type(None) if error is None else error)


def test_what_was_acknowledged_and_is_gone_is_not_taken_for_committed(
    broker: ScriptedBroker, client: Client
) -> None:
    broker.script("end_txn", ended_with(ErrorCode.invalid_txn_state))
    broker.script("describe_transactions", described("Empty"))
    broker.script("produce", taken)
    with (
        pytest.raises(UnknownTransaction, match="has lost"),
        client.transaction(ID) as transaction,
    ):
        append(transaction)
    detached = OpenTransaction(ID, 7, 0)
    fates = lowlevel.end_transactions(client, [detached], commit=True, are_written=True)
    assert isinstance(fates[detached], UnknownTransaction)
    assert lowlevel.end_transactions(client, [detached], commit=True) == {detached: None}


def test_an_abort_from_outside_where_brokers_allow_less_time_by_now(
    broker: ScriptedBroker, client: Client
) -> None:
    broker.script("describe_transactions", described("Ongoing"))
    broker.script("init_producer_id", begun(30_000))
    client.abort_transaction(ID)
    asked = [each.transaction_timeout for each in broker.asked("init_producer_id")]
    assert asked == [timedelta(seconds=60), timedelta(seconds=1)]


@pytest.mark.parametrize("commit", [True, False])
def test_a_refusal_does_not_say_what_became_of_the_request_before_it(
    broker: ScriptedBroker, client: Client, commit: bool
) -> None:
    """The first one may have been done; that the right was taken away since says nothing of it."""
    refusal = ErrorCode.transactional_id_authorization_failed
    broker.script(
        "end_txn", lambda shape, request: CloseConnection(), ended_with(refusal, abort=refusal)
    )
    with pytest.raises(OutcomeUnknown, match="no right to it"):
        lowlevel.end_transaction(client, OpenTransaction(ID, 7, 0), commit=commit)
    with pytest.raises(NotAuthorized):
        lowlevel.end_transaction(client, OpenTransaction(ID, 7, 0), commit=commit)
