"""A client that is closed aborts what is open, as Kafka's own producer does: within a limit."""

from __future__ import annotations

import threading
import uuid
from typing import Any

import pyarrow as pa
import pytest

import drumlin
from client.transactions.reading import is_stable
from client.transactions.scripted_transactions import ID, ended, ended_with
from drumlin import lowlevel
from drumlin.client.client import Client
from drumlin.client.transactions.errors import OutcomeUnknown, TransactionError, TransactionOver
from drumlin.client.transactions.transaction import Transaction
from drumlin.wire.error_codes import ErrorCode
from rig.brokers.scripted_broker import ScriptedBroker, Silence
from rig.data.messages import Shape
from rig.waiting import wait_until

ROWS = pa.table({"value": ["a", "b"]})


def values(client: Client, topic: str) -> set[bytes]:
    return set(client.read(topic, isolation="read_committed")["value"].to_pylist())


# -- real brokers --------------------------------------------------------------------------------


def test_what_is_open_is_aborted(
    address: str, client: Client, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"x-{uuid.uuid4().hex[:12]}" for _ in range(3)]
    with drumlin.connect(address) as other:
        transactions = [other.transaction(each) for each in names]
        for transaction in transactions:
            transaction.append(ROWS, topic)
        transactions[0].commit()
    assert [each.state for each in transactions] == ["committed", "aborted", "aborted"]
    wait_until(lambda: is_stable(client, topic), "the last stable offset to move")
    assert client.read(topic, isolation="read_committed").num_rows == 2
    for name in names[1:]:
        assert (
            f"transaction {name!r}: aborted, as it was open when its client was closed"
            in caplog.text
        )
    assert names[0] not in caplog.text


def test_the_exception_of_the_program_is_what_is_seen(
    address: str, client: Client, topic: str
) -> None:
    with pytest.raises(ZeroDivisionError) as error, drumlin.connect(address) as other:
        transaction = other.transaction(topic)
        transaction.append(ROWS, topic)
        1 / 0  # noqa: B018
    assert error.value.__context__ is None
    assert transaction.state == "aborted"
    wait_until(lambda: is_stable(client, topic), "the last stable offset to move")


def test_records_on_their_way_do_not_come_after_the_abort(
    address: str, client: Client, topic: str
) -> None:
    with drumlin.connect(address) as other:
        writer = other.transaction(topic).writer(topic, linger_ms=0, batch_bytes=200)
        deliveries = [writer.send(b"x" * 100) for _ in range(500)]
    assert all(each.done() for each in deliveries)
    wait_until(lambda: is_stable(client, topic), "the last stable offset to move")
    assert values(client, topic) == set()


def test_a_block_whose_client_is_closed_has_not_committed(
    address: str, client: Client, topic: str
) -> None:
    other = drumlin.connect(address)
    why = "aborted, as its client was closed"
    with pytest.raises(TransactionOver, match=why), other.transaction(topic) as transaction:
        transaction.append(ROWS, topic)
        other.close()
    with pytest.raises(TransactionOver, match="aborted, as its client was closed"):
        transaction.commit()
    wait_until(lambda: is_stable(client, topic), "the last stable offset to move")
    assert values(client, topic) == set()


def test_a_client_needs_no_options(address: str, topic: str) -> None:
    with drumlin.Client(address) as other:
        assert topic in other.list_topics()


# -- brokers that do not answer ------------------------------------------------------------------


def connect(broker: ScriptedBroker, **options: Any) -> Client:
    return drumlin.connect(broker.address, retry_backoff_ms=2, **options)


def opened(client: Client, name: str = ID) -> Transaction:
    transaction = client.transaction(name)
    transaction.append(ROWS, "t")
    return transaction


def silent(shape: Shape, request: Any) -> Any:
    return Silence()


def commits(broker: ScriptedBroker) -> list[bool]:
    return [each.committed for each in broker.asked("end_txn")]


