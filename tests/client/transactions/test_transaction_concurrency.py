"""Many transactions at once: of threads, of asyncio tasks, one within another, under one id."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

import drumlin
from client.transactions.reading import await_committed, committed, rows
from client.transactions.scripted_transactions import ID, ended
from drumlin import lowlevel
from drumlin.client.client import Client
from drumlin.client.errors import ClientError
from drumlin.client.transactions.errors import (
    ProducerFenced,
    TransactionError,
    TransactionFailed,
    TransactionOver,
)
from rig.brokers.scripted_broker import ScriptedBroker, Silence
from rig.data.messages import Shape
from rig.waiting import wait_until

# -- threads -------------------------------------------------------------------------------------


def test_each_thread_has_its_own(client: Client, topic: str, name: str) -> None:
    def write(thread: int) -> list[str]:
        written = []
        for number in range(6):
            with client.transaction(f"{name}-{thread}") as transaction:
                values = [f"{thread}-{number}-{each}" for each in range(5)]
                transaction.append(rows(*values), topic)
                if (thread + number) % 3:
                    written += values
                else:
                    transaction.abort()
        return written

    with ThreadPoolExecutor(12) as threads:
        written = [each for values in threads.map(write, range(12)) for each in values]
    await_committed(client, topic, written)


def test_threads_that_begin_under_one_id_fence_each_other(
    client: Client, topic: str, name: str
) -> None:
    """A thread whose commit succeeds has committed, and one that is fenced has not."""
    barrier = threading.Barrier(8)

    def write(thread: int) -> str | None:
        barrier.wait(20)
        try:
            with client.transaction(name) as transaction:
                transaction.append(rows(str(thread)), topic)
        except TransactionError as error:
            assert isinstance(error, ProducerFenced | TransactionFailed), repr(error)
            return None
        return str(thread)

    with ThreadPoolExecutor(8) as threads:
        told = [each for each in threads.map(write, range(8)) if each is not None]
    assert told, "the last one to begin"
    await_committed(client, topic, told)


# -- asyncio -------------------------------------------------------------------------------------


def test_tasks_of_asyncio_use_threads(client: Client, topic: str, name: str) -> None:
    """The client's calls block, so a task hands a whole transaction to a thread."""

    def write(number: int) -> None:
        with client.transaction(f"{name}-{number}") as transaction:
            transaction.append(rows(str(number)), topic)

    async def write_all() -> None:
        await asyncio.gather(*(asyncio.to_thread(write, each) for each in range(20)))

    asyncio.run(write_all())
    await_committed(client, topic, [str(each) for each in range(20)])


def test_a_cancelled_task_does_not_stop_its_thread(client: Client, topic: str, name: str) -> None:
    """... which brings the transaction to its end: no other thread may use it meanwhile."""
    begun, gate = threading.Event(), threading.Event()
    ended: list[str] = []

    def write() -> None:
        with client.transaction(name) as transaction:
            transaction.append(rows("a"), topic)
            begun.set()
            assert gate.wait(20)
        ended.append(transaction.state)

    async def cancel() -> None:
        writing = asyncio.ensure_future(asyncio.to_thread(write))
        await asyncio.to_thread(begun.wait, 20)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        gate.set()

    asyncio.run(cancel())  # waits for its threads
    assert ended == ["committed"]
    await_committed(client, topic, ["a"])


# -- one within another --------------------------------------------------------------------------


def test_one_within_another(client: Client, topic: str, name: str) -> None:
    """They have nothing to do with each other."""
    with client.transaction(f"{name}-outer") as outer:
        outer.append(rows("outer"), topic)
        with client.transaction(f"{name}-inner") as inner:
            inner.append(rows("inner"), topic)
        with pytest.raises(ZeroDivisionError), client.transaction(f"{name}-other") as other:
            other.append(rows("other"), topic)
            1 / 0  # noqa: B018
        outer.append(rows("again"), topic)
    await_committed(client, topic, ["inner", "outer", "again"])


def test_one_within_another_of_the_same_id(client: Client, topic: str, name: str) -> None:
    with pytest.raises((ProducerFenced, TransactionFailed)), client.transaction(name) as outer:
        outer.append(rows("outer"), topic)
        with client.transaction(name) as inner:
            inner.append(rows("inner"), topic)
        outer.append(rows("again"), topic)
    await_committed(client, topic, ["inner"])


