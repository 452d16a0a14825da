"""Transactions as the partitions see them: what enters a log, what is read, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.conftest import Ask
from broker.in_process import running
from broker.raw_transactions import CONTROL, TRANSACTIONAL, RawProducer
from drumlin.broker.start.broker import Broker
from drumlin.broker.topics.topics import create_automatically
from drumlin.records.plain.record import decode_records
from drumlin.wire.uvarint import uvarint
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.batches import batch
from rig.data.raw import Closed, RawClient
from rig.waiting import wait_until

Create = Callable[..., str]
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
CLASSIC = [3, 9, 11]
V2 = 12


@pytest.fixture
def producer(server: DrumlinServer, topic_name: Callable[[str], str]) -> Iterator[Any]:
    """Makes producers, each with a connection of its own."""
    clients = []

    def make(version: int, transactional_id: str | None = None) -> RawProducer:
        clients.append(server.connect())
        made = RawProducer(clients[-1], transactional_id or topic_name("tx"), version)
        made.init()
        return made

    yield make
    for client in clients:
        client.close()


def read(ask: Ask, topic: str, isolation_level: int, *, offset: int = 0) -> list[bytes | None]:
    """The values of all records that a consumer would see in partition 0."""
    answer = fetch(ask, topic, isolation_level, offset=offset)
    aborted = {each["producer_id"] for each in answer["aborted_transactions"] or ()}
    assert not aborted, "of these tests, those with aborted transactions look for themselves"
    return [record.value for record in decode_records(answer["records"] or b"")]


def fetch(
    ask: Ask, topic: str, isolation_level: int, *, offset: int = 0, **fields: int
) -> dict[str, Any]:
    part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    answer = ask(
        "fetch",
        11,
        replica_id=-1,
        isolation_level=isolation_level,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[{"topic": topic, "partitions": [part]}],
        **{"max_wait": 0, "min_bytes": 0, **fields},
    )
    (of_topic,) = answer["responses"]
    (of_partition,) = of_topic["partitions"]
    return dict(of_partition)


def last_stable_offset(ask: Ask, topic: str) -> int:
    """Where READ_COMMITTED readers' records end, as ListOffsets says."""
    return offset_at(ask, topic, -1, READ_COMMITTED)