def test_a_close_waits_no_longer_than_its_limit(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.script("end_txn", silent)
    with pytest.raises(ZeroDivisionError), connect(broker, call_timeout_ms=300) as client:
        transactions = [opened(client, f"{ID}-{each}") for each in range(8)]
        1 / 0  # noqa: B018
    assert commits(broker) == [False] * 8, "side by side"
    assert {each.state for each in transactions} == {"unknown"}
    assert caplog.text.count("not aborted by its closed client, left to its timeout") == 8


def test_a_batch_without_an_answer_holds_nobody_up(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """It might be written after the abort, so there is none."""
    broker.script("produce", silent)
    with connect(broker, call_timeout_ms=300) as client:
        client.transaction(ID).writer("t").send("x")
        wait_until(lambda: broker.asked("produce"), "the record to be sent")
    assert commits(broker) == []
    assert "left to its timeout" in caplog.text


def test_an_abort_that_is_refused(broker: ScriptedBroker, caplog: pytest.LogCaptureFixture) -> None:
    refusal = ErrorCode.transactional_id_authorization_failed
    broker.script("end_txn", ended_with(refusal, abort=refusal))
    with connect(broker) as client:
        opened(client)
    assert "left to its timeout: end_txn of 'an-id'" in caplog.text


def test_what_is_left_alone(broker: ScriptedBroker, caplog: pytest.LogCaptureFixture) -> None:
    """What was ended or detached, what is empty, and what was to be committed for all we know."""
    with connect(broker, request_timeout_ms=200, call_timeout_ms=400) as client:
        opened(client, "committed").commit()
        opened(client, "aborted").abort()
        lowlevel.detach(opened(client, "detached"))
        client.transaction("empty")
        broker.script("end_txn", silent)
        unknown = opened(client, "unknown")
        with pytest.raises(OutcomeUnknown):
            unknown.commit()
        broker.script("end_txn", ended)
    asked = [(each.transactional_id, each.committed) for each in broker.asked("end_txn")]
    assert asked[:2] == [("committed", True), ("aborted", False)]
    assert set(asked[2:]) == {("unknown", True)}
    assert unknown.state == "unknown"
    assert caplog.text == ""


def test_a_commit_in_another_thread_is_let_through(broker: ScriptedBroker) -> None:
    gate = threading.Event()

    def slowly(shape: Shape, request: Any) -> Any:
        assert gate.wait(10)
        return ended(shape, request)

    broker.script("end_txn", slowly)
    client = connect(broker)
    transaction = opened(client)
    committer = threading.Thread(target=transaction.commit)
    committer.start()
    wait_until(lambda: transaction._is_ending, "the commit to begin")
    threading.Timer(0.1, gate.set).start()
    client.close()
    committer.join(10)
    assert transaction.state == "committed"
    assert commits(broker) == [True]


def test_a_commit_in_another_thread_that_nobody_answers(broker: ScriptedBroker) -> None:
    """It may be done, so it is not told to be open."""
    broker.script("end_txn", silent)
    client = connect(broker, request_timeout_ms=60_000, call_timeout_ms=300)
    transaction = opened(client)
    failures: list[TransactionError] = []

    def commit() -> None:
        try:
            transaction.commit()
        except TransactionError as error:
            failures.append(error)

    committer = threading.Thread(target=commit)
    committer.start()
    wait_until(lambda: commits(broker), "the commit to be sent")
    client.close()
    committer.join(10)
    assert [type(each) for each in failures] == [OutcomeUnknown]
    assert transaction.state == "unknown"
    assert set(commits(broker)) == {True}


def test_what_follows_a_commit_is_aborted_too(broker: ScriptedBroker) -> None:
    with connect(broker) as client:
        first = opened(client)
        first.commit()
        second = lowlevel.following(first)
        second.append(ROWS, "t")
    assert commits(broker) == [True, False]
    assert (first.state, second.state) == ("committed", "aborted")


def test_who_was_fenced_has_nothing_to_abort(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with connect(broker) as client:
        opened(client)
        opened(client)
    assert commits(broker) == [False], "the last one of the id"
    assert caplog.text.count("aborted, as it was open") == 1


def test_many_threads_may_close_it(broker: ScriptedBroker) -> None:
    gate = threading.Event()

    def slowly(shape: Shape, request: Any) -> Any:
        assert gate.wait(10)
        return ended(shape, request)

    broker.script("end_txn", slowly)
    client = connect(broker)
    transaction = opened(client)
    failures: list[BaseException] = []

    def close() -> None:
        try:
            client.close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=close) for _ in range(8)]
    for each in threads:
        each.start()
    wait_until(lambda: commits(broker), "the abort to be sent")
    threading.Timer(0.1, gate.set).start()
    for each in threads:
        each.join(10)
    assert failures == []
    assert transaction.state == "aborted"
    assert commits(broker) == [False]
