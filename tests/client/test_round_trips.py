"""What does not depend on each other is asked for together: each round trip takes its time.

Here brokers answer nothing until so many requests wait for their answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

import drumlin
from client.read.test_gaps import Log, batch, fetch_response
from drumlin.client.admin.group_admin import list_groups
from drumlin.client.client import Client
from drumlin.client.errors import OffsetOutOfRange
from drumlin.client.places import Milliseconds
from drumlin.client.state.exact_states import log_facts
from drumlin.client.state.snapshot_ranges import whole_ranges
from drumlin.client.topic_partition import TopicPartition
from drumlin.client.transactions.descriptions import list_transactions
from drumlin.peer.broker_connections import BrokerConnections, parse_bootstrap
from drumlin.peer.options import PeerOptions
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO
from rig.brokers.scripted_broker import Answer, ScriptedBroker
from rig.data.messages import Shape

T = TypeVar("T")


class Together:
    """An answer that waits until it is wanted so often; of several brokers, too."""

    def __init__(self, count: int, answer: Answer) -> None:
        self._missing = count
        self._answer = answer

    async def __call__(self, shape: Shape, request: Any) -> Any:
        self._missing -= 1
        while self._missing > 0:  # noqa: ASYNC110 - brokers have loops of their own
            await asyncio.sleep(0.001)
        return self._answer(shape, request)


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 1, "u": 1}) as broker:
        yield broker


@pytest.fixture
def log(broker: ScriptedBroker) -> Log:
    return Log(broker, [batch(0, 4, [0, 1, 2, 3, 4])], 5)


@pytest.fixture
def client(broker: ScriptedBroker) -> Iterator[Client]:
    with drumlin.connect(broker.address, request_timeout_ms=3_000, retry_backoff_ms=2) as client:
        yield client


def asked(broker: ScriptedBroker, ask: Callable[[BrokerConnections], Coroutine[Any, Any, T]]) -> T:
    async def run() -> T:
        options = PeerOptions(request_timeout_ms=3_000, retry_backoff_ms=2)
        connections = BrokerConnections(parse_bootstrap(broker.address), options)
        try:
            return await ask(connections)
        finally:
            await connections.close()

    return asyncio.run(run())


@pytest.mark.parametrize(("start", "count"), [("earliest", 2), (3, 2), (Milliseconds(1), 3)])
def test_reading_looks_up_its_places(
    broker: ScriptedBroker, log: Log, client: Client, start: Any, count: int
) -> None:
    broker.script("list_offsets", Together(count, log.list_offsets))
    assert client.read("t", start=start).num_rows == {3: 2, "earliest": 5}.get(start, 0)
    assert len(broker.asked("list_offsets")) == count


def test_a_time_past_the_end_that_was_looked_up(
    broker: ScriptedBroker, log: Log, client: Client
) -> None:
    """A record came in between: it is not read, and nobody asked for a number."""

    def one_more(shape: Shape, request: Any) -> Any:
        log.end_offset = 9 if request.topics[0].partitions[0].timestamp >= 0 else 5
        return log.list_offsets(shape, request)

    broker.script("list_offsets", one_more)
    assert client.read("t", start=Milliseconds(1)).num_rows == 0


def test_a_log_whose_start_passes_its_end(broker: ScriptedBroker, log: Log, client: Client) -> None:
    """Records are deleted and written while the two are looked up: there is nothing to read."""

    log.start_offset = 7
    assert client.read("t").num_rows == 0


def test_an_offset_out_of_range_tells_the_bounds(
    broker: ScriptedBroker, log: Log, client: Client
) -> None:
    broker.script("list_offsets", Together(2, log.list_offsets))
    out_of_range = ErrorCode.offset_out_of_range
    broker.script("fetch", lambda shape, _: fetch_response(shape, b"", 5, out_of_range))
    with pytest.raises(OffsetOutOfRange, match=r"offset 7 is out of range, the log holds 0 to 5"):
        list(client.read_range("t", 0, 7, 9))


def test_a_state_is_planned(broker: ScriptedBroker, log: Log) -> None:
    def configs(shape: Shape, request: Any) -> Any:
        result = shape(
            "DescribeConfigsResult",
            error_code=ErrorCode.none,
            error_message=None,
            resource_type=2,
            resource_name=request.resources[0].resource_name,
            configs=(),
        )
        return shape("DescribeConfigsResponse", throttle_time=ZERO, results=(result,))

    broker.script("list_offsets", Together(2, log.list_offsets))
    ranges = asked(broker, lambda it: whole_ranges(it, "t", None, "read_committed"))
    assert [tuple(each)[:4] for each in ranges] == [("t", 0, 0, 5)]
    broker.script("list_offsets", Together(2, log.list_offsets))
    broker.script("describe_configs", Together(2, configs))
    places = [TopicPartition("t", 0), TopicPartition("u", 0)]
    assert asked(broker, lambda it: log_facts(it, places)).keys() == set(places)


@pytest.mark.parametrize("ask", [list_groups, list_transactions])
def test_brokers_are_asked_side_by_side(
    ask: Callable[[BrokerConnections], Coroutine[Any, Any, list[Any]]],
) -> None:
    def none(shape: Shape, request: Any) -> Any:
        if ask is list_groups:
            answer = {"error_code": ErrorCode.none, "groups": ()}
            return shape("ListGroupsResponse", throttle_time=ZERO, **answer)
        empty = {"unknown_state_filters": (), "transaction_states": ()}
        code = ErrorCode.none
        return shape("ListTransactionsResponse", throttle_time=ZERO, error_code=code, **empty)

    with ScriptedBroker(node_id=1) as first, ScriptedBroker(node_id=2) as second:
        first.brokers[2] = second.port
        second.brokers[1] = first.port
        answer = Together(2, none)
        for each in (first, second):
            each.script(ask.__name__, answer)
        assert asked(first, ask) == []