def offset_at(ask: Ask, topic: str, timestamp: int, isolation_level: int) -> int:
    parts = [{"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1}]
    topics = [{"name": topic, "partitions": parts}]
    answer = ask("list_offsets", 7, replica_id=-1, isolation_level=isolation_level, topics=topics)
    return int(answer["topics"][0]["partitions"][0]["offset"])


def write_marker(
    ask: Ask, producer: RawProducer, topic: str, *, version: int = 2, **fields: Any
) -> str:
    """WriteTxnMarkers for partition 0, an abort unless told otherwise."""
    marker = {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "coordinator_epoch": 0,
        "transaction_result": False,
        "topics": [{"name": topic, "partition_indexes": [0]}],
        **fields,
    }
    (result,) = ask("write_txn_markers", version, markers=[marker])["markers"]
    assert result["producer_id"] == producer.producer_id
    (of_topic,) = result["topics"]
    (of_partition,) = of_topic["partitions"]
    return str(of_partition["error_code"])


# -- the ordinary way --------------------------------------------------------------------------


@pytest.mark.parametrize("version", [*CLASSIC, V2])
def test_records_count_when_their_transaction_commits(
    version: int, ask: Ask, create: Create, producer: Any
) -> None:
    topic, one = create(), producer(version)
    for number in range(3):
        if not one.is_v2:
            one.add(topic, 0)
        first = 0 if one.is_v2 else 4 * number
        for sequence in range(first, first + 4, 2):
            assert one.send(topic, sequence, sequence + 1)["error_code"] == "none"
        assert last_stable_offset(ask, topic) == 5 * number
        assert len(read(ask, topic, READ_UNCOMMITTED)) == 4 * (number + 1)
        assert len(read(ask, topic, READ_COMMITTED)) == 4 * number
        one.end()
        wait_until(lambda end=5 * (number + 1): last_stable_offset(ask, topic) == end, "a marker")
        assert len(read(ask, topic, READ_COMMITTED)) == 4 * (number + 1)


@pytest.mark.parametrize("version", [11, V2])
def test_an_aborted_transaction_is_named_to_readers(
    version: int, ask: Ask, create: Create, producer: Any
) -> None:
    topic, one = create(), producer(version)
    if not one.is_v2:
        one.add(topic, 0)
    one.send(topic, 0, 1)
    producer_id = one.producer_id
    one.end(commit=False)
    wait_until(lambda: last_stable_offset(ask, topic) == 3, "the marker")
    answer = fetch(ask, topic, READ_COMMITTED)
    assert answer["aborted_transactions"] == [{"producer_id": producer_id, "first_offset": 0}]
    assert fetch(ask, topic, READ_COMMITTED, offset=3)["aborted_transactions"] == []
    assert fetch(ask, topic, READ_UNCOMMITTED)["aborted_transactions"] is None


def test_what_is_looked_for_by_time_is_what_can_be_read(
    ask: Ask, create: Create, producer: Any
) -> None:
    topic, one = create(), producer(V2)
    one.send(topic, 0)
    assert offset_at(ask, topic, 0, READ_UNCOMMITTED) == 0
    assert offset_at(ask, topic, 0, READ_COMMITTED) == -1
    one.end()
    wait_until(lambda: offset_at(ask, topic, 0, READ_COMMITTED) == 0, "the marker")


def test_who_waits_for_committed_records_is_woken_by_the_marker(
    ask: Ask, server: DrumlinServer, create: Create, producer: Any
) -> None:
    topic, one = create(), producer(V2)
    one.send(topic, 0)
    with server.connect() as reader:
        part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        for _ in range(2):  # from the beginning, and from where the first transaction has ended
            reader.send(
                "fetch",
                11,
                replica_id=-1,
                isolation_level=READ_COMMITTED,
                max_wait=60_000,
                min_bytes=100,
                max_bytes=1 << 20,
                session_epoch=-1,
                topics=[{"topic": topic, "partitions": [part]}],
            )
            one.send(topic, 1)
            one.end()
            answer = reader.receive("fetch", 11)
            records = answer.responses[0].partitions[0].records
            assert [each.value for each in decode_records(records)][:2] == [b"0", b"1"]
            part["fetch_offset"] = last_stable_offset(ask, topic)
            one.send(topic, 0)


def test_a_duplicate_has_its_old_offset(create: Create, producer: Any) -> None:
    topic, one = create(), producer(11)
    one.add(topic, 0)

    def send() -> list[tuple[str, int]]:
        answers = [one.send(topic, sequence) for sequence in range(5)]
        return [(each["error_code"], each["base_offset"]) for each in answers]

    first = send()
    assert first == [("none", offset) for offset in range(5)]
    assert send() == first


# -- what is refused ---------------------------------------------------------------------------


def test_a_partition_that_is_not_in_the_transaction(
    ask: Ask, create: Create, producer: Any
) -> None:
    topic, one = create(partitions=2), producer(11)
    one.add(topic, 1)
    answer = one.send(topic, 0)
    assert answer["error_code"] == "transaction_abortable"
    assert (answer["base_offset"], answer["log_start_offset"]) == (-1, -1)
    one.version = 10  # which does not know that code
    answer = one.send(topic, 0)
    assert answer["error_code"] == "invalid_txn_state"
    assert answer["error_message"]
    assert fetch(ask, topic, READ_UNCOMMITTED)["high_watermark"] == 0
    assert one.send(topic, 0, partition=1)["error_code"] == "none"


def test_a_transaction_that_has_ended(create: Create, producer: Any) -> None:
    topic, one = create(), producer(10)
    one.add(topic, 0)
    one.send(topic, 0)
    one.end()
    wait_until(lambda: one.send(topic, 1)["error_code"] == "invalid_txn_state", "the end")


def test_a_producer_that_was_fenced(create: Create, producer: Any) -> None:
    topic, old = create(), producer(11)
    old.add(topic, 0)
    old.send(topic, 0)
    new = producer(11, old.transactional_id)
    assert (new.producer_id, new.epoch > old.epoch) == (old.producer_id, True)
    assert old.send(topic, 1)["error_code"] == "invalid_producer_epoch"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"transactional_id": None}, "transactional_id_authorization_failed"),
        ({"transactional_id": "unheard of"}, "invalid_producer_id_mapping"),
        ({"producer_id": 123_456}, "invalid_producer_id_mapping"),
        ({"producer_epoch": 77}, "invalid_producer_epoch"),
        ({"producer_epoch": -7}, "invalid_producer_epoch"),
        ({"base_sequence": -1}, "invalid_record"),
        ({"base_sequence": -(2**31)}, "invalid_record"),
        ({"extra_attributes": TRANSACTIONAL | CONTROL}, "invalid_record"),
        ({"extra_attributes": CONTROL}, "invalid_record"),
        ({"crc": 5}, "corrupt_message"),
    ],
)
def test_hostile_batches(
    change: dict[str, Any], code: str, ask: Ask, create: Create, producer: Any
) -> None:
    topic, one = create(), producer(11)
    one.add(topic, 0)
    assert one.send(topic, 0, **change)["error_code"] == code
    assert fetch(ask, topic, READ_UNCOMMITTED)["high_watermark"] == 0
    assert one.send(topic, 0)["error_code"] == "none"


