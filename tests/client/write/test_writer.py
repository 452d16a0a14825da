"""Records one by one: when a batch is closed, where a record goes, and what happens when full."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow.compute as pc
import pytest

import drumlin
from client.write.flaky_log import FlakyLog, answer, values
from drumlin.client.client import Client
from drumlin.client.errors import BufferFull, ClientError, DeliveryFailed, RequestTimedOut
from drumlin.client.write import partition_sender, too_large
from drumlin.wire.error_codes import ErrorCode
from rig.brokers.scripted_broker import ScriptedBroker, Silence
from rig.waiting import wait_until

NEVER_MS = 1_000_000


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 4}) as broker:
        yield broker


@pytest.fixture
def log(broker: ScriptedBroker) -> FlakyLog:
    return FlakyLog(broker, iter(()))


@pytest.fixture
def lone_client(broker: ScriptedBroker) -> Iterator[Client]:
    with drumlin.connect(broker.address, retry_backoff_ms=2) as client:
        yield client


def counts(log: FlakyLog) -> list[int]:
    return [header.record_count for header in log.headers]


def test_a_broker_gets_what_was_sent(client: Client, topic: str) -> None:
    with client.writer(topic, compression="zstd") as writer:
        first = writer.send("ünï", key="a", headers={"h": b"1", "n": None}, timestamp=1_234)
        writer.send(None, key=b"\xff", partition=2)
        for number in range(100):
            writer.send(b"%d" % number, headers=[("i", b"%d" % number), ("i", None)])
    found = client.read(topic, headers=True)
    assert found.num_rows == 102
    one = found.filter(pc.equal(found["value"], "ünï".encode())).to_pylist()[0]
    assert first.result() == (topic, one["partition"], one["offset"], 1_234)
    assert one["headers"] == [{"key": "h", "value": b"1"}, {"key": "n", "value": None}]
    two = found.filter(pc.equal(found["key"], b"\xff")).to_pylist()[0]
    assert (two["partition"], two["value"]) == (2, None)
    rest = found.filter(pc.is_null(found["key"])).to_pylist()
    assert {each["value"]: each["headers"] for each in rest} == {
        b"%d" % i: [{"key": "i", "value": b"%d" % i}, {"key": "i", "value": None}]
        for i in range(100)
    }


def test_a_batch_is_closed_by_bytes(log: FlakyLog, lone_client: Client) -> None:
    with lone_client.writer("t", batch_bytes=1_000, linger_ms=NEVER_MS) as writer:
        for _ in range(20):
            writer.send(b"x" * 226, partition=0)
        wait_until(lambda: len(log.headers) == 5, "five batches")
    assert counts(log) == [4] * 5


def test_a_batch_is_closed_by_count(log: FlakyLog, lone_client: Client) -> None:
    with lone_client.writer("t", max_records=3, linger_ms=NEVER_MS) as writer:
        for number in range(7):
            writer.send(b"%d" % number, partition=0)
        wait_until(lambda: len(log.headers) == 2, "two batches")
    assert counts(log) == [3, 3, 1]


def test_a_batch_is_closed_by_time(log: FlakyLog, lone_client: Client) -> None:
    writer = lone_client.writer("t", linger_ms=1)
    assert writer.send(b"alone").result(timeout_ms=10_000).offset == 0
    writer.close()


def test_a_record_larger_than_a_batch_goes_alone(log: FlakyLog, lone_client: Client) -> None:
    with lone_client.writer("t", batch_bytes=100, linger_ms=NEVER_MS) as writer:
        writer.send(b"a", partition=0)
        writer.send(b"x" * 5_000, partition=0)
        writer.send(b"b", partition=0)
    assert counts(log) == [1, 1, 1]


def partitions_written(broker: ScriptedBroker) -> list[int]:
    return [
        each.index
        for request in broker.asked("produce")
        for each in request.topic_data[0].partition_data
    ]


def test_keyless_records_stay_together_for_a_batch(
    broker: ScriptedBroker, log: FlakyLog, lone_client: Client
) -> None:
    with lone_client.writer("t", max_records=10, linger_ms=NEVER_MS) as writer:
        for number in range(400):
            writer.send(b"%d" % number)
    assert counts(log) == [10] * 40
    assert set(partitions_written(broker)) == {0, 1, 2, 3}


def test_a_partitioner_of_ones_own(
    broker: ScriptedBroker, log: FlakyLog, lone_client: Client
) -> None:
    def last(key: bytes | None, partition_count: int) -> int:
        return partition_count - 1

    with lone_client.writer("t", partitioner=last) as writer:
        writer.send(b"v", key=b"k")
    assert partitions_written(broker) == [3]


def test_a_partition_that_does_not_exist(log: FlakyLog, lone_client: Client) -> None:
    with lone_client.writer("t") as writer, pytest.raises(ValueError, match="no partition 9"):
        writer.send(b"v", partition=9)


def test_partitions_that_are_added_are_written_to(client: Client, topic: str) -> None:
    with client.writer(topic, metadata_refresh_ms=1, max_records=1) as writer:
        client.add_partitions(topic, 5)

        def are_all_written() -> bool:
            writer.send(b"v").result(10_000)
            return len(set(client.read(topic)["partition"].to_pylist())) == 5

        wait_until(are_all_written, "the new partitions")
        where = {writer.send(b"v", key=b"%d" % each).result(10_000).partition for each in range(40)}
        assert where == {0, 1, 2, 3, 4}


def test_a_partition_that_was_added_is_found_when_it_is_asked_for(
    client: Client, topic: str
) -> None:
    def last(key: bytes | None, partition_count: int) -> int:
        return 4

    with client.writer(topic) as writer, client.writer(topic, partitioner=last) as other:
        client.add_partitions(topic, 5)
        assert writer.send(b"v", partition=3).result(10_000).partition == 3
        assert other.send(b"v").result(10_000).partition == 4


def test_partitions_are_not_asked_for_without_end(broker: ScriptedBroker, log: FlakyLog) -> None:
    with drumlin.connect(broker.address) as client, client.writer("t", max_records=1) as writer:
        before = len(broker.asked("metadata"))
        for number in range(200):
            writer.send(b"%d" % number)
        writer.flush()
        assert len(broker.asked("metadata")) == before


def test_a_topic_that_is_made_anew_with_fewer_partitions(
    broker: ScriptedBroker, log: FlakyLog, lone_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was for the others fails soon, and the writer continues with those that exist."""
    monkeypatch.setattr(partition_sender, "_MISSING_MAX_S", 0.05)

    def produce(shape: Any, request: Any) -> Any:
        index = request.topic_data[0].partition_data[0].index
        if index < broker.topics["t"]:
            return log.produce(shape, request)
        return answer(shape, request, ErrorCode.unknown_topic_or_partition)

    broker.script("produce", produce)
    with lone_client.writer("t", max_records=1) as writer:
        writer.send(b"v", partition=3).result(10_000)
        broker.topics["t"] = 2
        with pytest.raises(DeliveryFailed, match=r"no such partition, the topic has only 2"):
            writer.send(b"v", partition=3).result(10_000)

        def goes_well() -> bool:
            sent = [writer.send(b"v", key=b"%d" % each) for each in range(20)]
            try:
                return max(each.result(10_000).partition for each in sent) == 1
            except DeliveryFailed:
                return False

        wait_until(goes_well, "the new partitions to be known")
        with contextlib.suppress(DeliveryFailed):
            writer.flush()


