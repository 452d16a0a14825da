"""A transaction that several threads use, or that is interrupted, is not committed in part."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from client.transactions.reading import await_committed, committed
from drumlin import lowlevel
from drumlin.client.client import Client
from drumlin.client.errors import ClientError
from drumlin.client.transactions.errors import TransactionFailed, TransactionOver
from drumlin.client.transactions.transaction import Transaction
from drumlin.client.write.deliveries import EncodingRules
from drumlin.client.write.row_sum import RowsRefused


class Gate:
    """A partitioner that waits: an append is under way while it does."""

    def __init__(self) -> None:
        self.is_reached = threading.Event()
        self.opened = threading.Event()

    def __call__(self, table: pa.Table, partition_count: int) -> NDArray[np.int32]:
        self.is_reached.set()
        assert self.opened.wait(20)
        return np.zeros(table.num_rows, np.int32)


class Appending(threading.Thread):
    """An append in a thread of its own, that waits at its gate."""

    def __init__(self, transaction: Transaction, topic: str) -> None:
        super().__init__()
        self._transaction, self._topic = transaction, topic
        self.gate = Gate()
        self.error: BaseException | None = None
        self.start()
        assert self.gate.is_reached.wait(20)

    def run(self) -> None:
        try:
            table = pa.table({"value": list("abc")})
            self._transaction.append(table, self._topic, partition=self.gate, batch_bytes=1)
        except BaseException as error:
            self.error = error

    def go_on(self) -> None:
        self.gate.opened.set()
        self.join(20)


def test_no_commit_while_another_thread_appends(client: Client, topic: str, name: str) -> None:
    transaction = client.transaction(name)
    other = Appending(transaction, topic)
    for end in (Transaction.commit, lowlevel.detach):
        with pytest.raises(TransactionFailed, match="another thread"):
            end(transaction)
    other.go_on()
    assert other.error is None
    transaction.commit()
    await_committed(client, topic, list("abc"))


def test_an_abort_ends_what_another_thread_appends(client: Client, topic: str, name: str) -> None:
    transaction = client.transaction(name)
    other = Appending(transaction, topic)
    transaction.abort()
    other.go_on()
    assert isinstance(other.error, ClientError)
    assert committed(client, topic) == []
    assert client.describe_transactions([name])[name].state != "Ongoing"


def test_rows_that_were_refused_are_not_left_out_of_a_commit(
    client: Client, topic: str, name: str
) -> None:
    """... also where the program has gone on after the error."""
    transaction = client.transaction(name)
    appender = lowlevel.stream_appender(transaction, topic, encoding=EncodingRules(window_bytes=1))
    kinds = {"value": pa.string(), "partition": pa.int32()}
    for number in (0, 7):
        rows = pa.RecordBatch.from_pydict(
            {"value": ["x" * 20], "partition": [number]}, schema=pa.schema(kinds)
        )
        if number:
            with pytest.raises(RowsRefused):
                appender.add(rows)
        else:
            appender.add(rows)
    appender.finish()
    with pytest.raises(TransactionFailed, match="has failed"):
        transaction.commit()
    transaction.abort()
    with pytest.raises(TransactionOver):
        transaction.commit()