_LONGEST = "x" * 32_767


class LongerIds(RawClient):
    """Sends a name of the longest length with one character more, which no encoder writes."""

    def send_bytes(self, data: bytes) -> None:
        longest, longer = (
            uvarint(len(name) + 1) + name.encode() for name in (_LONGEST, _LONGEST + "x")
        )
        data = data[4:].replace(longest, longer)
        super().send_bytes(len(data).to_bytes(4, "big") + data)


def test_questions_about_nobody_are_not_kept(tmp_path: Path) -> None:
    async def asked(broker: Broker, transactional_id: str) -> int:
        def send() -> None:
            with LongerIds(broker.listeners[0].port, "raw", 20) as client:
                one = RawProducer(client, transactional_id, V2)
                one.producer_id, one.epoch = 1_000_000, 0
                assert one.send("t", 0)["error_code"] != "none"

        await asyncio.to_thread(send)
        return len(broker.partitions.get("t", 0).log.producer_state._verifications)

    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_automatically(broker, "t")
            await broker.transactions.find_partition("id")
            assert [await asked(broker, each) for each in ("", _LONGEST, "id")] == [0, 0, 0]

    asyncio.run(main())


def test_internal_topics_are_not_for_producers(producer: Any, create: Create) -> None:
    one, topic = producer(3), create()
    for name in ("__transaction_state", "__consumer_offsets", "__share_group_state"):
        with pytest.raises(AssertionError, match="topic_authorization_failed"):
            one.add(name, 0)
    one.add(topic, 0)


def test_one_request_has_one_producer(create: Create, producer: Any) -> None:
    topic, one, other = create(partitions=2), producer(11), producer(11)
    request = one.request(topic, 0)
    request["topic_data"] += other.request(topic, 0, partition=1)["topic_data"]
    answer = one.ask("produce", 11, **request)
    codes = [part["error_code"] for of in answer["responses"] for part in of["partition_responses"]]
    assert codes == ["invalid_producer_id_mapping"] * 2


def test_without_acks_a_refusal_closes_the_connection(create: Create, producer: Any) -> None:
    topic, one = create(), producer(11)
    one.client.send("produce", 11, **one.request(topic, 0, acks=0))
    with pytest.raises(Closed):
        one.client.receive("produce", 11)


def test_one_partition_is_refused_and_another_is_not(create: Create, producer: Any) -> None:
    topic, one = create(partitions=2), producer(11)
    one.add(topic, 1)
    request = one.request(topic, 0)
    (entry,) = request["topic_data"]
    (other,) = one.request(topic, 0, partition=1)["topic_data"]
    entry["partition_data"] += other["partition_data"]
    (of_topic,) = one.ask("produce", 11, **request)["responses"]
    answered = [(each["index"], each["error_code"]) for each in of_topic["partition_responses"]]
    assert answered == [(0, "transaction_abortable"), (1, "none")]


def test_sequences_that_come_before_the_first(create: Create, producer: Any) -> None:
    """The first batch of a transaction is refused; those in flight after it must not pass."""
    topic, one = create(), producer(V2)
    assert one.send(topic, 1)["error_code"] == "out_of_order_sequence_number"
    assert one.send(topic, 0)["error_code"] == "none"
    assert one.send(topic, 1)["error_code"] == "none"


