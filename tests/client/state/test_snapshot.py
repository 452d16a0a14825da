"""The state of a topic, now and at points of its history, against a dict."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from drumlin.client.client import Client
from drumlin.client.errors import OffsetOutOfRange, UnknownTopic
from drumlin.client.places import Milliseconds, first_ms, last_ms
from drumlin.records.columns.columns import HEADERS_TYPE
from rig.waiting import wait_until

START_MS = 1_600_000_000_000


def history(count: int, keys: int, seed: int = 5) -> pa.Table:
    """Rows of three partitions with a second between them: inserts, updates, tombstones."""
    chance = random.Random(seed)
    return pa.table(
        {
            "key": pa.array([b"k%d" % chance.randrange(keys) for _ in range(count)]),
            "value": pa.array([None if i % 11 == 0 else b"%d" % i for i in range(count)]),
            "timestamp": pa.array(
                [START_MS + i * 1000 for i in range(count)], pa.timestamp("ms", "UTC")
            ),
            "headers": pa.array([[("n", b"%d" % i)] for i in range(count)], HEADERS_TYPE),
        }
    )


def write(client: Client, topic: str, rows: pa.Table, **options: Any) -> None:
    client.append(
        rows, topic, partition=lambda data, _: [i % 3 for i in range(len(data))], **options
    )


def twin(log: pa.Table) -> list[dict[str, Any]]:
    """What a dict makes of a log that was read: the rows of its state, in the log's order."""
    last: dict[tuple[int, bytes], dict[str, Any]] = {}
    for row in log.to_pylist():
        last[row["partition"], row["key"]] = row
    rows = [row for row in last.values() if row["value"] is not None]
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


def test_the_last_value_of_every_key(client: Client, topic: str) -> None:
    write(client, topic, history(5000, 300), batch_bytes=4000)
    names = ["key", "value", "headers", "partition", "offset", "timestamp"]
    log = client.read(topic, columns=names)
    found = client.snapshot(topic, headers=True)
    assert found.column_names == names
    assert found.to_pylist() == twin(log)
    assert client.snapshot(topic).column_names == [each for each in names if each != "headers"]
    only_keys = client.snapshot(topic, columns=["key"], partitions=[2])
    wanted = [row["key"] for row in twin(log) if row["partition"] == 2]
    assert only_keys.to_pydict() == {"key": wanted}
    texts = client.snapshot(topic, decode="json", columns=["value", "key"])
    assert texts.schema.types == [pa.int64(), pa.string()]


def test_a_point_in_history(client: Client, topic: str) -> None:
    write(client, topic, history(900, 40))
    log = client.read(topic, columns=["key", "value", "partition", "offset", "timestamp"])

    def before(ends: dict[int, int]) -> list[dict[str, Any]]:
        kept = [row["offset"] < ends[row["partition"]] for row in log.to_pylist()]
        return twin(log.filter(pa.array(kept)))

    ends = {0: 0, 1: 150, 2: 299}
    assert client.snapshot(topic, at=ends).to_pylist() == before(ends)
    # Record i has second i and partition i % 3; those of the time itself count too.
    at_450 = {0: 151, 1: 150, 2: 150}
    for at in (
        Milliseconds(START_MS + 450_000),
        Milliseconds(START_MS + 450_999),
        datetime.fromtimestamp(START_MS / 1000 + 450.0009, UTC),
    ):
        assert client.snapshot(topic, at=at).to_pylist() == before(at_450)
    assert client.snapshot(topic, at=Milliseconds(START_MS - 1)).num_rows == 0
    assert client.snapshot(topic, at=datetime.now(UTC)).to_pylist() == twin(log)


def test_a_time_counts_to_its_millisecond() -> None:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    for ms in (0, 272_658_128_354, START_MS):  # the second is less, by a microsecond, as a float
        assert last_ms(epoch + timedelta(milliseconds=ms, microseconds=999)) == ms
        assert last_ms(Milliseconds(ms)) == first_ms(Milliseconds(ms)) == ms
        assert first_ms(epoch + timedelta(milliseconds=ms)) == ms
        assert first_ms(epoch + timedelta(milliseconds=ms, microseconds=1)) == ms + 1


def test_points_that_are_none(client: Client, topic: str) -> None:
    write(client, topic, history(30, 5))
    with pytest.raises(OffsetOutOfRange, match="11"):
        client.snapshot(topic, at={0: 11}, partitions=[0])
    with pytest.raises(ValueError, match=r"at has partitions \[0\], but \[0, 1, 2\] are read"):
        client.snapshot(topic, at={0: 1})
    with pytest.raises(ValueError, match="no time zone"):
        client.snapshot(topic, at=datetime(2020, 1, 1))
    with pytest.raises(TypeError, match="at 'now'"):
        client.snapshot(topic, at="now")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="at 3: an int is an offset, not a time"):
        client.snapshot(topic, at=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="at True: expected a datetime"):
        client.snapshot(topic, at=True)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no such columns: \\['topic'\\]"):
        client.snapshot(topic, columns=["topic"])
    with pytest.raises(UnknownTopic):
        client.snapshot(topic, partitions=[3])
    with pytest.raises(ValueError, match="memory_bytes 0"):
        client.snapshot_batches(topic, memory_bytes=0)


