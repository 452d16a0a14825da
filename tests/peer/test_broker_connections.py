"""The way to a leader: metadata, reconnection, retries within a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from drumlin.peer.broker_connections import BrokerConnections, parse_bootstrap
from drumlin.peer.connection import Address
from drumlin.peer.options import PeerOptions
from drumlin.peer.peer_error import ConnectionLost
from drumlin.peer.retry import Deadline, backoff_s
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from rig.brokers.scripted_broker import CloseConnection, ScriptedBroker
from rig.data.messages import Shape
from rig.ports import free_ports

T = TypeVar("T")
OPTIONS = PeerOptions(request_timeout_ms=2_000, retry_backoff_ms=2, retry_backoff_max_ms=10)


def with_connections(bootstrap: str, use: Callable[[BrokerConnections], Awaitable[T]]) -> T:
    async def run() -> T:
        connections = BrokerConnections(parse_bootstrap(bootstrap), OPTIONS)
        try:
            return await use(connections)
        finally:
            await connections.close()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("bootstrap", "addresses"),
    [
        ("a:1", [Address("a", 1)]),
        ("a:1, b:2 ,", [Address("a", 1), Address("b", 2)]),
        ("a", [Address("a", 9092)]),
        ("[::1]:9", [Address("::1", 9)]),
        ("[::1]", [Address("::1", 9092)]),
    ],
)
def test_bootstrap_addresses(bootstrap: str, addresses: list[Address]) -> None:
    assert parse_bootstrap(bootstrap) == addresses
    assert str(Address("::1", 9)) == "[::1]:9"


def test_back_off_grows_to_its_limit_with_jitter() -> None:
    pauses = backoff_s(PeerOptions(retry_backoff_ms=100, retry_backoff_max_ms=500))
    for expected in (0.1, 0.2, 0.4, 0.5, 0.5):
        assert 0.8 * expected <= next(pauses) <= 1.2 * expected


def test_a_connection_is_shared_and_made_once() -> None:
    async def use(connections: BrokerConnections) -> None:
        await connections.refresh(("t",))
        found = await asyncio.gather(*(connections.leader("t", 0) for _ in range(5)))
        assert len(set(map(id, found))) == 1

    with ScriptedBroker({"t": 1}) as broker:
        with_connections(broker.address, use)
    assert broker.connection_count == 1


def test_a_lost_connection_is_made_anew() -> None:
    async def use(connections: BrokerConnections) -> None:
        (await connections.leader("t", 0)).close()
        assert (await connections.leader("t", 0)).is_open

    with ScriptedBroker({"t": 1}) as broker:
        with_connections(broker.address, use)
    assert broker.connection_count == 2


def test_the_leader_is_where_metadata_says() -> None:
    async def use(connections: BrokerConnections) -> Address:
        return (await connections.leader("t", 0)).address

    with ScriptedBroker({"t": 1}, node_id=1) as first, ScriptedBroker(node_id=2) as second:
        first.brokers, first.leader_id = {2: second.port}, 2
        assert with_connections(first.address, use).port == second.port


def test_a_dead_broker_is_left_for_another() -> None:
    """Metadata names a broker that is gone; a bootstrap server still knows better."""

    async def use(connections: BrokerConnections) -> Address:
        await connections.refresh(("t",))
        broker.brokers, broker.leader_id = {}, 1

        async def attempt() -> Address:
            return (await connections.leader("t", 0)).address

        return await connections.retrying(attempt, topics=("t",))

    with ScriptedBroker({"t": 1}, node_id=1) as broker:
        broker.brokers, broker.leader_id = {2: free_ports(1)[0]}, 2
        assert with_connections(broker.address, use).port == broker.port


@pytest.mark.parametrize("partition", [0, 5])
def test_what_does_not_exist_is_named(partition: int) -> None:
    topic = "t" if partition else "nowhere"

    async def use(connections: BrokerConnections) -> None:
        await connections.leader(topic, partition)

    with (
        ScriptedBroker({"t": 1}) as broker,
        pytest.raises(KafkaError, match=f"unknown_topic_or_partition: topic '{topic}'"),
    ):
        with_connections(broker.address, use)


@pytest.mark.parametrize(
    ("topic", "told"),
    [("clcks", "topic 'clcks'; did you mean 'clicks'?"), ("orders", "topic 'orders'")],
)
def test_a_misspelt_topic_is_told_what_was_meant(topic: str, told: str) -> None:
    async def use(connections: BrokerConnections) -> None:
        await connections.partitions(topic)

    with ScriptedBroker({"clicks": 1}) as broker, pytest.raises(KafkaError) as raised:
        with_connections(broker.address, use)
    assert str(raised.value) == f"unknown_topic_or_partition: {told}"


def test_a_partition_without_a_leader_is_retriable() -> None:
    async def use(connections: BrokerConnections) -> None:
        await connections.leader("t", 0)

    with ScriptedBroker({"t": 1}) as broker:
        broker.leader_id = -1
        with pytest.raises(KafkaError) as error:
            with_connections(broker.address, use)
    assert error.value.code is ErrorCode.leader_not_available


def failing(times: int, error: Exception) -> tuple[Callable[[], Awaitable[str]], list[int]]:
    attempts: list[int] = []

    async def attempt() -> str:
        attempts.append(1)
        if len(attempts) <= times:
            raise error
        return "done"

    return attempt, attempts


@pytest.mark.parametrize(
    ("error", "asks_metadata"),
    [
        (KafkaError(ErrorCode.not_leader_or_follower), True),
        (KafkaError(ErrorCode.not_enough_replicas), False),
        (ConnectionLost("gone"), True),
    ],
)
def test_what_may_pass_is_tried_again(error: Exception, asks_metadata: bool) -> None:
    attempt, attempts = failing(3, error)

    async def use(connections: BrokerConnections) -> str:
        return await connections.retrying(attempt, topics=("t",))

    with ScriptedBroker({"t": 1}) as broker:
        assert with_connections(broker.address, use) == "done"
    assert len(attempts) == 4
    assert len(broker.asked("metadata")) == (3 if asks_metadata else 0)


def test_what_is_for_good_is_not() -> None:
    attempt, attempts = failing(1, KafkaError(ErrorCode.message_too_large))

    async def use(connections: BrokerConnections) -> str:
        return await connections.retrying(attempt)

    with ScriptedBroker() as broker, pytest.raises(KafkaError, match="message_too_large"):
        with_connections(broker.address, use)
    assert len(attempts) == 1


def test_a_deadline_ends_it_with_the_last_error() -> None:
    attempt, attempts = failing(10**9, KafkaError(ErrorCode.not_enough_replicas))

    async def use(connections: BrokerConnections) -> str:
        return await connections.retrying(attempt, deadline=Deadline(60))

    with ScriptedBroker() as broker, pytest.raises(KafkaError, match="not_enough_replicas"):
        with_connections(broker.address, use)
    assert len(attempts) > 2


def test_one_who_gives_up_does_not_disturb_others_who_connect() -> None:
    async def use(connections: BrokerConnections) -> bool:
        first = asyncio.ensure_future(connections.any())
        second = asyncio.ensure_future(connections.any())
        await asyncio.sleep(0)
        first.cancel()
        return (await second).is_open

    with ScriptedBroker() as broker:
        assert with_connections(broker.address, use)


def test_one_who_waits_for_a_connection_hears_that_none_will_come() -> None:
    async def use(connections: BrokerConnections) -> None:
        waiting = asyncio.ensure_future(connections.any())
        await asyncio.sleep(0)
        await connections.close()
        with pytest.raises(ConnectionLost):
            await waiting

    with ScriptedBroker() as broker:
        with_connections(broker.address, use)


def test_metadata_that_is_lost_is_asked_for_again() -> None:
    def lose(shape: Shape, request: Any) -> Any:
        return CloseConnection()

    async def use(connections: BrokerConnections) -> list[int]:
        return await connections.partitions("t")

    with ScriptedBroker({"t": 2}) as broker:
        broker.script("metadata", lose, lose, broker.metadata)
        assert with_connections(broker.address, use) == [0, 1]


def test_a_cluster_that_refuses_metadata() -> None:
    def refuse(shape: Shape, request: Any) -> Any:
        return shape(
            "MetadataResponse",
            throttle_time=ZERO,
            error_code=ErrorCode.cluster_authorization_failed,
            brokers=(),
            cluster_id=None,
            controller_id=-1,
            topics=(),
        )

    async def use(connections: BrokerConnections) -> None:
        await connections.refresh(())

    with ScriptedBroker() as broker:
        broker.script("metadata", refuse)
        with pytest.raises(KafkaError, match="cluster_authorization_failed"):
            with_connections(broker.address, use)
