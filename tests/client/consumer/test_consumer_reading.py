"""A consumer by itself: what it gives, where it begins, and what it commits."""

from __future__ import annotations

import logging
import pickle
import random
import re
import threading
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from drumlin.client.admin.committed_offsets import OffsetAndMetadata
from drumlin.client.client import Client
from drumlin.client.consumer import Consumer, topic_of
from drumlin.client.errors import ClientError, NoCommittedOffset, OffsetOutOfRange
from rig.brokers.drumlin_server import DrumlinServer
from rig.waiting import wait_until

WAIT_MS = 20_000


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def single(group_client: Client) -> str:
    """A topic of one partition with the values 0 to 99, in ten record batches."""
    topic = f"single-{uuid.uuid4().hex[:8]}"
    group_client.create_topic(topic, 1)
    for start in range(0, 100, 10):
        append(group_client, topic, range(start, start + 10))
    return topic


def append(client: Client, topic: str, numbers: Any, **options: Any) -> None:
    client.append(pa.table({"value": [b"%d" % each for each in numbers]}), topic, **options)


def values(batch: pa.RecordBatch | None) -> list[int]:
    assert batch is not None, "nothing came in time"
    return [int(each) for each in batch.column("value").to_pylist()]


def read(consumer: Consumer, count: int) -> list[int]:
    found: list[int] = []

    def is_enough() -> bool:
        if len(found) < count:
            found.extend(values(consumer.poll(WAIT_MS)))
        return len(found) >= count

    wait_until(is_enough, f"{count} records", 60)
    return found


def committed_offset(client: Client, group: str, place: tuple[str, int]) -> int | None:
    with client.consumer(assign=[place], group=group, commit_interval_ms=None) as other:
        found = other.committed([place])
    return found[place].offset if place in found else None


# -- what it gives -----------------------------------------------------------------------------


def test_batches_have_the_columns_of_read(group_client: Client, group_topic: str) -> None:
    keys = [f"k{each}" for each in range(500)]
    data = pa.table({"key": keys, "value": keys})
    group_client.append(data, group_topic, batch_bytes=1000)
    consumer = group_client.consumer(group_topic, headers=True, idle_timeout_ms=1_000)
    with consumer:
        batches = list(consumer)
    found = pa.Table.from_batches(batches)
    expected = group_client.read(group_topic, headers=True)
    order = [("partition", "ascending"), ("offset", "ascending")]
    assert found.sort_by(order).to_pylist() == expected.sort_by(order).to_pylist()
    assert found.schema.equals(expected.schema)
    assert {topic_of(each) for each in batches} == {group_topic}
    for partition in range(4):
        offsets = [row["offset"] for row in found.to_pylist() if row["partition"] == partition]
        assert offsets == sorted(offsets)


def test_several_topics_are_never_mixed(group_client: Client, group: str) -> None:
    topics = {f"{group}-{each}": each for each in range(3)}
    for topic, number in topics.items():
        group_client.create_topic(topic, 2)
        append(group_client, topic, [number] * 20, batch_bytes=100)
    with group_client.consumer(list(topics), group=group, columns=["value"]) as consumer:
        seen = 0
        while seen < 60:
            batch = consumer.poll(WAIT_MS)
            assert set(values(batch)) == {topics[topic_of(batch)]}
            assert batch.schema.names == ["value"]
            seen += batch.num_rows


@pytest.mark.parametrize("has_group", [True, False])
def test_a_pattern_takes_topics_that_come_later(
    group_client: Client, group: str, has_group: bool
) -> None:
    first, second, other = f"{group}-a", f"{group}-b", f"x{group}-a"
    for topic in (first, other):
        group_client.create_topic(topic, 1)
        append(group_client, topic, [1])
    pattern = re.compile(re.escape(group) + "-.*")
    name = group if has_group else None
    with group_client.consumer(pattern, group=name, metadata_refresh_ms=100) as consumer:
        assert topic_of(consumer.poll(WAIT_MS)) == first
        if has_group:
            group_client.create_topic(second, 1)
            append(group_client, second, [2])
            assert read(consumer, 1) == [2]
            assert consumer.assignment == {(first, 0), (second, 0)}


