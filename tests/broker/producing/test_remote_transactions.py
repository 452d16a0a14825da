"""Transactional batches whose coordinator is another broker; that one is scripted here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.in_process import running
from broker.second_broker import NODE_ID, join, leave
from drumlin.broker.producing.transaction_checks import ask_coordinator
from drumlin.broker.start.broker import Broker
from drumlin.coordination.shards.state_batches import Producer
from drumlin.metadata.names import TRANSACTION_STATE
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO
from rig.brokers.scripted_broker import CloseConnection, ScriptedBroker
from rig.data.messages import Shape

API = "add_partitions_to_txn"
KEY = ("t", 0)
WHO = Producer(5, 1)


def telling(code: ErrorCode, top_level: ErrorCode = ErrorCode.none) -> Callable[[Shape, Any], Any]:
    """An answer with this code for each partition."""

    def answer(shape: Shape, request: Any) -> Any:
        return shape(
            "AddPartitionsToTxnResponse",
            throttle_time=ZERO,
            error_code=top_level,
            results_by_transaction=tuple(
                shape(
                    "AddPartitionsToTxnResult",
                    transactional_id=each.transactional_id,
                    topic_results=tuple(
                        shape(
                            "AddPartitionsToTxnTopicResult",
                            name=topic.name,
                            results_by_partition=tuple(
                                shape(
                                    "AddPartitionsToTxnPartitionResult",
                                    partition_index=index,
                                    partition_error_code=code,
                                )
                                for index in topic.partitions
                            ),
                        )
                        for topic in each.topics
                    ),
                )
                for each in request.transactions
            ),
        )

    return answer


async def ask(broker: Broker, transactional_id: str = "id", *, adds: bool = False) -> ErrorCode:
    codes = await ask_coordinator(
        broker, transactional_id, WHO, [KEY], adds=adds, knows_abortable=True
    )
    return codes[KEY]


async def coordinate_elsewhere(broker: Broker, other: ScriptedBroker) -> None:
    await broker.metadata.create_topic(TRANSACTION_STATE, [[NODE_ID]] * 2, {})
    join(broker, other)


@pytest.mark.parametrize("adds", [False, True])
def test_the_coordinator_is_asked_where_it_is(tmp_path: Path, adds: bool) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await coordinate_elsewhere(broker, other)
            assert await ask(broker, adds=adds) is ErrorCode.none
            ((told,),) = (each.transactions for each in other.asked(API))
            assert (told.transactional_id, told.verify_only) == ("id", not adds)
            assert (told.producer_id, told.producer_epoch) == WHO
            assert [(each.name, each.partitions) for each in told.topics] == [("t", (0,))]

    with ScriptedBroker() as other:
        other.script(API, telling(ErrorCode.none))
        asyncio.run(main())


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (telling(ErrorCode.not_coordinator), ErrorCode.not_coordinator),
        (telling(ErrorCode.coordinator_load_in_progress), ErrorCode.coordinator_load_in_progress),
        (telling(ErrorCode.producer_fenced), ErrorCode.invalid_producer_epoch),
        (telling(ErrorCode.transaction_abortable), ErrorCode.transaction_abortable),
        (
            telling(ErrorCode.none, ErrorCode.cluster_authorization_failed),
            ErrorCode.invalid_txn_state,
        ),
        (lambda *_: CloseConnection(), ErrorCode.network_exception),
    ],
)
def test_what_comes_of_its_answer(
    tmp_path: Path, answer: Callable[[Shape, Any], Any], told: ErrorCode
) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await coordinate_elsewhere(broker, other)
            assert await ask(broker) is told

    with ScriptedBroker() as other:
        other.script(API, answer)
        asyncio.run(main())


def test_no_coordinator_to_be_asked(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await coordinate_elsewhere(broker, other)
            leave(broker)
            assert await ask(broker) is ErrorCode.coordinator_not_available
            other.versions[API] = (0, 3)
            join(broker, other)
            assert await ask(broker) is ErrorCode.network_exception
            assert not other.asked(API)

    with ScriptedBroker() as other:
        asyncio.run(main())


def test_what_is_asked_meanwhile_goes_together(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await coordinate_elsewhere(broker, other)
            ids = [f"id-{each}" for each in range(20)]
            codes = await asyncio.gather(*(ask(broker, each) for each in [*ids, ids[0]]))
            assert codes == [ErrorCode.none] * 21
            told = [[each.transactional_id for each in it.transactions] for it in other.asked(API)]
            assert told == [ids, ids[:1]]

    with ScriptedBroker() as other:
        other.script(API, telling(ErrorCode.none))
        asyncio.run(main())


def test_producers_of_v2_are_held_back_while_a_transaction_ends(tmp_path: Path) -> None:
    async def main() -> None:
        settings = {"add.partitions.to.txn.retry.backoff.max.ms": "60000"}
        async with running(tmp_path, **settings) as broker:
            await coordinate_elsewhere(broker, other)
            assert await ask(broker, adds=True) is ErrorCode.none
            assert len(other.asked(API)) == 3

    ending = telling(ErrorCode.concurrent_transactions)
    with ScriptedBroker() as other:
        other.script(API, ending, ending, telling(ErrorCode.none))
        asyncio.run(main())
