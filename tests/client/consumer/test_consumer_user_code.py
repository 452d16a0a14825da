"""What a user's callbacks raise, and what fails in the consumer itself: no call waits in vain."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest

from drumlin.client.client import Client
from drumlin.client.consumer import Consumer
from drumlin.client.consumer.engine import ConsumerEngine
from drumlin.client.consumer.fetching.fetcher import Fetcher
from drumlin.client.consumer.offsets.commits import Committer
from drumlin.client.errors import ClientError
from rig.waiting import wait_until

WAIT_MS = 20_000


class Broken(Exception):
    """Raised by a user's code, or by a fault of ours."""


def broken(*arguments: object, **options: object) -> Any:
    raise Broken("not today")


def fill(client: Client, topic: str, count: int = 100) -> None:
    client.append(pa.table({"value": [b"%d" % each for each in range(count)]}), topic)


def read_all(consumer: Consumer, count: int = 100) -> tuple[list[bytes], int]:
    """All values, and how often poll raised what a callback did."""
    values: list[bytes] = []
    raised = 0
    while len(values) < count:
        try:
            batch = consumer.poll(WAIT_MS)
        except Broken:
            raised += 1
            continue
        assert batch is not None, f"{len(values)} of {count} records came"
        values += batch.column("value").to_pylist()
    return values, raised


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_listeners_that_raise(group_client: Client, group_topic: str, protocol: Any) -> None:
    fill(group_client, group_topic)
    options: Any = {
        "group": f"raising-{group_topic}",
        "protocol": protocol,
        "on_assigned": broken,
        "on_revoked": broken,
        "heartbeat_interval_ms": 200,
        "max_records": 7,
    }
    consumer = group_client.consumer(group_topic, **options)
    values, raised = read_all(consumer)
    assert sorted(values, key=int) == [b"%d" % each for each in range(100)]
    assert raised == 1
    consumer.commit()
    with pytest.raises(Broken):
        consumer.close()
    consumer.close()
    # It has left: another one gets everything at once, and continues where the first one was.
    fill(group_client, group_topic, 10)
    with group_client.consumer(group_topic, group=options["group"], protocol=protocol) as other:
        assert len(read_all(other, 10)[0]) == 10


def test_a_reset_listener_that_raises(group_client: Client, group_topic: str) -> None:
    fill(group_client, group_topic)
    with group_client.consumer(
        assign=[(group_topic, each) for each in range(4)],
        out_of_range="earliest",
        on_reset=broken,
    ) as consumer:
        for partition in range(4):
            consumer.seek(group_topic, partition, 10_000)
        values, raised = read_all(consumer)
        while raised < 4:  # partitions without records may be reported last
            with pytest.raises(Broken):
                consumer.poll(WAIT_MS)
            raised += 1
    assert len(values) == len(set(values)) == 100
    assert raised == 4


def test_a_fault_of_the_fetcher_is_raised_by_poll(
    group_client: Client, group_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(group_client, group_topic)
    with group_client.consumer(assign=[(group_topic, 0)]) as consumer:
        consumer.position(group_topic, 0)
        monkeypatch.setattr(Fetcher, "_take", broken)
        with pytest.raises(Broken, match="not today"):
            while True:
                consumer.seek(group_topic, 0, 0)
                consumer.poll(WAIT_MS)


def test_a_fault_is_raised_to_who_asks_for_a_position(
    group_client: Client, group_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(self: ConsumerEngine) -> None:
        raise Broken("not today")

    monkeypatch.setattr(ConsumerEngine, "_take_all", fail)
    with group_client.consumer(group_topic) as consumer:
        for ask in (lambda: consumer.position(group_topic, 0, WAIT_MS), consumer.poll):
            with pytest.raises(Broken):
                ask()


def test_a_position_is_not_waited_for_when_the_consumer_is_closed(
    group_client: Client, group_topic: str
) -> None:
    consumer = group_client.consumer(assign=[("no-such-topic", 0)])
    raised: list[BaseException] = []

    def ask() -> None:
        try:
            consumer.position("no-such-topic", 0, 1_000_000)
        except ClientError as error:
            raised.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    consumer.close()
    thread.join(20)
    assert not thread.is_alive()
    assert len(raised) == 1


def test_a_fault_of_the_periodic_commit_is_raised_by_poll(
    group_client: Client, group_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Committer, "commit_progress", broken)
    consumer = group_client.consumer(
        assign=[(group_topic, 0)], group=f"broken-{group_topic}", commit_interval_ms=1
    )

    def is_told() -> bool:
        try:
            consumer.poll(10)
        except Broken:
            return True
        return False

    wait_until(is_told, "the fault")
    monkeypatch.undo()
    consumer.close()