def test_a_topic_that_is_not_there_yet(
    group_client: Client, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    with group_client.consumer([group], group=group, metadata_refresh_ms=100) as consumer:
        assert consumer.poll(300) is None
        group_client.create_topic(group, 1)
        append(group_client, group, [7])
        assert read(consumer, 1) == [7]
    said = [each.getMessage() for each in caplog.records if "does not exist" in each.getMessage()]
    assert said == [f"topic '{group}' does not exist; group '{group}' waits for it"]  # once


def test_max_records_cuts_batches_and_positions(
    group_client: Client, single: str, group: str
) -> None:
    with group_client.consumer(single, group=group, max_records=7) as consumer:
        assert values(consumer.poll(WAIT_MS)) == list(range(7))
        assert consumer.position(single, 0) == 7
        assert values(consumer.poll(WAIT_MS)) == list(range(7, 14))
    assert committed_offset(group_client, group, (single, 0)) == 14
    with group_client.consumer(single, group=group, max_records=3) as consumer:
        assert values(consumer.poll(WAIT_MS)) == [14, 15, 16]


def test_a_buffer_smaller_than_what_there_is(group_client: Client, group_topic: str) -> None:
    value = bytes(50_000)
    data = pa.table({"value": [value] * 200})
    group_client.append(data, group_topic, batch_bytes=200_000)
    options = {"buffer_bytes": 100_000, "max_bytes_per_batch": 100_000, "idle_timeout_ms": 3_000}
    rows = 0
    with group_client.consumer(group_topic, **options) as consumer:
        for batch in consumer:
            rows += batch.num_rows
            if rows == 200:
                break
    assert rows == 200


# -- where it begins ---------------------------------------------------------------------------


def test_places_to_start(group_client: Client, single: str, group: str) -> None:
    with group_client.consumer(single, group=group, start="latest") as consumer:
        while not consumer.assignment:
            assert consumer.poll(50) is None
        assert consumer.position(single, 0) == 100
    soon = datetime.now(UTC) + timedelta(minutes=20)
    late = pa.array([soon], pa.timestamp("ms", tz="UTC"))
    group_client.append(pa.table({"value": [b"100"], "timestamp": late}), single)
    start = soon - timedelta(minutes=10)
    with group_client.consumer(single, start=start) as consumer:
        assert values(consumer.poll(WAIT_MS)) == [100]
    with group_client.consumer(single, group=group) as consumer:  # continues at what is committed
        assert values(consumer.poll(WAIT_MS)) == [100]


def test_nothing_committed_is_an_error_if_wanted(
    group_client: Client, single: str, group: str
) -> None:
    with group_client.consumer(single, group=group, start="committed") as consumer:
        with pytest.raises(NoCommittedOffset, match=single):
            consumer.poll(WAIT_MS)
        consumer.seek(single, 0, 95)
        assert read(consumer, 5) == [95, 96, 97, 98, 99]


def test_an_offset_that_is_gone_is_told(
    group_broker: DrumlinServer,
    group_client: Client,
    single: str,
    group: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with group_broker.connect() as raw:
        topic = {"name": single, "partitions": [{"partition_index": 0, "offset": 40}]}
        raw.ask("delete_records", 2, topics=[topic], timeout=5_000)
    place = (single, 0)
    with group_client.consumer(assign=[place], group=group) as consumer:
        consumer.seek(single, 0, 3)
        for _ in range(2):
            with pytest.raises(OffsetOutOfRange) as caught:
                consumer.poll(WAIT_MS)
        assert (caught.value.offset, caught.value.log_start_offset) == (3, 40)
        consumer.seek(single, 0, "earliest")
        assert values(consumer.poll(WAIT_MS))[0] == 40
    resets: list[Any] = []
    options: dict[str, Any] = {
        "out_of_range": "latest",
        "on_reset": lambda *each: resets.append(each),
    }
    with group_client.consumer(assign=[place], **options) as consumer:
        consumer.seek(single, 0, 1_000)
        with caplog.at_level(logging.WARNING, "drumlin.client.consumer"):
            while not resets:
                assert consumer.poll(100) is None
        assert resets == [(place, 1_000, 100)]
        assert "offset 1000 is not in the log, continuing at 100" in caplog.text
        append(group_client, single, [100])
        assert values(consumer.poll(WAIT_MS)) == [100]


# -- what it commits ---------------------------------------------------------------------------


def test_a_batch_counts_when_the_next_is_asked_for(
    group_client: Client, single: str, group: str
) -> None:
    consumer = group_client.consumer(single, group=group, max_records=10, commit_interval_ms=20)
    place = (single, 0)
    with pytest.raises(ZeroDivisionError), consumer:
        assert values(consumer.poll(WAIT_MS))[-1] == 9
        assert values(consumer.poll(WAIT_MS))[-1] == 19
        wait_until(
            lambda: committed_offset(group_client, group, place) == 10, "the commit of the first"
        )
        1 / 0  # noqa: B018 - the work on the second batch fails
    assert committed_offset(group_client, group, place) == 10
    with group_client.consumer(single, group=group, max_records=10) as consumer:
        assert values(consumer.poll(WAIT_MS))[0] == 10
    assert committed_offset(group_client, group, place) == 20


def test_at_most_once_commits_before_it_gives(
    group_client: Client, single: str, group: str
) -> None:
    options: dict[str, Any] = {"delivery": "at_most_once", "max_records": 10}
    with group_client.consumer(single, group=group, **options) as consumer:
        for end in (10, 20):
            assert values(consumer.poll(WAIT_MS))[-1] == end - 1
            assert committed_offset(group_client, group, (single, 0)) == end


def test_commits_on_request(group_client: Client, single: str, group: str) -> None:
    place = (single, 0)
    with group_client.consumer(
        single, group=group, commit_interval_ms=None, max_records=10
    ) as consumer:
        assert consumer.committed([place]) == {}
        values(consumer.poll(WAIT_MS))
        consumer.commit()
        assert consumer.committed()[place].offset == 10
        values(consumer.poll(WAIT_MS))
        consumer.commit_async().result(20)
        assert consumer.committed()[place].offset == 20
        consumer.commit({place: OffsetAndMetadata(5, "halfway through")})
        assert consumer.committed()[place][:2] == (5, "halfway through")
        consumer.commit({place: 6})
        assert consumer.positions()[place].offset == 20
        metadata = consumer.group_metadata()
        assert (metadata.group_id, metadata.generation_id) == (group, 1)
    assert committed_offset(group_client, group, place) == 6


def test_without_membership(group_client: Client, single: str, group: str) -> None:
    place = (single, 0)
    with group_client.consumer(assign=[place], group=group) as consumer:
        assert read(consumer, 100) == list(range(100))
    assert committed_offset(group_client, group, place) == 100
    with group_client.consumer(single) as consumer:
        assert read(consumer, 100) == list(range(100))
        with pytest.raises(ClientError, match="no group"):
            consumer.commit()
        with pytest.raises(ClientError, match="no group"):
            consumer.group_metadata()


def test_a_reader_of_transactions_passes_what_was_aborted(
    group_broker: DrumlinServer, group_client: Client, group: str
) -> None:
    group_client.create_topic(group, 1)
    producer = Producer({"bootstrap.servers": group_broker.address, "transactional.id": group})
    producer.init_transactions(20)
    for start, commits in ((0, True), (10, False), (20, True), (30, False)):
        producer.begin_transaction()
        for each in range(start, start + 10):
            producer.produce(group, b"%d" % each, partition=0)
        producer.flush(20)
        (producer.commit_transaction if commits else producer.abort_transaction)(20)
    with group_client.consumer(group, group=group, isolation="read_committed") as consumer:
        assert read(consumer, 20) == [*range(10), *range(20, 30)]

        def is_at_the_end() -> bool:
            assert consumer.poll(100) is None
            return bool(consumer.position(group, 0) == 44)  # past the last marker

        wait_until(is_at_the_end, "it to come to the end")
        assert consumer.lag() == {(group, 0): 0}
    assert committed_offset(group_client, group, (group, 0)) == 44
    with group_client.consumer(group) as consumer:
        assert read(consumer, 40) == list(range(40))


# -- steering ----------------------------------------------------------------------------------


def test_seek_goes_back_and_forth(group_client: Client, single: str, group: str) -> None:
    with group_client.consumer(single, group=group) as consumer:
        assert read(consumer, 100) == list(range(100))
        consumer.seek(single, 0, 90)
        assert read(consumer, 10) == list(range(90, 100))
        consumer.seek(single, 0, "earliest")
        assert read(consumer, 100) == list(range(100))
        consumer.seek(single, 0, OffsetAndMetadata(97, "", 0))
        assert read(consumer, 3) == [97, 98, 99]
        consumer.seek(single, 0, "latest")
        assert consumer.position(single, 0) == 100
        append(group_client, single, [100])
        assert read(consumer, 1) == [100]
        with pytest.raises(ClientError, match="not assigned"):
            consumer.seek(single, 1, 0)


def test_random_steps_keep_the_order(group_client: Client, group_topic: str, group: str) -> None:
    """Whatever is sought, paused and resumed: the next batch begins where it must."""
    spread = {"partition": lambda data, count: pa.array([e % count for e in range(data.num_rows)])}
    for _ in range(5):
        data = pa.table({"value": [bytes(100)] * 4_000})
        group_client.append(data, group_topic, batch_bytes=20_000, **spread)
    chance = random.Random(5)
    expected = dict.fromkeys(range(4), 0)
    paused: set[int] = set()
    options = {"max_bytes_per_batch": 30_000, "buffer_bytes": 150_000, "max_records": 500}
    with group_client.consumer(group_topic, group=group, **options) as consumer:
        given = 0
        while given < 150:
            partition = chance.randrange(4)
            place = (group_topic, partition)
            what = chance.random() if consumer.assignment else 1
            if what < 0.1:
                expected[partition] = chance.randrange(4_500)
                consumer.seek(*place, expected[partition])
            elif what < 0.15:
                consumer.pause([place])
                paused.add(partition)
            elif what < 0.25:
                consumer.resume([place])
                paused.discard(partition)
            else:
                batch = consumer.poll(1 if len(paused) == 4 else 100)
                if batch is None:
                    continue
                given += 1
                partition = batch.column("partition")[0].as_py()
                assert partition not in paused
                start = expected[partition]
                expected[partition] = start + batch.num_rows
                assert batch.column("offset").to_pylist() == list(range(start, expected[partition]))
                assert consumer.position(group_topic, partition) == expected[partition]
                if expected[partition] == 5_000:
                    expected[partition] = 0
                    consumer.seek(group_topic, partition, "earliest")


def test_a_seek_in_on_assigned_counts(group_client: Client, single: str, group: str) -> None:
    consumers: list[Consumer] = []

    def rewind(partitions: frozenset[tuple[str, int]]) -> None:
        for topic, partition in partitions:
            consumers[0].seek(topic, partition, 50)

    consumers.append(group_client.consumer(single, group=group, on_assigned=rewind))
    with consumers[0] as consumer:
        assert read(consumer, 50) == list(range(50, 100))


def test_pause_and_resume(group_client: Client, group_topic: str, group: str) -> None:
    rows = pa.table({"value": [b"%d" % (each % 4) for each in range(400)]})
    by_row = {"partition": lambda data, count: pa.array([e % count for e in range(data.num_rows)])}
    group_client.append(rows, group_topic, **by_row)
    with group_client.consumer(group_topic, group=group, max_records=20) as consumer:
        first = values(consumer.poll(WAIT_MS))[0]
        others = [(group_topic, each) for each in range(4) if each != first]
        consumer.pause(others)
        assert consumer.paused == set(others)
        assert read(consumer, 80) == [first] * 80
        assert consumer.poll(300) is None
        consumer.resume(others[:1])
        assert read(consumer, 100) == [others[0][1]] * 100
        consumer.resume()
        assert sorted(read(consumer, 200)) == sorted([each for _, each in others[1:]] * 100)


# -- what must not be done ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"protocol": "modern"}, "protocol"),
        ({"assignors": ["alphabetical"]}, "assignors"),
        ({"assignors": []}, "assignors"),
        ({"start": "middle"}, "start"),
        ({"start": datetime(2026, 1, 1)}, "time zone"),
        ({"out_of_range": "ignore"}, "out_of_range"),
        ({"delivery": "exactly_once"}, "delivery"),
        ({"columns": ["colour"]}, "colour"),
        ({"max_records": 0}, "max_records"),
        ({"heartbeat_interval_ms": 50_000}, "heartbeat_interval_ms"),
    ],
)
def test_options_that_make_no_sense(
    group_client: Client, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        group_client.consumer("t", group="g", **options)


def test_what_to_read_is_said_once(group_client: Client) -> None:
    with pytest.raises(ValueError, match="either"):
        group_client.consumer("t", assign=[("t", 0)])
    with pytest.raises(ValueError, match="either"):
        group_client.consumer(group="g")
    with pytest.raises(ValueError, match="no topics"):
        group_client.consumer([])


@pytest.fixture
def polled_elsewhere(group_client: Client, group_topic: str) -> Iterator[Consumer]:
    """A consumer that another thread waits in."""
    consumer = group_client.consumer(group_topic)
    ended: list[BaseException] = []

    def poll() -> None:
        try:
            consumer.poll()
        except ClientError as error:
            ended.append(error)

    thread = threading.Thread(target=poll)
    thread.start()
    wait_until(lambda: consumer.assignment, "it to read")
    yield consumer
    consumer.close()
    thread.join(20)
    assert "closed" in str(ended[0])


def test_one_thread_polls_at_a_time(polled_elsewhere: Consumer) -> None:
    with pytest.raises(ClientError, match="another thread"):
        polled_elsewhere.poll(0)
    assert len(polled_elsewhere.positions()) <= 4


def test_a_closed_consumer_says_so(group_client: Client, group_topic: str) -> None:
    consumer = group_client.consumer(group_topic, group="closed")
    with pytest.raises(TypeError, match="belongs"):
        pickle.dumps(consumer)
    consumer.close()
    consumer.close()
    with pytest.raises(ClientError, match="closed"):
        consumer.poll(0)
    assert list(consumer) == []