def test_each_record_is_told_of(log: FlakyLog, lone_client: Client) -> None:
    told: list[Any] = []
    options = {"on_delivery": lambda delivered, error: told.append((delivered, error))}
    with lone_client.writer("t", **options) as writer:
        for number in range(3):
            writer.send(b"%d" % number, partition=1, timestamp=number)
    assert told == [(("t", 1, number, number), None) for number in range(3)]


def refuse(broker: ScriptedBroker) -> None:
    broker.script(
        "produce", lambda shape, request: answer(shape, request, ErrorCode.message_too_large)
    )


def test_a_failure_shows_at_flush(
    broker: ScriptedBroker, log: FlakyLog, lone_client: Client
) -> None:
    refuse(broker)
    writer = lone_client.writer("t")
    delivery = writer.send(b"v", partition=0)
    with pytest.raises(DeliveryFailed, match="'t' partition 0: message_too_large"):
        writer.flush()
    with pytest.raises(DeliveryFailed, match="message_too_large"):
        delivery.result()
    writer.flush()  # said once
    writer.close()


@pytest.mark.parametrize("answers", [True, False])
def test_a_failure_goes_to_whoever_wants_to_know(
    broker: ScriptedBroker,
    log: FlakyLog,
    lone_client: Client,
    answers: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refuse(broker)
    if not answers:
        broker.script("describe_configs", lambda shape, request: Silence())
        monkeypatch.setattr(too_large, "_ASKS_FOR_S", 0.05)
    told: list[Any] = []
    options = {"on_delivery": lambda delivered, error: told.append((delivered, str(error)))}
    with lone_client.writer("t", **options) as writer:
        writer.send(b"v", partition=0)
    cure = "a batch of 69 bytes: raise max.message.bytes of the topic"  # the limit is not to be had
    assert told == [(None, f"topic 't' partition 0: message_too_large: {cure}")]


def test_a_full_buffer_makes_senders_wait(
    broker: ScriptedBroker, log: FlakyLog, lone_client: Client
) -> None:
    free = threading.Event()
    produce = log.produce

    def when_free(shape: Any, request: Any) -> Any:
        free.wait(10)
        return produce(shape, request)

    broker.script("produce", when_free)
    writer = lone_client.writer("t", buffer_bytes=1_000, batch_bytes=300, max_block_ms=10_000)
    done = threading.Event()

    def send() -> None:
        for number in range(100):
            writer.send(b"%d" % number * 50, partition=0)
        done.set()

    sender = threading.Thread(target=send)
    sender.start()
    wait_until(lambda: broker.asked("produce"), "a first request")
    assert not done.is_set()
    free.set()
    sender.join()
    writer.close()
    assert values(log) == [b"%d" % number * 50 for number in range(100)]


def test_a_buffer_that_stays_full_is_an_error(
    broker: ScriptedBroker, log: FlakyLog, lone_client: Client
) -> None:
    broker.script("produce", lambda shape, request: Silence())
    writer = lone_client.writer("t", buffer_bytes=1_000, max_block_ms=50)
    writer.send(b"x" * 900)
    with pytest.raises(BufferFull, match="1000 bytes of buffer were full for 50 ms"):
        writer.send(b"x" * 900)
    with pytest.raises(RequestTimedOut, match="1 batches"):
        writer.flush(timeout_ms=50)


def test_a_closed_writer_takes_nothing(log: FlakyLog, lone_client: Client) -> None:
    writer = lone_client.writer("t")
    writer.close()
    writer.close()
    with pytest.raises(ClientError, match="closed"):
        writer.send(b"v")


def test_threads_may_share_a_writer(client: Client, topic: str) -> None:
    with client.writer(topic, batch_bytes=500, linger_ms=1) as writer:

        def send(thread: int) -> None:
            for number in range(300):
                writer.send(b"%d" % number, key=b"%d" % thread)

        threads = [threading.Thread(target=send, args=(each,)) for each in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    found = client.read(topic)
    for thread in range(4):
        mine = found.filter(pc.equal(found["key"], b"%d" % thread))
        assert mine["value"].to_pylist() == [b"%d" % number for number in range(300)]
