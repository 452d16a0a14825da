"""A commit of a former owner is under way while its successor takes over: nothing counts twice."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable

import pytest

from drumlin.client.client import Client
from drumlin.client.consumer.membership.membership import Leave
from drumlin.client.errors import ClientError
from drumlin.client.transactions.transaction import Transaction
from drumlin.state import Processor, work
from drumlin.wire.error_codes import ErrorCode
from rig.waiting import wait_until
from state.counting import check, committed, count

Made = Callable[..., Processor]


def throw_out(processor: Processor) -> None:
    """The group removes the member, which does not know it yet."""
    consumer = processor._consumer
    engine = consumer._engine
    member = consumer.group_metadata()
    consumer._thread.run(engine._protocol.leave(Leave(member.member_id, "a test")))


@pytest.mark.parametrize("ends", ["while the successor waits", "too late"])
def test_a_commit_that_is_under_way(
    client: Client, topic: str, group: str, made: Made, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """Its offsets are accepted and its end is not asked for yet, when it loses its partitions."""
    output = f"output-{uuid.uuid4().hex[:8]}"
    client.create_topic(output, 1)
    client.append({"key": ["a", "b", "a"], "value": ["x"] * 3}, topic)
    commit = work._commit_surely
    outcome: list[str] = []
    taken: list[int] = []

    def ending(transaction: Transaction) -> None:
        try:
            commit(transaction)
        finally:
            outcome.append(transaction.state)

    def late(transaction: Transaction) -> None:
        monkeypatch.setattr(work, "_commit_surely", commit)
        throw_out(first)
        if ends == "too late":
            with made() as second:
                taken.append(count(second, output))
            ending(transaction)
            return
        timer = threading.Timer(0.2, ending, [transaction])
        timer.start()
        with made() as second:
            taken.append(count(second, output))
        timer.join()

    with made() as first:
        monkeypatch.setattr(work, "_commit_surely", late)
        count(first, output)
    check(client, topic, output, group, Counter({b"a": 2, b"b": 1}))
    if ends == "too late":
        assert outcome == ["lost"]
        assert taken == [3]
    else:
        assert outcome == ["committed"]
        assert taken[0] < 3


def test_a_member_that_has_learnt_of_its_loss(
    client: Client, topic: str, group: str, made: Made
) -> None:
    """It is in no generation any more; offsets of nobody in particular would be accepted."""
    output = f"output-{uuid.uuid4().hex[:8]}"
    client.create_topic(output, 1)
    client.append({"key": ["a", "b", "a"], "value": ["x"] * 3}, topic)
    with made() as first:
        batch = next(first)
        first.state.count_by(batch.column("key"))
        throw_out(first)
        engine = first._consumer._engine
        first._consumer._call(lambda: engine._disowned(ErrorCode.unknown_member_id))
        with made() as second:
            assert count(second, output) == 3
        # Its transaction begins now: the successor has aborted those that were open.
        first.append({"value": ["never to be seen"]}, output)
        count(first, output)
    check(client, topic, output, group, Counter({b"a": 2, b"b": 1}))


def test_a_transaction_that_is_aborted_from_outside(
    client: Client, topic: str, group: str, made: Made
) -> None:
    """The state goes back to the last commit, and the records come again."""
    output = f"output-{uuid.uuid4().hex[:8]}"
    client.create_topic(output, 1)
    client.append({"key": ["a"] * 3, "value": ["x"] * 3}, topic)
    with made() as processor:
        assert count(processor, output) == 3
        client.append({"key": ["a"] * 2, "value": ["x"] * 2}, topic)
        batch = next(processor)
        assert batch.num_rows == 2
        processor.state.count_by(batch.column("key"))
        processor.append({"value": ["never to be seen"]}, output)
        client.abort_transaction(processor._work._transactional_id)
        assert count(processor, output) == 2
    check(client, topic, output, group, Counter({b"a": 5}))


def test_records_sent_after_an_abort_from_outside(
    client: Client, topic: str, group: str, made: Made
) -> None:
    """The writer has learnt of it in the background; the user's code does not."""
    output = f"output-{uuid.uuid4().hex[:8]}"
    client.create_topic(output, 1)
    client.append({"key": ["a"] * 3, "value": ["x"] * 3}, topic)
    with made() as processor:
        next(processor)
        processor.send(output, "never to be seen", "a", headers=[("by", b"a writer")])
        client.abort_transaction(processor._work._transactional_id)
        writer = processor._work.output._writers[output]
        with pytest.raises(ClientError):
            writer.flush()
        wait_until(lambda: writer._is_closed, "the end of the writer")
        processor.send(output, "never to be seen", "a")
        assert count(processor, output) == 3
    check(client, topic, output, group, Counter({b"a": 3}))


def test_output_of_one_that_is_gone_keeps_nobody_waiting(
    client: Client, topic: str, group: str, made: Made
) -> None:
    """Its transaction is open in the output, and not in the changelog."""
    output = f"output-{uuid.uuid4().hex[:8]}"
    client.create_topic(output, 1)
    client.append({"key": ["a"] * 3, "value": ["x"] * 3}, topic)
    with made() as first:
        next(first)
        first.send(output, "never to be seen", "a")
        first._work.output.flush()
        throw_out(first)
        with made() as second:
            assert count(second, output) == 3
            wait_until(lambda: len(committed(client, output)) == 3, "the output", 20)
        count(first, output)
    check(client, topic, output, group, Counter({b"a": 3}))
