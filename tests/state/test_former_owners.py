"""A commit of a former owner is under way while its successor takes over: nothing counts twice."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable

import pytest

from drumlin.client.client import Client
from drumlin.client.consumer.membership.membership import Leave
from drumlin.client.transactions.transaction import Transaction
from drumlin.state import Processor, work
from state.counting import check, count

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
