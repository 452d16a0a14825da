"""Transactions against real brokers: all of one is seen, or nothing, whatever ends it."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable

import pyarrow as pa
import pytest

import drumlin
from client.transactions.reading import await_committed, committed, is_stable, rows
from drumlin import lowlevel
from drumlin.client.client import Client
from drumlin.client.transactions.errors import (
    ProducerFenced,
    TransactionAborted,
    TransactionCommitted,
    TransactionFailed,
    TransactionOver,
    TransactionTimedOut,
    UnknownTransaction,
)
from drumlin.client.transactions.requests import OpenTransaction
from drumlin.client.transactions.transaction import Transaction
from drumlin.client.write.deliveries import DeliveryRules
from drumlin.records.batch.batch import SEQUENCE_MODULO
from rig.waiting import wait_until

# -- commit and abort ----------------------------------------------------------------------------


def test_nothing_is_seen_before_the_commit_and_all_after_it(
    client: Client, topic: str, name: str
) -> None:
    with client.transaction(name) as transaction:
        report = transaction.append(rows(*"abcdef"), topic)
        assert report.record_count == 6
        assert len(report.partitions) > 1
        assert committed(client, topic) == []
        assert client.read(topic).num_rows == 6
    assert transaction.state == "committed"
    await_committed(client, topic, "abcdef")


def test_an_exception_aborts_and_comes_through(client: Client, topic: str, name: str) -> None:
    with pytest.raises(ZeroDivisionError), client.transaction(name) as transaction:
        transaction.append(rows("a"), topic)
        1 / 0  # noqa: B018
    assert transaction.state == "aborted"
    wait_until(lambda: is_stable(client, topic), "the last stable offset to move")
    assert committed(client, topic) == []


def test_one_id_is_used_again_and_again(client: Client, topic: str, name: str) -> None:
    expected = set()
    for number in range(12):
        value = str(number)
        transaction = client.transaction(name)
        transaction.append(rows(value), topic)
        if number % 3:
            transaction.commit()
            expected.add(value)
        else:
            transaction.abort()
    await_committed(client, topic, expected)


def test_one_follows_another_in_the_same_epoch(client: Client, topic: str, name: str) -> None:
    first = client.transaction(name)
    with first:
        first.append(rows("a", "b"), topic)
    with lowlevel.following(first) as second:
        second.append(rows("c", "d"), topic)
        assert (second.producer_id, second.epoch) == (first.producer_id, first.epoch)
    third = lowlevel.following(second)
    third.append(rows("x"), topic)
    third.abort()
    await_committed(client, topic, "abcd")
    with pytest.raises(TransactionOver, match="aborted"):
        lowlevel.following(third)


def test_what_follows_is_fenced_by_who_begins_in_between(
    client: Client, topic: str, name: str
) -> None:
    with client.transaction(name) as first:
        first.append(rows("a"), topic)
    second = lowlevel.following(first)
    client.transaction(name).abort()
    with pytest.raises(ProducerFenced):
        second.append(rows("b"), topic)
    await_committed(client, topic, "a")


def test_a_writer_is_flushed_by_the_commit(client: Client, topic: str, name: str) -> None:
    with client.transaction(name) as transaction:
        writer = transaction.writer(topic, linger_ms=60_000)
        deliveries = [writer.send(value, key=value) for value in "abcdef"]
        assert not any(each.done() for each in deliveries)
    assert all(each.done() for each in deliveries)
    await_committed(client, topic, "abcdef")


def test_a_writer_of_an_aborted_transaction_is_closed(
    client: Client, topic: str, name: str
) -> None:
    transaction = client.transaction(name)
    writer = transaction.writer(topic, linger_ms=60_000)
    delivery = writer.send("a")
    transaction.abort()
    with pytest.raises(drumlin.client.errors.ClientError):
        delivery.result(10)
    with pytest.raises(drumlin.client.errors.ClientError):
        writer.send("b")


def test_an_empty_transaction_ends_either_way(client: Client, topic: str, name: str) -> None:
    with client.transaction(name):
        pass
    client.transaction(name).abort()
    empty = lowlevel.detach(client.transaction(name))
    lowlevel.end_transaction(client, empty, commit=True)
    lowlevel.end_transaction(client, empty, commit=False)


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_many_batches_of_many_partitions(
    client: Client, topic: str, name: str, compression: str
) -> None:
    values = [str(number) for number in range(20_000)]
    with client.transaction(name) as transaction:
        transaction.append(rows(*values), topic, batch_bytes=5_000, compression=compression)
    await_committed(client, topic, values)


def test_retries_make_no_second_count_of_a_partition(client: Client, topic: str, name: str) -> None:
    def first(data: pa.Table, count: int) -> pa.Array:
        return pa.array([0])

    with client.transaction(name) as transaction:
        transaction.append(rows("a"), topic, partition=first)
        transaction.append(rows("b"), topic, partition=first, retries=0)
        transaction.append(rows("c"), topic, partition=first, retries=3)
        transaction.append(rows("d"), topic, partition=first, retries=0)
    await_committed(client, topic, "abcd")


def test_sequences_begin_anew_behind_the_largest(client: Client, topic: str, name: str) -> None:
    """As if two billion records had been written in this epoch."""
    transaction = client.transaction(name)
    transaction._session.producer._sequences = {(topic, 0): SEQUENCE_MODULO - 10}
    values = [f"{number:02}" for number in range(24)]
    for start in (0, 12):
        with transaction:
            for first in range(start, start + 12, 3):
                table = pa.table({"value": values[first : first + 3], "partition": [0, 0, 0]})
                transaction.append(table, topic, partition="partition")
        transaction = lowlevel.following(transaction)
    await_committed(client, topic, values)


# -- its end is its end --------------------------------------------------------------------------


@pytest.mark.parametrize("end", [Transaction.commit, Transaction.abort, lowlevel.detach])
def test_it_is_not_used_after_its_end(
    client: Client, topic: str, name: str, end: Callable[[Transaction], object]
) -> None:
    transaction = client.transaction(name)
    transaction.append(rows("a"), topic)
    end(transaction)
    for use in (
        transaction.commit,
        transaction.abort,
        lambda: lowlevel.detach(transaction),
        lambda: transaction.append(rows("b"), topic),
        lambda: transaction.writer(topic),
        lambda: transaction.send_offsets({(topic, 0): 1}, "g"),
    ):
        with pytest.raises(TransactionOver, match="it has ended"):
            use()
    if end is lowlevel.detach:
        lowlevel.end_transaction(
            client, OpenTransaction(name, transaction.producer_id, transaction.epoch), commit=True
        )
    await_committed(client, topic, () if end is Transaction.abort else ("a",))


def test_it_cannot_be_pickled(client: Client, name: str) -> None:
    with pytest.raises(TypeError, match="detach"):
        pickle.dumps(client.transaction(name))


# -- detached ------------------------------------------------------------------------------------

_END = """
import pickle, sys
import drumlin
from drumlin import lowlevel
address, wanted, commit = sys.argv[1:]
with drumlin.connect(address) as client:
    lowlevel.end_transaction(client, pickle.loads(bytes.fromhex(wanted)), commit == "commit")