def test_a_block_within_its_own_block(client: Client, topic: str, name: str) -> None:
    """The inner block's end is the end."""
    with client.transaction(name) as transaction:
        with transaction:
            transaction.append(rows("a"), topic)
        with pytest.raises(TransactionOver):
            transaction.append(rows("b"), topic)
    await_committed(client, topic, ["a"])


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_writer_that_outlives_it(client: Client, topic: str, name: str, end: str) -> None:
    transaction = client.transaction(name)
    writer = transaction.writer(topic)
    writer.send("a")
    getattr(transaction, end)()
    with pytest.raises(ClientError, match="closed"):
        writer.send("b")
    writer.close()
    await_committed(client, topic, ["a"] if end == "commit" else [])


# -- interrupted ---------------------------------------------------------------------------------


def interrupt_when(broker: ScriptedBroker, api: str) -> threading.Thread:
    """Ctrl-C, once such a request has come."""

    def interrupt() -> None:
        wait_until(lambda: broker.asked(api), api)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    return thread


def silent(shape: Shape, request: object) -> Silence:
    return Silence()


def test_an_interrupted_commit_can_be_asked_for_again(broker: ScriptedBroker) -> None:
    broker.script("end_txn", silent, ended)
    with drumlin.connect(broker.address) as client:
        transaction = client.transaction(ID)
        transaction.append(rows("a"), "t")
        user = interrupt_when(broker, "end_txn")
        with pytest.raises(KeyboardInterrupt):
            transaction.commit()
        user.join()
        assert transaction.state == "unknown"
        with pytest.raises(TransactionOver, match="unknown"):
            transaction.append(rows("b"), "t")
        broker.script("end_txn", ended)
        with drumlin.connect(broker.address) as other:
            lowlevel.end_transaction(other, lowlevel.detach(transaction), commit=True)
    assert {each.committed for each in broker.asked("end_txn")} == {True}


@pytest.mark.parametrize("api", ["init_producer_id", "add_partitions_to_txn", "produce"])
def test_an_interrupt_aborts_the_block(broker: ScriptedBroker, api: str) -> None:
    answers = {each: broker._answers[each][0] for each in ("add_partitions_to_txn", "produce")}
    broker.script(api, silent, *([answers[api]] if api in answers else [silent]))
    user = interrupt_when(broker, api)
    options = {"request_timeout_ms": 300, "call_timeout_ms": 2_000}
    with drumlin.connect(broker.address, **options) as client:
        with pytest.raises(KeyboardInterrupt), client.transaction(ID) as transaction:
            transaction.append(rows("a"), "t")
        user.join()
    assert not any(each.committed for each in broker.asked("end_txn"))


# -- killed --------------------------------------------------------------------------------------

_PROGRAM = """
import sys
import pyarrow as pa
import drumlin
address, name, topic = sys.argv[1:]
client = drumlin.connect(address)
for number in range(10_000):
    with client.transaction(name) as transaction:
        for part in range(3):
            value = f"{name} {number} {part}"
            transaction.append(pa.table({"key": [value], "value": [value]}), topic)
    print(number, flush=True)
"""


def test_a_process_that_is_killed_leaves_whole_transactions(
    address: str, client: Client, topic: str, name: str
) -> None:
    """At any moment, and again under the same id: what was acknowledged is there, all of it."""
    told = Counter[str]()
    for run in range(2):
        arguments = [sys.executable, "-c", _PROGRAM, address, name, topic]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout is not None
            for _ in range(3 + run * 4):
                told[program.stdout.readline().strip()] += 1
            program.kill()
            told.update(line.strip() for line in program.stdout)
    client.abort_transaction(name)
    there = Counter[str]()

    def are_all_there() -> bool:
        there.clear()
        there.update(each.split()[1] for each in committed(client, topic))
        return all(there[number] >= 3 * count for number, count in told.items())

    wait_until(are_all_there, "what was acknowledged")
    assert all(count % 3 == 0 for count in there.values()), there
    assert sum(there.values()) <= 3 * (sum(told.values()) + 2), "one unacknowledged, each"
