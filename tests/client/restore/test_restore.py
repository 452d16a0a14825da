"""Restoring into a new topic: all or nothing, however often it is killed and begun again."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from drumlin.client.client import Client
from drumlin.client.errors import NotRestored, OffsetOutOfRange, UnknownTopic
from drumlin.client.places import Milliseconds
from drumlin.client.transactions.errors import ProducerFenced, TransactionTimedOut
from drumlin.records.columns.columns import HEADERS_TYPE
from rig.waiting import wait_until

START_MS = 1_600_000_000_000
NAMES = ["partition", "offset", "key", "value", "headers", "timestamp"]

#: A restore that is about to do something, says so, and waits for its end.
PROGRAM = """
import sys, time
import drumlin
from drumlin.client.transactions.transaction import Transaction

address, topic, target, halt_at = sys.argv[1:]

def halt(*_):
    print("here", flush=True)
    time.sleep(600)

setattr(Transaction, halt_at, halt)
with drumlin.connect(address) as client:
    client.restore(topic, target)
"""


@pytest.fixture
def source(client: Client, topic: str) -> str:
    """A log of 600 records, with updates, tombstones and an aborted transaction."""
    count = 600
    rows = pa.table(
        {
            "key": pa.array([b"k%d" % (i * 7 % 50) for i in range(count)]),
            "value": pa.array([None if i % 11 == 0 else b"%d" % i for i in range(count)]),
            "timestamp": pa.array(
                [START_MS + i * 1000 for i in range(count)], pa.timestamp("ms", "UTC")
            ),
            "headers": pa.array([[("n", b"%d" % i)] for i in range(count)], HEADERS_TYPE),
            "place": pa.array([i % 3 for i in range(count)]),
        }
    )
    client.append(rows, topic, partition="place", batch_bytes=3000)
    with pytest.raises(KeyError), client.transaction(f"aborted-{topic}") as transaction:
        transaction.append(rows, topic, partition="place")
        raise KeyError
    return topic


@pytest.fixture
def target(client: Client) -> Iterator[str]:
    name = f"restored-{uuid.uuid4().hex[:12]}"
    yield name
    if name in client.list_topics():
        client.delete_topic(name)


def committed(client: Client, topic: str) -> list[dict[str, Any]]:
    """What a reader of committed records sees, without offsets."""
    names = [name for name in NAMES if name != "offset"]
    rows: list[dict[str, Any]] = client.read(
        topic, columns=names, isolation="read_committed"
    ).to_pylist()
    return rows


def restored(client: Client, topic: str) -> list[dict[str, Any]]:
    """The same once nothing is open any more: a commit is seen some milliseconds later."""

    def is_settled() -> bool:
        return client.offsets(topic) == client.offsets(topic, isolation="read_committed")

    wait_until(is_settled, "transactions to end")
    return committed(client, topic)


def state(client: Client, topic: str, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = client.snapshot(topic, headers=True, **options).to_pylist()
    for row in rows:
        del row["offset"]
    return rows


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["partition"], row["timestamp"]))


def test_a_state_of_the_past(client: Client, source: str, target: str) -> None:
    client.set_topic_configs(source, {"cleanup.policy": "compact", "max.message.bytes": 2000})
    at = {0: 100, 1: 90, 2: 0}
    seen: list[int] = []
    configs = {"min.cleanable.dirty.ratio": 0.25}
    report = client.restore(source, target, at=at, configs=configs, on_progress=seen.append)
    wanted = in_order(state(client, source, at=at))
    assert in_order(restored(client, target)) == wanted
    assert report.end_offsets == at
    assert report.record_count == sum(seen) == len(wanted)
    assert not report.was_there
    assert len(client.partitions(target)) == 3
    set_here = {k: v.value for k, v in client.topic_configs(target).items() if not v.is_default}
    assert set_here == {
        "cleanup.policy": "compact",
        "max.message.bytes": "2000",
        "min.cleanable.dirty.ratio": "0.25",
    }


def test_records_as_they_are(client: Client, source: str, target: str) -> None:
    client.set_topic_configs(source, {"message.timestamp.type": "LogAppendTime"})
    at = {0: 10, 1: 200, 2: 0}
    client.restore(source, target, at=at, records=True, compression="zstd")
    log = client.read(source, columns=NAMES).to_pylist()
    wanted = [row for row in log if row["offset"] < at[row["partition"]]]
    for row in wanted:
        del row["offset"]
    assert restored(client, target) == wanted


def test_the_first_records(client: Client, source: str, target: str) -> None:
    report = client.restore(source, target, first=70)
    assert report.end_offsets == {0: 70, 1: 70, 2: 70}
    wanted = client.read(source, end=70, columns=[n for n in NAMES if n != "offset"]).to_pylist()
    assert restored(client, target) == wanted
    assert len(wanted) == 210
    more = client.restore(source, f"{target}-all", first=10_000)
    assert more.record_count == 600
    client.delete_topic(f"{target}-all")


@pytest.mark.parametrize("halt_at", ["send_offsets", "commit"])
def test_killed_in_the_midst_and_begun_again(
    client: Client, source: str, target: str, halt_at: str
) -> None:
    command = [sys.executable, "-c", PROGRAM, client.bootstrap, source, target, halt_at]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "here\n"
            # Batches may still be on their way.
            wait_until(lambda: client.read(target).num_rows > 0, "records of the transaction")
            assert committed(client, target) == []
        finally:
            process.kill()
    assert committed(client, target) == []
    wanted = in_order(state(client, source))
    report = client.restore(source, target)
    assert (report.was_there, report.record_count) == (False, len(wanted))
    assert in_order(restored(client, target)) == wanted
    again = client.restore(source, target)
    assert (again.was_there, again.end_offsets) == (True, report.end_offsets)
    assert in_order(restored(client, target)) == wanted


def test_what_was_restored_already_is_not_restored_from_something_else(
    client: Client, source: str, target: str
) -> None:
    at = {0: 100, 1: 90, 2: 0}
    client.restore(source, target, at=at)
    assert client.restore(source, target, at=at).was_there
    for other in (
        {"at": {**at, 2: 1}},
        {"at": Milliseconds(START_MS)},
        {"at": at, "records": True},
        {},
    ):
        with pytest.raises(NotRestored, match=rf"restored already, from the state of .*{source}"):
            client.restore(source, target, **other)
    # Another topic of the name is another topic: the marker is not of it.
    client.delete_topic(target)
    assert not client.restore(source, target, first=1).was_there
    assert len(restored(client, target)) == 3


def test_a_topic_with_other_records_is_left_alone(client: Client, source: str, target: str) -> None:
    with pytest.raises(NotRestored, match="itself"):
        client.restore(source, source)
    client.create_topic(target, 2)
    with pytest.raises(NotRestored, match=f"has 2 partitions, '{source}' has 3"):
        client.restore(source, target)
    client.add_partitions(target, 3)
    with client.transaction(f"open-{target}") as transaction:
        transaction.append({"value": [b"mine"]}, target)
        with pytest.raises(NotRestored, match="another transaction is open"):
            client.restore(source, target)
    with pytest.raises(NotRestored, match="records that no restore has written"):
        client.restore(source, target)
    assert [row["value"] for row in restored(client, target)] == [b"mine"]


def test_what_cannot_be_read_is_not_written(client: Client, source: str, target: str) -> None:
    with pytest.raises(OffsetOutOfRange):
        client.restore(source, target, at={0: 0, 1: 0, 2: 10_000})
    with pytest.raises(UnknownTopic):
        client.restore(f"no-{source}", target)
    with pytest.raises(ValueError, match="first 0"):
        client.restore(source, target, first=0)
    assert client.restore(source, target).record_count == len(state(client, source))


def test_a_topic_that_is_deleted_meanwhile(client: Client, source: str, target: str) -> None:
    def delete(_: int) -> None:
        client.delete_topic(target)
        client.create_topic(target, 3)

    with pytest.raises(NotRestored, match="was deleted while it was restored"):
        client.restore(source, target, first=1, at={0: 1, 1: 0, 2: 0}, on_progress=delete)
    assert restored(client, target) == []


def test_a_second_restore_fences_the_first(client: Client, source: str, target: str) -> None:
    def begin_another(_: int) -> None:
        client.transaction(f"drumlin-restore-{target}")

    with pytest.raises(ProducerFenced):
        client.restore(source, target, on_progress=begin_another)
    assert restored(client, target) == []


@pytest.mark.deep
def test_a_restore_that_takes_too_long_says_so(client: Client, source: str, target: str) -> None:
    def wait_for_its_end(_: int) -> None:
        while client.describe_transactions([name])[name].state == "Ongoing":
            pass

    name = f"drumlin-restore-{target}"
    with pytest.raises(TransactionTimedOut) as raised:
        client.restore(source, target, timeout_ms=1000, on_progress=wait_for_its_end)
    assert "transaction.max.timeout.ms" in raised.value.__notes__[0]
    assert restored(client, target) == []
