"""Markers of transactions whose partitions other brokers lead; the other one here is scripted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.in_process import running
from broker.second_broker import NODE_ID, join, leave
from drumlin.broker.hosting.markers import write_markers
from drumlin.broker.remote.markers import MarkerRoutes
from drumlin.broker.remote.markers import _request as request
from drumlin.broker.start.broker import Broker
from drumlin.coordination.transactions.markers import Marker, TopicPartition
from drumlin.peer.connection import Address, BrokerConnection
from drumlin.peer.options import PeerOptions
from drumlin.wire.error_codes import ErrorCode
from rig.brokers.scripted_broker import CloseConnection, ScriptedBroker, Silence
from rig.data.messages import Shape
from rig.time.turn_lengths import unhurried
from rig.waiting import eventually

HERE = ("here", 0)
THERE = ("there", 0)
PRODUCER_ID = 7


def marker(*partitions: TopicPartition, producer_id: int = PRODUCER_ID) -> Marker:
    return Marker(producer_id, 3, 0, True, partitions, 2)


def telling(code: ErrorCode = ErrorCode.none) -> Callable[[Shape, Any], Any]:
    """An answer with this code for each partition."""

    def answer(shape: Shape, request: Any) -> Any:
        return shape(
            "WriteTxnMarkersResponse",
            markers=tuple(
                shape(
                    "WritableTxnMarkerResult",
                    producer_id=each.producer_id,
                    topics=tuple(
                        shape(
                            "WritableTxnMarkerTopicResult",
                            name=topic.name,
                            partitions=tuple(
                                shape(
                                    "WritableTxnMarkerPartitionResult",
                                    partition_index=index,
                                    error_code=code,
                                )
                                for index in topic.partition_indexes
                            ),
                        )
                        for topic in each.topics
                    ),
                )
                for each in request.markers
            ),
        )

    return answer


async def make_topics(broker: Broker, elsewhere: int = 1) -> None:
    await broker.metadata.create_topic("here", [[1]], {})
    await broker.metadata.create_topic("there", [[NODE_ID]] * elsewhere, {})


def test_each_leader_gets_its_own(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            join(broker, other)
            await make_topics(broker, 2)
            codes = await MarkerRoutes(broker).write(
                marker(HERE, THERE, ("there", 1), ("gone", 0), ("here", 1))
            )
            assert codes == {
                HERE: ErrorCode.none,
                THERE: ErrorCode.none,
                ("there", 1): ErrorCode.none,
                ("gone", 0): ErrorCode.unknown_topic_or_partition,
                ("here", 1): ErrorCode.unknown_topic_or_partition,
            }
            assert broker.partitions.get(*HERE).log_end_offset == 1
            ((told,),) = (each.markers for each in other.asked("write_txn_markers"))
            assert (told.producer_id, told.producer_epoch) == (PRODUCER_ID, 3)
            assert (told.coordinator_epoch, told.transaction_version) == (0, 2)
            assert told.transaction_result
            assert [(each.name, each.partition_indexes) for each in told.topics] == [
                ("there", (0, 1))
            ]

    with ScriptedBroker() as other:
        other.script("write_txn_markers", telling())
        asyncio.run(main())


def test_very_many_partitions_take_several_requests(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            join(broker, other)
            await make_topics(broker, 1201)
            everywhere = [("there", each) for each in range(1201)]
            codes = await MarkerRoutes(broker).write(marker(*everywhere))
            assert codes == dict.fromkeys(everywhere, ErrorCode.none)
            sizes = [
                len(topic.partition_indexes)
                for request in other.asked("write_txn_markers")
                for each in request.markers
                for topic in each.topics
            ]
            assert sizes == [500, 500, 201]

    with ScriptedBroker() as other:
        other.script("write_txn_markers", telling())
        asyncio.run(main())


def test_transactions_that_end_meanwhile_go_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            unhurried(monkeypatch)
            join(broker, other)
            await make_topics(broker)
            routes = MarkerRoutes(broker)
            codes = await asyncio.gather(
                *(routes.write(marker(THERE, producer_id=each)) for each in range(20)),
                routes.write(marker(THERE, producer_id=0)),
            )
            assert codes == [{THERE: ErrorCode.none}] * 21
            requests = other.asked("write_txn_markers")
            told = [[each.producer_id for each in request.markers] for request in requests]
            assert [sorted(each) for each in told] == [list(range(20)), [0]]

    with ScriptedBroker() as other:
        other.script("write_txn_markers", telling())
        asyncio.run(main())


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.not_leader_or_follower,
        ErrorCode.transaction_coordinator_fenced,
        ErrorCode.invalid_producer_epoch,
    ],
)
def test_what_the_leader_says_is_told(tmp_path: Path, code: ErrorCode) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            join(broker, other)
            await make_topics(broker)
            codes = await MarkerRoutes(broker).write(marker(HERE, THERE))
            assert codes == {HERE: ErrorCode.none, THERE: code}

    with ScriptedBroker() as other:
        other.script("write_txn_markers", telling(code))
        asyncio.run(main())


def test_leaders_that_cannot_be_asked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def main() -> None:
        async with running(tmp_path) as broker:
            routes = MarkerRoutes(broker)
            await make_topics(broker)
            assert await routes.write(marker(THERE)) == {THERE: ErrorCode.broker_not_available}
            join(broker, other)
            assert await routes.write(marker(THERE)) == {THERE: ErrorCode.network_exception}
            waiting = asyncio.ensure_future(routes.write(marker(HERE, THERE)))
            await eventually(lambda: len(other.asked("write_txn_markers")) == 2)
            leave(broker)
            assert await waiting == {HERE: ErrorCode.none, THERE: ErrorCode.network_exception}
            join(broker, other)
            waiting = asyncio.ensure_future(routes.write(marker(THERE)))
            await eventually(lambda: len(other.asked("write_txn_markers")) == 3)
            await routes.close()
            assert await waiting == {THERE: ErrorCode.network_exception}

    with ScriptedBroker() as other:
        other.script("write_txn_markers", lambda *_: CloseConnection(), lambda *_: Silence())
        asyncio.run(main())
    assert "markers of 1 transactions" in caplog.text


def test_a_transaction_ends_where_its_partitions_have_moved(tmp_path: Path) -> None:
    """The coordinator asks again, whoever leads by then."""

    async def main() -> None:
        async with running(tmp_path) as broker:
            transactions = broker.transactions
            await transactions.find_partition("id")  # all of its topic is here
            join(broker, other)
            await make_topics(broker)
            who = await transactions.init_producer("id", 60_000, None)
            added = await transactions.add_partitions("id", *who, [HERE, THERE], client_version=0)
            assert set(added.values()) == {ErrorCode.none}
            await transactions.end("id", who, is_commit=True, client_version=0)
            await eventually(lambda: len(other.asked("write_txn_markers")) == 3)
            await eventually(lambda: not transactions.describe("id").partitions)
            assert broker.partitions.get(*HERE).log_end_offset == 1
            assert {
                each.coordinator_epoch
                for request in other.asked("write_txn_markers")
                for each in request.markers
            } == {0}

    with ScriptedBroker() as other:
        other.script(
            "write_txn_markers",
            telling(ErrorCode.not_leader_or_follower),
            lambda *_: CloseConnection(),
            telling(),
        )
        asyncio.run(main())


def test_a_leader_answers_before_the_coordinator_gives_it_up(tmp_path: Path) -> None:
    """Although a follower does not fetch the marker; it is asked again."""

    async def main() -> None:
        async with running(tmp_path, request_timeout_ms="500") as broker:
            join(broker, other)
            await broker.metadata.create_topic("here", [[1, NODE_ID], [1]], {})
            codes = await write_markers(broker, marker(HERE, ("here", 1)))
            assert codes == {HERE: ErrorCode.request_timed_out, ("here", 1): ErrorCode.none}
            partition = broker.partitions.get(*HERE)
            assert (partition.log_end_offset, partition.high_watermark) == (1, 0)

    with ScriptedBroker() as other:
        asyncio.run(main())


def test_markers_of_one_request_do_not_wait_for_each_other(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, request_timeout_ms="500") as broker:
            join(broker, other)
            await broker.metadata.create_topic("here", [[1, NODE_ID]], {})
            (endpoint,) = broker.metadata.image.brokers[1].endpoints
            connection = await BrokerConnection.open(
                Address("127.0.0.1", endpoint.port), PeerOptions()
            )
            markers = [marker(HERE, producer_id=each) for each in range(5)]
            answer = connection.send("write_txn_markers", request(markers))
            await eventually(lambda: broker.partitions.get(*HERE).log_end_offset == 5)
            assert not answer.done()
            told = (await answer).markers
            assert [each.producer_id for each in told] == list(range(5))
            codes = {it.error_code for each in told for it in each.topics[0].partitions}
            assert codes == {ErrorCode.request_timed_out}
            connection.close()

    with ScriptedBroker() as other:
        asyncio.run(main())
