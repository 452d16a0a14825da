"""Appending tables: which row goes where, and what is refused."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from drumlin.client.client import Client
from drumlin.client.errors import DeliveryFailed, RequestRefused

#: Keys and what Kafka's own tests expect of their hash.
HASHES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def test_keys_go_where_kafkas_producers_put_them(client: Client, topic: str) -> None:
    client.append(pa.table({"key": list(HASHES), "value": list(HASHES)}), topic)
    found = client.read(topic)
    by_key = dict(zip(found["key"].to_pylist(), found["partition"].to_pylist(), strict=True))
    assert by_key == {key: (each & 0x7FFFFFFF) % 3 for key, each in HASHES.items()}


def test_rows_without_keys_fill_one_batch_after_another(client: Client, topic: str) -> None:
    table = pa.table({"value": ["x" * 90] * 300})
    report = client.append(table, topic, batch_bytes=2_000)
    assert report.record_count == 300
    counts = [each.record_count for each in report.partitions.values()]
    assert len(counts) == 3
    assert max(counts) - min(counts) <= 25
    assert report.partitions == {
        partition: (0, end, end) for partition, end in client.offsets(topic).items()
    }


def test_order_is_kept_within_a_partition(client: Client, topic: str) -> None:
    table = pa.table({"key": [f"{i % 11}" for i in range(3_000)], "value": map(str, range(3_000))})
    client.append(table, topic, batch_bytes=3_000)
    found = client.read(topic)
    for partition in range(3):
        values = found.filter(pc.equal(found["partition"], partition))["value"].to_pylist()
        assert [int(each) for each in values] == sorted(int(each) for each in values)


def test_partitions_of_ones_own(client: Client, topic: str) -> None:
    table = pa.table({"value": ["a", "b", "c"], "where": [2, 0, 2], "when": [5, 6, 7]})
    client.append(table, topic, partition="where", timestamp="when")
    client.append(table, topic, partition=lambda data, count: pc.subtract(count - 1, data["where"]))
    found = client.read(topic)
    pairs = zip(found["partition"].to_pylist(), found["value"].to_pylist(), strict=True)
    assert sorted(pairs) == [(0, b"a"), (0, b"b"), (0, b"c"), (2, b"a"), (2, b"b"), (2, b"c")]
    assert found["timestamp"].cast(pa.int64()).to_pylist()[0] == 6


@pytest.mark.parametrize(
    ("partitions", "complaint"),
    [
        ([0, 3], "no partition 3: there are 3"),
        ([0, -1], "no partition -1"),
        ([0], "2 whole numbers"),
        (["0", "1"], "2 whole numbers"),
        (pa.array([0, None]), "null"),
    ],
)
def test_partitions_that_cannot_be(
    client: Client, topic: str, partitions: object, complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        client.append(pa.table({"value": ["a", "b"]}), topic, partition=lambda *_: partitions)
    assert client.read(topic).num_rows == 0


def test_columns_by_other_names(client: Client, topic: str) -> None:
    table = pa.table({"id": ["a"], "body": ["b"], "value": ["c"], "key": ["d"]})
    client.append(table, topic, key="id", value="body")
    client.append(table, topic, key=None)
    assert {(each["key"], each["value"]) for each in client.read(topic).to_pylist()} == {
        (b"a", b"b"),
        (None, b"c"),
    }
    with pytest.raises(ValueError, match="no column 'price' for value"):
        client.append(table, topic, value="price")
    with pytest.raises(ValueError, match="no column 'value'"):
        client.append(table.select(["id"]), topic)


def test_a_record_that_is_too_large(client: Client, topic: str) -> None:
    table = pa.table({"value": ["small", "x" * 2_000_000], "where": [0, 1]})
    with pytest.raises(DeliveryFailed, match=f"'{topic}' partition 1: message_too_large") as error:
        client.append(table, topic, partition="where")
    assert error.value.acknowledged == 1
    assert str(error.value).count(topic) == 1
    told = r"a batch of 20000\d\d bytes; max.message.bytes is 1048588: raise max.message.bytes "
    assert re.search(told, str(error.value))
    assert client.read(topic)["value"].to_pylist() == [b"small"]
    client.append(pa.table({"value": ["next"], "where": [1]}), topic, partition="where")
    assert client.offsets(topic) == {0: 1, 1: 1, 2: 0}


def test_nothing_to_append(client: Client, topic: str) -> None:
    report = client.append(pa.table({"value": pa.array([], pa.binary())}), topic)
    assert (report.record_count, report.partitions) == (0, {})


def test_a_record_batch_and_chunked_columns(client: Client, topic: str) -> None:
    chunk = pa.record_batch({"key": ["a"], "value": ["b"]})
    client.append(chunk, topic)
    client.append(pa.Table.from_batches([chunk, chunk]), topic)
    assert client.read(topic).num_rows == 3


def test_a_large_table_goes_through_a_small_buffer(client: Client, topic: str) -> None:
    table = pa.table({"value": [b"%07d" % i * 16 for i in range(20_000)]})
    report = client.append(table, topic, batch_bytes=50_000, buffer_bytes=100_000)
    assert report.record_count == 20_000
    assert report.size_bytes > 2_000_000
    found = sorted(client.read(topic)["value"].to_pylist())
    assert found == table["value"].to_pylist()


def test_a_topic_that_no_broker_creates(client: Client) -> None:
    with pytest.raises(RequestRefused, match=r"invalid_topic_exception.*'no such'"):
        client.append(pa.table({"value": ["a"]}), "no such")