"""


def test_another_process_commits_what_was_detached(
    address: str, client: Client, topic: str, name: str
) -> None:
    with drumlin.connect(address) as other:
        transaction = other.transaction(name)
        writer = transaction.writer(topic)
        for value in "abc":
            writer.send(value)
        opened = lowlevel.detach(transaction)
    assert client.describe_transactions([name])[name].state == "Ongoing"
    assert committed(client, topic) == []
    command = [sys.executable, "-c", _END, address, pickle.dumps(opened).hex(), "commit"]
    subprocess.run(command, check=True, timeout=60)
    await_committed(client, topic, "abc")


def test_an_end_may_be_repeated_but_not_turned_round(client: Client, topic: str, name: str) -> None:
    opened = {}
    for commit in (True, False):
        transaction = client.transaction(f"{name}-{commit}")
        transaction.append(rows(str(commit)), topic)
        opened[commit] = lowlevel.detach(transaction)
        for _ in range(3):
            lowlevel.end_transaction(client, opened[commit], commit=commit)
    with pytest.raises(TransactionCommitted):
        lowlevel.end_transaction(client, opened[True], commit=False)
    with pytest.raises(TransactionAborted):
        lowlevel.end_transaction(client, opened[False], commit=True)
    await_committed(client, topic, ("True",))


def test_who_begins_anew_fences_and_aborts(client: Client, topic: str, name: str) -> None:
    old = client.transaction(name)
    old.append(rows("old"), topic)
    opened = OpenTransaction(name, old.producer_id, old.epoch)
    with client.transaction(name) as new:
        with pytest.raises(ProducerFenced):
            old.append(rows("late"), topic)
        with pytest.raises(ProducerFenced):
            lowlevel.end_transaction(client, opened, commit=True)
        with pytest.raises(TransactionFailed):
            old.commit()
        new.append(rows("new"), topic)
    await_committed(client, topic, ("new",))


def test_what_timed_out_is_told_from_what_was_fenced(client: Client, topic: str, name: str) -> None:
    slow = client.transaction(name, timeout_ms=1_000)
    slow.append(rows("slow"), topic)
    wait_until(lambda: is_stable(client, topic), "the time-out", 60)
    opened = OpenTransaction(name, slow.producer_id, slow.epoch)
    with pytest.raises(TransactionTimedOut):
        lowlevel.end_transaction(client, opened, commit=True)
    with pytest.raises(TransactionTimedOut):
        slow.commit()
    lowlevel.end_transaction(client, opened, commit=False)
    assert committed(client, topic) == []


def test_ids_that_nobody_knows(client: Client, name: str) -> None:
    assert client.describe_transactions([name]) == {}
    with pytest.raises(UnknownTransaction):
        lowlevel.end_transaction(client, OpenTransaction(name, 1, 0), commit=True)
    with pytest.raises(UnknownTransaction):
        client.abort_transaction(name)


# -- what the coordinator tells ------------------------------------------------------------------


def test_an_open_transaction_is_described_listed_and_aborted(
    client: Client, topic: str, name: str
) -> None:
    transaction = client.transaction(name, timeout_ms=60_000)
    assert client.describe_transactions([name])[name].start_time is None
    transaction.append(rows(*"abcdef"), topic, partition=lambda data, count: pa.array([0, 1] * 3))
    found = client.describe_transactions([name, "nobody"])[name]
    assert found.is_open
    assert (found.producer_id, found.epoch) == (transaction.producer_id, transaction.epoch)
    assert found.timeout_ms == transaction.timeout_ms == 60_000
    assert found.partitions == ((topic, 0), (topic, 1))
    assert found.start_time is not None
    listed = client.list_transactions(states=["Ongoing"], producer_ids=[found.producer_id])
    assert [each.transactional_id for each in listed] == [name]
    client.abort_transaction(name)
    with pytest.raises(ProducerFenced):
        transaction.commit()
    wait_until(lambda: is_stable(client, topic), "the last stable offset to move")


def test_without_a_word_the_timeout_is_the_brokers_longest(client: Client, name: str) -> None:
    assert client.transaction(name).timeout_ms == 900_000


def test_a_timeout_that_the_broker_does_not_allow(client: Client, name: str) -> None:
    with pytest.raises(drumlin.client.errors.RequestRefused, match="invalid_transaction_timeout"):
        client.transaction(name, timeout_ms=900_001)


# -- many ----------------------------------------------------------------------------------------


def test_many_are_described_and_ended_at_once(client: Client, topic: str, name: str) -> None:
    opened = []
    for number in range(40):
        transaction = client.transaction(f"{name}-{number}")
        transaction.append(rows(str(number)), topic)
        opened.append(lowlevel.detach(transaction))
    ids = [each.transactional_id for each in opened]
    found = client.describe_transactions([*ids, "nobody"])
    assert [found[each].state for each in ids] == ["Ongoing"] * 40
    assert len(found) == 40
    client.abort_transaction(ids[3])
    unknown = OpenTransaction(f"{name}-unknown", 5, 0)
    fates = lowlevel.end_transactions(client, [*opened, unknown], commit=True)
    assert isinstance(fates[opened[3]], ProducerFenced)
    assert isinstance(fates[unknown], UnknownTransaction)
    assert [each for each in opened if fates[each] is not None] == [opened[3]]
    await_committed(client, topic, {str(each) for each in range(40)} - {"3"})
    aborted = client.abort_transactions([ids[0], unknown.transactional_id])
    assert aborted[ids[0]] is None
    assert isinstance(aborted[unknown.transactional_id], UnknownTransaction)


def test_rows_that_arrive_in_pieces(client: Client, topic: str, name: str) -> None:
    with client.transaction(name) as transaction:
        appender = lowlevel.stream_appender(transaction, topic)
        for value in "abcdef":
            appender.add(pa.record_batch({"value": [value.encode()]}))
        with pytest.raises(TransactionFailed, match="not finished"):
            transaction.commit()
        assert appender.finish().record_count == 6
    await_committed(client, topic, "abcdef")
    with pytest.raises(ValueError, match="acks"):
        lowlevel.stream_appender(
            client.transaction(name), topic, delivery=DeliveryRules(acks="leader")
        )


def test_a_single_name_is_no_list_of_names(client: Client) -> None:
    with pytest.raises(TypeError, match="expected a list"):
        client.describe_transactions("abc")
    with pytest.raises(TypeError, match="expected a list"):
        client.abort_transactions("abc")
    with pytest.raises(TypeError, match="expected a list"):
        client.list_transactions(states="Ongoing")
    with pytest.raises(drumlin.client.errors.RequestRefused, match="unknown transaction state"):
        client.list_transactions(states=["ongoing"])