@pytest.mark.parametrize("version", [11, V2])
def test_answers_come_in_order_while_the_coordinator_is_asked(
    version: int, ask: Ask, create: Create, producer: Any
) -> None:
    topic, one = create(), producer(version)
    if not one.is_v2:
        one.add(topic, 0)
    numbers = [
        one.client.send("produce", version, **one.request(topic, sequence)) for sequence in range(5)
    ]
    numbers.append(one.client.send("api_versions", 0))
    for offset, number in enumerate(numbers[:5]):
        answered, message = one.client.receive_numbered("produce", version)
        (part,) = message.responses[0].partition_responses
        assert (answered, part.error_code.name, part.base_offset) == (number, "none", offset)
    assert one.client.receive_numbered("api_versions", 0)[0] == numbers[5]


# -- markers -----------------------------------------------------------------------------------


def test_a_marker_of_the_wrong_epoch(ask: Ask, create: Create, producer: Any) -> None:
    topic, one = create(), producer(V2)
    one.send(topic, 0)
    for version in (1, 2):
        code = write_marker(ask, one, topic, producer_epoch=one.epoch - 1, version=version)
        assert code == "invalid_producer_epoch"
    code = write_marker(ask, one, topic, transaction_version=2)
    assert code == "invalid_producer_epoch", "it is of the transaction before"
    code = write_marker(ask, one, topic, coordinator_epoch=-5)
    assert code == "transaction_coordinator_fenced"
    for epoch in (1, 2**31 - 2):  # no coordinator is in such an epoch, as far as is known
        code = write_marker(ask, one, topic, coordinator_epoch=epoch)
        assert code == "not_leader_or_follower"
    assert last_stable_offset(ask, topic) == 0
    assert write_marker(ask, one, topic) == "none"
    assert last_stable_offset(ask, topic) == 2


def test_markers_for_partitions_that_are_not_there(ask: Ask, create: Create, producer: Any) -> None:
    topic, one = create(), producer(V2)
    unknown = [{"name": topic, "partition_indexes": [9]}]
    assert write_marker(ask, one, topic, topics=unknown) == "unknown_topic_or_partition"
    unknown = [{"name": "no such topic", "partition_indexes": [0]}]
    assert write_marker(ask, one, topic, topics=unknown) == "unknown_topic_or_partition"
    assert ask("write_txn_markers", 1, markers=[])["markers"] == []
    nothing = {"producer_id": 5, "producer_epoch": 0, "coordinator_epoch": 0, "topics": []}
    assert ask("write_txn_markers", 1, markers=[nothing])["markers"] == []


def test_a_marker_may_be_larger_than_a_message(ask: Ask, create: Create, producer: Any) -> None:
    """Else a transaction could be begun that cannot be ended."""
    topic, one = create(), producer(V2)
    one.send(topic, 0)
    resource = {
        "resource_type": 2,
        "resource_name": topic,
        "configs": [{"name": "max.message.bytes", "config_operation": 0, "value": "10"}],
    }
    ask("incremental_alter_configs", 1, resources=[resource])
    one.end()
    wait_until(lambda: last_stable_offset(ask, topic) == 2, "the marker")


def test_producers_are_described(ask: Ask, create: Create, producer: Any) -> None:
    topic, one = create(), producer(V2)
    ask(
        "produce",
        11,
        acks=1,
        timeout=1000,
        topic_data=[{"name": topic, "partition_data": [{"index": 0, "records": batch(b"a")}]}],
    )
    one.send(topic, 0, 1, timestamp=1234)

    def described(index: int = 0, name: str = topic) -> Any:
        topics = [{"name": name, "partition_indexes": [index]}]
        (of_topic,) = ask("describe_producers", 0, topics=topics)["topics"]
        (of_partition,) = of_topic["partitions"]
        return of_partition

    (open_one,) = described()["active_producers"]
    assert open_one == {
        "producer_id": one.producer_id,
        "producer_epoch": one.epoch,
        "last_sequence": 1,
        "last_timestamp": 1234,
        "coordinator_epoch": -1,
        "current_txn_start_offset": 1,
    }
    assert write_marker(ask, one, topic) == "none"
    (ended,) = described()["active_producers"]
    assert (ended["coordinator_epoch"], ended["current_txn_start_offset"]) == (0, -1)
    assert described(5)["error_code"] == "unknown_topic_or_partition"
    assert described(name="no such topic")["error_code"] == "invalid_topic_exception"
    assert described(name="unknown")["error_code"] == "unknown_topic_or_partition"