def test_what_is_written_later_does_not_count(client: Client, topic: str) -> None:
    write(client, topic, history(300, 20))
    log = client.read(topic, columns=["key", "value", "partition", "offset", "timestamp"])
    batches = client.snapshot_batches(topic)
    write(client, topic, history(300, 20, seed=6))
    assert rows_of(batches) == twin(log)


def test_transactions(client: Client, topic: str) -> None:
    def put(writer: Any, value: bytes) -> None:
        row = pa.table({"key": [b"k"], "value": [value]})
        writer.append(row, topic, partition=lambda data, _: [0] * len(data))

    put(client, b"first")
    with pytest.raises(KeyError), client.transaction(f"aborted-{topic}") as transaction:
        put(transaction, b"aborted")
        raise KeyError
    assert client.snapshot(topic)["value"].to_pylist() == [b"first"]
    with client.transaction(f"open-{topic}") as transaction:
        put(transaction, b"second")
        assert client.snapshot(topic)["value"].to_pylist() == [b"first"]
        uncommitted = client.snapshot(topic, isolation="read_uncommitted")
        assert uncommitted["value"].to_pylist() == [b"second"]
    wait_until(
        lambda: client.snapshot(topic)["value"].to_pylist() == [b"second"],
        "the commit to be seen",
    )


def test_a_state_larger_than_memory_is_read_in_parts(client: Client, topic: str) -> None:
    rows = history(20_000, 9000)
    write(client, topic, rows, batch_bytes=10_000)
    log = client.read(topic, columns=["key", "value", "partition", "offset", "timestamp"])
    whole = list(client.snapshot_batches(topic))
    parts = list(client.snapshot_batches(topic, memory_bytes=60_000))
    assert len(parts) > len(whole)
    assert rows_of(parts) == rows_of(whole) == twin(log)
    # Memory for not even one key: it is read all the same.
    few = list(
        client.snapshot_batches(
            topic,
            memory_bytes=1,
            partitions=[0],
            at={0: 30},
        )
    )
    first = log.filter(
        pa.array([r["partition"] == 0 and r["offset"] < 30 for r in log.to_pylist()])
    )
    assert rows_of(few) == twin(first)


def test_an_empty_topic_has_no_state(client: Client, topic: str) -> None:
    assert client.snapshot(topic).num_rows == 0
    assert list(client.snapshot_batches(topic)) == []


def commit(client: Client, topic: str, keys: Iterable[bytes], *, commits: bool = True) -> None:
    """One transaction of records that are a second apart, an hour and more ago."""
    rows = pa.table(
        {
            "key": list(keys),
            "value": list(keys),
            "timestamp": pa.array(
                [START_MS + int(each[1:]) * 1000 for each in keys], pa.timestamp("ms", "UTC")
            ),
        }
    )
    with client.transaction(topic) as transaction:
        transaction.append(rows, topic, partition=lambda data, _: [0] * len(data))
        if not commits:
            transaction.abort()


def test_a_time_counts_records_not_markers(client: Client, topic: str) -> None:
    """Markers have the broker's clock, whatever the records of their transactions say."""
    for number, commits in ((0, True), (2, True), (50, False), (4, True), (60, True)):
        commit(client, topic, [b"k%d" % number, b"k%d" % (number + 1)], commits=commits)
    client.transaction(topic)  # waits until the end of the one before is complete

    def keys(at_ms: int | None) -> list[bytes]:
        at = None if at_ms is None else Milliseconds(at_ms)
        return [row["key"] for row in client.snapshot(topic, at=at).to_pylist()]

    assert keys(START_MS + 40_000) == [b"k%d" % each for each in range(6)]
    assert keys(START_MS + 3_000) == [b"k0", b"k1", b"k2", b"k3"]
    assert keys(START_MS + 60_000) == [*(b"k%d" % each for each in range(6)), b"k60"]
    assert keys(START_MS + 70_000) == keys(None)
    before = datetime.fromtimestamp(START_MS / 1000 + 4, UTC)
    read = client.read(topic, end=before, isolation="read_committed")
    assert read["key"].to_pylist() == [b"k0", b"k1", b"k2", b"k3"]
    unread = client.snapshot(
        topic, at=Milliseconds(START_MS + 40_000), isolation="read_uncommitted"
    )
    assert [row["key"] for row in unread.to_pylist()] == [b"k0", b"k1", b"k2", b"k3"]
    target = f"{topic}-restored"
    client.restore(topic, target, at=Milliseconds(START_MS + 40_000))
    assert client.read(target).num_rows == 6
    client.delete_topic(target)
