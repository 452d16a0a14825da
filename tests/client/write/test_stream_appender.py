"""Rows in small pieces: windows, partitions, many topics, and what is refused by its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import drumlin
from drumlin import lowlevel
from drumlin.client.arguments import Acks
from drumlin.client.client import Client
from drumlin.client.errors import ClientError, DeliveryFailed
from drumlin.client.transactions.errors import TransactionFailed
from drumlin.client.write.deliveries import DeliveryRules, EncodingRules
from drumlin.client.write.row_sum import RowsRefused
from drumlin.client.write.stream_appender import StreamAppender
from rig.waiting import wait_until

SMALL = EncodingRules(window_bytes=1)


def rows(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def pieces(table: pa.Table, size: int) -> Iterator[pa.RecordBatch]:
    return iter(table.to_batches(max_chunksize=size))


@pytest.fixture
def other_topic(client: Client, topic: str) -> str:
    client.create_topic(f"{topic}-other", 2)
    return f"{topic}-other"


def test_small_pieces_become_large_batches(client: Client, topic: str) -> None:
    table = pa.table({"key": [f"{n % 500}" for n in range(9_000)], "value": ["x" * 100] * 9_000})
    by_table = client.append(table, topic)
    appender = lowlevel.stream_appender(client, topic)
    for piece in pieces(table, 7):
        appender.add(piece)
    report = appender.finish()
    assert report.record_count == 9_000
    # As if the table had come in one piece: as many bytes, so as few batches.
    assert report.size_bytes == pytest.approx(by_table.size_bytes, rel=0.01)
    assert {key: each.record_count for key, each in report.partitions.items()} == {
        (topic, number): each.record_count for number, each in by_table.partitions.items()
    }


def test_windows_bound_what_is_held(client: Client, topic: str) -> None:
    table = pa.table({"key": [f"{n % 11}" for n in range(3_000)], "value": map(str, range(3_000))})
    appender = lowlevel.stream_appender(
        client,
        topic,
        encoding=EncodingRules(batch_bytes=500, window_bytes=2_000),
        delivery=DeliveryRules(buffer_bytes=1_000),
    )
    for piece in pieces(table, 1_000):
        appender.add(piece)
    assert client.read(topic).num_rows > 2_000  # before it is finished
    appender.finish()
    found = client.read(topic)
    for partition in range(3):
        values = found.filter(pc.equal(found["partition"], partition))["value"].to_pylist()
        assert [int(each) for each in values] == sorted(int(each) for each in values)
    assert sorted(map(int, found["value"].to_pylist())) == list(range(3_000))


@pytest.mark.parametrize("acks", ["all", "1"])
def test_batches_are_sealed_whether_brokers_know_them_again_or_not(
    client: Client, topic: str, acks: Acks
) -> None:
    appender = lowlevel.stream_appender(
        client, topic, delivery=DeliveryRules(acks, is_idempotent=False)
    )
    appender.add(rows(value=["a", "b"]))
    assert appender.finish().record_count == 2
    assert client.read(topic)["value"].to_pylist() == [b"a", b"b"]


def test_topics_and_partitions_of_their_own(client: Client, topic: str, other_topic: str) -> None:
    appender = lowlevel.stream_appender(client)
    appender.add(
        rows(
            topic=[topic, other_topic, topic, other_topic],
            partition=pa.array([2, None, 0, 1], pa.int32()),
            key=["a", "b", None, None],
            value=["1", "2", "3", None],
        )
    )
    report = appender.finish()
    assert report.record_count == 4
    by_key = client.append(pa.table({"key": ["b"], "value": ["again"]}), other_topic)
    (partition,) = by_key.partitions
    found = client.read(topic).to_pylist() + client.read(other_topic).to_pylist()
    places = [(each["partition"], each["key"], each["value"]) for each in found]
    assert places[:2] == [(0, None, b"3"), (2, b"a", b"1")]
    assert sorted(places[2:], key=str) == sorted(
        [(partition, b"b", b"2"), (partition, b"b", b"again"), (1, None, None)], key=str
    )


def test_rows_without_keys_fill_batch_after_batch_across_windows(
    client: Client, topic: str
) -> None:
    appender = lowlevel.stream_appender(
        client, topic, encoding=EncodingRules(batch_bytes=10_000, window_bytes=5_000)
    )
    for piece in pieces(pa.table({"value": ["x" * 90] * 3_000}), 10):
        appender.add(piece)
    counts = [each.record_count for each in appender.finish().partitions.values()]
    assert len(counts) == 3
    assert max(counts) - min(counts) < 250  # two batches


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"topic": [None]}, "row 4 has no topic"),
        ({"topic": ["T"], "partition": [3]}, "row 4 is for partition 3 of topic 'T', .* 0 to 2"),
        ({"topic": ["T"], "partition": [-1]}, "row 4 is for partition -1"),
        ({"topic": ["T"], "timestamp": [-2]}, "row 4 .* -2"),
        ({"topic": ["T"], "headers": [[{"key": None, "value": b""}]]}, "row 4: a header without"),
    ],
)
def test_rows_that_cannot_be_records(
    client: Client, topic: str, columns: dict[str, Any], complaint: str
) -> None:
    kinds = {
        "topic": pa.string(),
        "partition": pa.int32(),
        "timestamp": pa.int64(),
        "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        "value": pa.string(),
    }
    sound = {"topic": "T", "partition": 0, "timestamp": 5, "headers": None, "value": "v"}

    def batch(count: int, changes: dict[str, Any]) -> pa.RecordBatch:
        given = {name: [each] * count for name, each in sound.items()} | changes
        given["topic"] = [each and topic for each in given["topic"]]
        return rows(**{name: pa.array(given[name], kind) for name, kind in kinds.items()})

    appender = lowlevel.stream_appender(client, encoding=EncodingRules(window_bytes=1))
    appender.add(batch(4, {}))
    with pytest.raises(RowsRefused, match=complaint.replace("'T'", f"'{topic}'")):
        appender.add(batch(1, columns))
    # Four, unless they still waited for more that would share their request.
    assert appender.settle() == client.read(topic).num_rows


def test_a_record_that_is_too_large_is_told_with_its_size(client: Client, topic: str) -> None:
    appender = lowlevel.stream_appender(client, topic)
    appender.add(rows(value=["small", "x" * 2_000_000], partition=[0, 1]))
    complaint = rf"'{topic}' partition 1: message_too_large.*2000\d\d\d bytes"
    with pytest.raises(DeliveryFailed, match=complaint):
        appender.finish()
    assert appender.settle() == 1


def test_a_topic_that_is_not_there(client: Client) -> None:
    appender = lowlevel.stream_appender(client, "no such")
    appender.add(rows(value=["v"]))
    with pytest.raises(ClientError, match="no such"):
        appender.finish()


def checksum(appender: StreamAppender, batches: list[pa.RecordBatch]) -> int:
    for each in batches:
        appender.add(each)
    return appender.finish().checksum


def test_the_checksum_is_that_of_the_rows(client: Client, topic: str) -> None:
    encoding = EncodingRules(with_checksum=True, window_bytes=3_000)
    table = pa.table({"key": [f"{n % 7}" for n in range(1_000)], "value": map(str, range(1_000))})
    whole = checksum(lowlevel.stream_appender(client, topic, encoding=encoding), table.to_batches())
    backwards = table.take(list(reversed(range(1_000)))).to_batches(max_chunksize=33)
    assert checksum(lowlevel.stream_appender(client, topic, encoding=encoding), backwards) == whole
    fewer = table.slice(1).to_batches()
    assert checksum(lowlevel.stream_appender(client, topic, encoding=encoding), fewer) != whole


def test_nothing_to_append(client: Client, topic: str) -> None:
    appender = lowlevel.stream_appender(client, topic)
    appender.add(rows(value=pa.array([], pa.string())))
    report = appender.finish()
    assert (report.record_count, report.size_bytes, report.partitions) == (0, 0, {})


def test_in_a_transaction(client: Client, topic: str, other_topic: str) -> None:
    table = pa.table({"topic": [topic, other_topic] * 500, "value": map(str, range(1_000))})

    def committed() -> int:
        topics = (topic, other_topic)
        return sum(client.read(each, isolation="read_committed").num_rows for each in topics)

    for ends_by, expected in (("abort", 0), ("commit", 1_000)):
        transaction = client.transaction(f"{topic}-transaction")
        appender = lowlevel.stream_appender(transaction, encoding=EncodingRules(window_bytes=1_000))
        for piece in pieces(table, 40):
            appender.add(piece)
        report = appender.finish()
        assert report.record_count == 1_000
        assert client.read(topic, isolation="read_committed").num_rows == 0
        getattr(transaction, ends_by)()
        # Kafka answers before the markers are written.
        wait_until(lambda wanted=expected: committed() == wanted, f"what the {ends_by} leaves")
    with pytest.raises(ClientError, match="it has ended"):
        lowlevel.stream_appender(transaction, topic)


def test_a_transaction_that_has_lost_rows_cannot_be_committed(client: Client, topic: str) -> None:
    """Though its program has seen the error, and went on: what came after the rows is written."""
    transaction = client.transaction(f"{topic}-transaction")
    appender = lowlevel.stream_appender(transaction, topic, encoding=SMALL)
    with pytest.raises(RowsRefused):
        appender.add(rows(value=["lost"], timestamp=[-2]))
    appender.add(rows(value=["kept"], timestamp=[5]))
    assert appender.finish().record_count == 1
    assert appender.is_unfinished
    with pytest.raises(TransactionFailed, match="has failed"):
        transaction.commit()
    transaction.abort()


def test_partitions_that_were_added_meanwhile(address: str, client: Client, topic: str) -> None:
    """A client lives long, and another program gives the topic more partitions."""
    table = pa.table({"value": ["a", "b"], "partition": pa.array([0, 2], pa.int32())})
    client.append(table, topic, partition="partition")
    appender = lowlevel.stream_appender(client, topic, encoding=EncodingRules(window_bytes=1))
    appender.add(table.to_batches()[0])
    with drumlin.connect(address) as other:
        other.add_partitions(topic, 5)
    more = pa.table({"value": ["c", "d"], "partition": pa.array([0, 4], pa.int32())})
    appender.add(more.to_batches()[0])
    assert set(appender.finish().partitions) == {(topic, 0), (topic, 2), (topic, 4)}
    assert set(client.append(more, topic, partition="partition").partitions) == {0, 4}


def test_columns_that_are_missing_or_of_a_wrong_kind(client: Client, topic: str) -> None:
    with pytest.raises(RowsRefused, match=r"no column 'value'; they have .'key'"):
        lowlevel.stream_appender(client, topic, encoding=SMALL).add(rows(key=["a"]))
    with pytest.raises(pa.ArrowInvalid, match="parse"):
        lowlevel.stream_appender(client, topic, encoding=SMALL).add(
            rows(value=["a"], timestamp=["noon"])
        )
    far = pa.array([2**62], pa.timestamp("s"))
    with pytest.raises(pa.ArrowInvalid, match="out of bounds"):
        lowlevel.stream_appender(client, topic, encoding=SMALL).add(
            rows(value=["a"], timestamp=far)
        )
    names = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array([topic, None]))
    with pytest.raises(RowsRefused, match="row 1 has no topic"):
        lowlevel.stream_appender(client, encoding=SMALL).add(rows(value=["a", "b"], topic=names))
    appender = lowlevel.stream_appender(client, encoding=EncodingRules(with_checksum=True))
    appender.add(rows(value=["a"], topic=[topic.encode()]))
    assert appender.finish().record_count == 1
