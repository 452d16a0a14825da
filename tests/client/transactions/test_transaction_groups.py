"""Offsets that are committed with the records made of what was read."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from client.transactions.reading import committed, offsets_of, rows
from drumlin import lowlevel
from drumlin.client.admin.committed_offsets import GroupMetadata, OffsetAndMetadata
from drumlin.client.client import Client
from drumlin.client.errors import CommitFailed
from drumlin.client.transactions.errors import TransactionFailed
from rig.waiting import wait_until


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:12]}"


def test_offsets_are_the_groups_once_it_is_committed(
    client: Client, topic: str, group: str
) -> None:
    transaction = client.transaction(group)
    transaction.send_offsets({(topic, 0): 3}, group)
    transaction.send_offsets({(topic, 1): OffsetAndMetadata(5, "five")}, group)
    transaction.send_offsets({(topic, 0): 4}, group)
    transaction.send_offsets({}, group)
    assert offsets_of(client, group) == {}
    transaction.commit()
    wait_until(lambda: len(offsets_of(client, group)) == 2, "the offsets to be committed")
    found = {place: each[:2] for place, each in offsets_of(client, group).items()}
    assert found == {(topic, 0): (4, ""), (topic, 1): (5, "five")}


def test_offsets_of_an_aborted_transaction_never_were(
    client: Client, topic: str, group: str
) -> None:
    for commit in (True, False):
        transaction = client.transaction(group)
        transaction.send_offsets({(topic, 0): 1 if commit else 2}, group)
        lowlevel.end_transaction(client, lowlevel.detach(transaction), commit=commit)
        wait_until(lambda: (topic, 0) in offsets_of(client, group), "the first")
    client.transaction(group)  # waits until the abort is complete
    assert offsets_of(client, group)[topic, 0].offset == 1


def test_copying_goes_on_where_the_last_transaction_ended(
    client: Client, topic: str, group: str
) -> None:
    """Of three members, one after the other, the second is stopped before it commits."""
    target = f"{topic}-copy"
    client.create_topic(target, 1)
    values = [str(number) for number in range(30)]
    client.append(rows(*values), topic)
    copied = copy(client, topic, target, group, 1)
    with pytest.raises(ZeroDivisionError):
        copy(client, topic, target, group, len(values) - copied, fails=True)
    copy(client, topic, target, group, len(values) - copied)
    assert sorted(committed(client, target), key=int) == values
    client.delete_topic(target)


def copy(
    client: Client, source: str, target: str, group: str, count: int, *, fails: bool = False
) -> int:
    """Copy at least so many records in one transaction."""
    copied = 0
    options: Any = {"commit_interval_ms": None, "max_records": 7}
    with (
        client.consumer(source, group=group, **options) as consumer,
        client.transaction(group) as transaction,
    ):
        while copied < count:
            batch = consumer.poll(30_000)
            assert batch is not None
            transaction.append(batch.select(["value"]), target)
            copied += batch.num_rows
        transaction.send_offsets(consumer.positions(), consumer.group_metadata())
        if fails:
            1 / 0  # noqa: B018
    client.transaction(group)  # waits until the end is complete
    return copied


def test_a_consumer_that_was_left_behind_commits_nothing(
    client: Client, topic: str, group: str
) -> None:
    transaction = client.transaction(group)
    transaction.append(rows("a"), topic)
    zombie = GroupMetadata(group, 3, "a member of yesterday")
    with pytest.raises(CommitFailed):
        transaction.send_offsets({(topic, 0): 1}, zombie)
    with pytest.raises(TransactionFailed):
        transaction.commit()
    transaction.abort()
    assert offsets_of(client, group) == {}
    assert committed(client, topic) == []


@pytest.mark.parametrize(
    ("offset", "group", "error"),
    [(-5, "g", ValueError), ("7", "g", TypeError), (7, None, TypeError)],
)
def test_what_is_no_offset_or_no_group(
    client: Client, topic: str, offset: Any, group: Any, error: type[Exception]
) -> None:
    """... is not sent, and does no harm."""
    with client.transaction(f"id-{topic}") as transaction, pytest.raises(error):
        transaction.send_offsets({(topic, 0): offset}, group)
