"""Reading into Arrow: what comes out is what was appended, wherever one starts and ends."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from drumlin import lowlevel
from drumlin.client.client import Client
from drumlin.client.errors import ClientError, LogEndsEarly, OffsetOutOfRange, UnknownTopic
from drumlin.client.read.log_samples import LogPlace
from drumlin.client.read.range_stream import OffsetRange, RangeStream
from drumlin.client.read.reader import ReadOptions
from drumlin.client.transactions.transaction import Transaction
from drumlin.records.columns.columns import HEADERS_TYPE, RECORD_SCHEMA

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def records(count: int) -> pa.Table:
    """Rows with and without keys, values and headers, and with times of their own."""
    return pa.table(
        {
            "key": pa.array([None if i % 7 == 0 else b"key %d" % i for i in range(count)]),
            "value": pa.array([None if i % 5 == 0 else b"%d" % i * 9 for i in range(count)]),
            "timestamp": pa.array(
                [1_600_000_000_000 + i * 10 for i in range(count)], pa.timestamp("ms", "UTC")
            ),
            "headers": pa.array(
                [[("n", b"%d" % i), ("ö", None)][: i % 3] for i in range(count)], HEADERS_TYPE
            ),
        }
    )


def append(
    client: Client | Transaction, topic: str, partition: int, table: pa.Table, **options: Any
) -> None:
    client.append(table, topic, partition=lambda data, count: [partition] * len(data), **options)


@pytest.mark.parametrize("compression", CODECS)
def test_what_was_appended_is_read(client: Client, topic: str, compression: str) -> None:
    wanted = records(500)
    append(client, topic, 1, wanted, compression=compression, batch_bytes=3_000)
    found = client.read(topic, headers=True)
    assert found["offset"].to_pylist() == list(range(500))
    assert set(found["partition"].to_pylist()) == {1}
    assert set(found["timestamp_type"].to_pylist()) == {0}
    assert found.select(wanted.column_names).to_pylist() == wanted.to_pylist()


def test_start_and_end(client: Client, topic: str) -> None:
    append(client, topic, 0, records(100), batch_bytes=1_000)

    def offsets(**places: Any) -> list[int]:
        found: list[int] = client.read(topic, [0], **places)["offset"].to_pylist()
        return found

    assert offsets(start=10, end=13) == [10, 11, 12]
    assert offsets(start=97, end=1_000_000) == [97, 98, 99]
    assert offsets(start="latest") == []
    assert offsets(start=100) == []
    assert offsets(start=5, end=5) == []
    assert offsets(start=5, end=3) == []
    assert offsets(start={0: 98}) == [98, 99]
    time = datetime.fromtimestamp(1_600_000_000.95, UTC)
    assert offsets(start=time) == [95, 96, 97, 98, 99]
    assert offsets(end=time) == list(range(95))
    assert offsets(start=datetime.now(UTC)) == []


def test_partitions_come_one_after_the_other(client: Client, topic: str) -> None:
    for partition in range(3):
        append(client, topic, partition, records(50), batch_bytes=500)
    found = client.read(topic, columns=["partition", "offset"])
    pairs = list(zip(*(found[name].to_pylist() for name in found.column_names), strict=True))
    assert pairs == [(partition, offset) for partition in range(3) for offset in range(50)]
    assert client.read(topic, [2, 0])["partition"].unique().to_pylist() == [2, 0]


def test_batches_are_of_bounded_size(client: Client, topic: str) -> None:
    append(client, topic, 0, records(2_000), batch_bytes=2_000)
    batches = list(client.read_batches(topic, max_bytes_per_batch=8_000))
    assert len(batches) > 5
    assert max(batch.nbytes for batch in batches) < 16_000
    assert sum(batch.num_rows for batch in batches) == 2_000


def test_a_batch_larger_than_a_fetch_is_read(client: Client, topic: str) -> None:
    append(client, topic, 0, records(2_000))
    found = client.read(topic, max_bytes_per_batch=100)
    assert found.num_rows == 2_000


def test_records_stay_when_fetch_memory_is_used_again(client: Client, topic: str) -> None:
    wanted = pa.table({"value": [b"%06d" % number * 20 for number in range(25_000)]})
    append(client, topic, 0, wanted, batch_bytes=100_000)
    batches = list(client.read_range(topic, 0, 0, 25_000, max_bytes_per_batch=300_000))
    assert len(batches) > 8
    found = [value for batch in batches for value in batch["value"].to_pylist()]
    assert found == wanted["value"].to_pylist()


def test_the_schema_is_there_without_records(client: Client, topic: str) -> None:
    assert client.read(topic).schema == RECORD_SCHEMA
    assert client.read(topic, headers=True).schema.names == [*RECORD_SCHEMA.names, "headers"]
    assert client.read(topic, columns=["value"]).schema.names == ["value"]
    with pytest.raises(ValueError, match="no such columns: \\['price'\\]"):
        client.read(topic, columns=["price"])


def test_offsets_outside_the_log_are_named(client: Client, topic: str) -> None:
    append(client, topic, 2, records(10))
    expected = f"'{topic}' partition 2: offset 11 .* 0 to 10"
    with pytest.raises(OffsetOutOfRange, match=expected) as error:
        client.read(topic, [2], start=11)
    assert (error.value.offset, error.value.log_start_offset, error.value.end_offset) == (11, 0, 10)
    with pytest.raises(OffsetOutOfRange, match=expected):
        list(client.read_range(topic, 2, 11, 12))


def test_one_range_by_its_values(client: Client, topic: str) -> None:
    append(client, topic, 0, pa.table({"value": list("abcde")}))
    wanted = OffsetRange(topic, 0, 1, 4)
    batches = lowlevel.read_range(client, wanted, ReadOptions(columns=["offset"]))
    assert [each for batch in batches for each in batch["offset"].to_pylist()] == [1, 2, 3]


def test_ranges_are_read_one_by_one_and_fail_one_by_one(client: Client, topic: str) -> None:
    append(client, topic, 0, records(3_000))
    append(client, topic, 1, records(20))
    ranges = [OffsetRange(topic, 0, start, start + 7) for start in range(0, 2_800, 70)]
    ranges[3:3] = [OffsetRange(topic, 1, 21, 22)]
    ranges += [OffsetRange(topic, 1, 0, 20, fetch_bytes=1), OffsetRange(topic, 0, 0, 3_000)]
    found = []
    for wanted, batches in lowlevel.read_ranges(client, ranges, ReadOptions(columns=["offset"])):
        try:
            offsets = [each for batch in batches for each in batch["offset"].to_pylist()]
        except OffsetOutOfRange as error:
            assert (wanted.partition, error.offset) == (1, 21)
            continue
        assert offsets == list(range(wanted.start_offset, wanted.end_offset))
        found.append(wanted)
    assert found == [each for each in ranges if each.start_offset != 21]


def test_a_range_is_over_when_the_next_is_asked_for(client: Client, topic: str) -> None:
    append(client, topic, 0, records(10))
    ranges = [OffsetRange(topic, 0, 0, 5), OffsetRange(topic, 0, 5, 10)]
    for _, batches in list(lowlevel.read_ranges(client, ranges)):
        with pytest.raises(ClientError, match=f"'{topic}' partition 0: no longer readable"):
            next(batches)


def test_samples_tell_how_dense_a_log_is(client: Client, topic: str) -> None:
    append(client, topic, 0, pa.table({"value": [b"x" * 100] * 5_000}), batch_bytes=4_000)
    append(client, topic, 0, pa.table({"value": [b"x" * 50_000] * 10}))
    places = [LogPlace(topic, 0, 17), LogPlace(topic, 0, 5_008), LogPlace(topic, 0, 5_010)]
    found = lowlevel.sample_logs(
        client, [*places, LogPlace(topic, 1, 0), LogPlace("nowhere", 0, 0)]
    )
    assert found.keys() == set(places[:2]), "there is nothing at the end of a log"
    small, large = (found[place] for place in places[:2])
    assert small.start_offset <= 17 < small.end_offset < 5_000
    assert 100 < small.bytes_per_offset < 120
    assert 50_000 < large.bytes_per_offset < 50_100


def test_a_sample_at_the_end_of_a_transaction_tells_of_its_records(
    client: Client, topic: str
) -> None:
    with client.transaction(topic) as transaction:
        append(transaction, topic, 0, pa.table({"value": [b"x" * 50_000] * 10}))
    marker = LogPlace(topic, 0, client.offsets(topic)[0] - 1)
    assert lowlevel.sample_logs(client, [marker])[marker].bytes_per_offset > 40_000


def test_a_range_beyond_the_end_gives_up(address: str, topic: str) -> None:
    import drumlin

    with drumlin.connect(address, request_timeout_ms=1_000) as client:
        append(client, topic, 0, records(10))
        rows = []
        with pytest.raises(LogEndsEarly, match=f"'{topic}' partition 0: .* offset 10.* to 12"):
            rows.extend(client.read_range(topic, 0, 8, 12))
        assert sum(batch.num_rows for batch in rows) == 2


def test_unknown_topics_and_partitions(client: Client, topic: str) -> None:
    with pytest.raises(UnknownTopic, match="client-nowhere"):
        client.read("client-nowhere")
    with pytest.raises(UnknownTopic, match=f"{topic}.*partition 3"):
        client.read(topic, [3])


def test_a_reader_that_is_given_up_does_not_disturb(client: Client, topic: str) -> None:
    append(client, topic, 0, records(2_000), batch_bytes=2_000)
    batches = client.read_batches(topic, max_bytes_per_batch=4_000)
    next(batches)
    batches.close()
    assert client.read(topic).num_rows == 2_000


def test_a_fault_of_the_fetcher_is_raised_to_the_reader(
    client: Client, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.append(pa.table({"value": [b"v"]}), topic)

    async def broken(self: RangeStream, offset: int, max_bytes: int) -> None:
        raise RuntimeError("not today")

    monkeypatch.setattr(RangeStream, "_fetch", broken)
    with pytest.raises(RuntimeError, match="not today"):
        client.read(topic)
