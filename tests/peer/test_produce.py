"""Batches of many partitions share a request, and each has its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from drumlin.peer.connection import Address, BrokerConnection
from drumlin.peer.options import PeerOptions
from drumlin.peer.peer_error import ConnectionLost, InvalidResponse
from drumlin.peer.produce import produced, send_batch
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from rig.brokers.scripted_broker import CloseConnection, ScriptedBroker
from rig.data.messages import Shape

Sent = Callable[..., asyncio.Future[Any]]


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 8}) as broker:
        broker.script("produce", answer)
        yield broker


def answer(shape: Shape, request: Any) -> Any:
    """Partition 98 refuses, partition 99 is passed over, partition 97 is answered twice.

    The others tell their number as offset.
    """
    topics = [
        shape(
            "TopicProduceResponse",
            name=topic.name,
            partition_responses=tuple(
                shape(
                    "PartitionProduceResponse",
                    index=each.index,
                    error_code=ErrorCode.message_too_large if each.index == 98 else ErrorCode.none,
                    base_offset=each.index,
                    log_append_time=None,
                    log_start_offset=0,
                    record_errors=(),
                    error_message=None,
                )
                for each in topic.partition_data
                for _ in range({97: 2, 99: 0}.get(each.index, 1))
            ),
        )
        for topic in request.topic_data
    ]
    return shape("ProduceResponse", responses=tuple(topics), throttle_time=ZERO)


def run(broker: ScriptedBroker, program: Callable[[Sent], Awaitable[None]]) -> list[list[Any]]:
    """What the program sends, as requests of (topic, partition, bytes)."""

    async def main() -> None:
        address = Address("127.0.0.1", broker.port)
        connection = await BrokerConnection.open(address, PeerOptions())

        def send(place: tuple[str, int], batch: bytes, **more: Any) -> asyncio.Future[Any]:
            options = {"acks": -1, "timeout_ms": 1000, **more}
            return send_batch(connection, *place, batch, **options)

        await program(send)
        connection.close()

    asyncio.run(main())
    return [
        [
            (topic.name, each.index, bytes(each.records))
            for topic in request.topic_data
            for each in topic.partition_data
        ]
        for request in broker.asked("produce")
    ]


def test_batches_of_one_turn_share_a_request(broker: ScriptedBroker) -> None:
    async def program(send: Sent) -> None:
        sent = {place: send(place, b"%d" % place[1]) for place in [("t", 0), ("u", 1), ("t", 2)]}
        for place, future in sent.items():
            assert produced(await future, *place).base_offset == place[1]
        await send(("t", 0), b"later")

    assert run(broker, program) == [
        [("t", 0, b"0"), ("t", 2, b"2"), ("u", 1, b"1")],
        [("t", 0, b"later")],
    ]


def test_each_partition_has_its_own_answer(broker: ScriptedBroker) -> None:
    async def program(send: Sent) -> None:
        good, refused, missing, twice, last = (
            send(("t", each), b"x") for each in (0, 98, 99, 97, 1)
        )
        assert produced(await good, "t", 0).base_offset == 0
        with pytest.raises(KafkaError) as raised:
            produced(await refused, "t", 98)
        assert raised.value.code is ErrorCode.message_too_large
        for future, partition, count in ((missing, 99, 0), (twice, 97, 2)):
            what = f"topic 't' partition {partition}: produce: {count} answers to one question"
            with pytest.raises(InvalidResponse, match=what):
                await future
        assert produced(await last, "t", 1).base_offset == 1

    assert len(run(broker, program)) == 1


def test_a_request_has_one_batch_of_a_partition(broker: ScriptedBroker) -> None:
    async def program(send: Sent) -> None:
        await asyncio.gather(*(send(("t", n % 2), b"%d" % n) for n in range(5)))

    assert run(broker, program) == [
        [("t", 0, b"0"), ("t", 1, b"1")],
        [("t", 0, b"2"), ("t", 1, b"3")],
        [("t", 0, b"4")],
    ]


def test_partitions_with_many_batches_share_requests(broker: ScriptedBroker) -> None:
    """A sender sends all that it may at once, and then comes the next one."""

    async def program(send: Sent) -> None:
        await asyncio.gather(*(send(("t", n // 3), b"%d" % n) for n in range(9)))

    assert run(broker, program) == [
        [("t", partition, b"%d" % (3 * partition + turn)) for partition in range(3)]
        for turn in range(3)
    ]


def test_a_request_has_a_megabyte_at_most(broker: ScriptedBroker) -> None:
    async def program(send: Sent) -> None:
        await asyncio.gather(*(send(("t", n), bytes(size)) for n, size in enumerate(sizes)))

    sizes = [400_000, 400_000, 400_000, 2_000_000, 10, 10]
    found = [[len(batch) for _, _, batch in request] for request in run(broker, program)]
    assert found == [[400_000, 400_000], [400_000], [2_000_000], [10, 10]]


def test_a_request_is_of_one_transaction(broker: ScriptedBroker) -> None:
    async def program(send: Sent) -> None:
        ids = (None, "a", "a", "b")
        await asyncio.gather(
            *(send(("t", n), b"x", transactional_id=each) for n, each in enumerate(ids))
        )

    assert [len(each) for each in run(broker, program)] == [1, 2, 1]
    assert [each.transactional_id for each in broker.asked("produce")] == [None, "a", "b"]


def test_all_hear_that_the_connection_is_lost(broker: ScriptedBroker) -> None:
    async def program(send: Sent) -> None:
        lost = [send(("t", each), b"x") for each in range(3)]
        for each in lost:
            with pytest.raises(ConnectionLost):
                await each
        with pytest.raises(ConnectionLost):
            await send(("t", 0), b"x")

    broker.script("produce", lambda shape, request: CloseConnection())
    assert len(run(broker, program)) == 1


def test_a_batch_whose_caller_gave_up_keeps_no_other_from_its_error(broker: ScriptedBroker) -> None:
    async def main() -> None:
        connection = await BrokerConnection.open(Address("127.0.0.1", broker.port), PeerOptions())
        given_up, other = (
            send_batch(connection, "t", each, b"x", acks=-1, timeout_ms=1000) for each in (0, 1)
        )
        given_up.cancel()
        connection.close()  # before the turn ends, in which they are sent
        async with asyncio.timeout(20):
            with pytest.raises(ConnectionLost):
                await other

    asyncio.run(main())
