"""Ends of transactions that others, or the log, come in between."""

from __future__ import annotations

import asyncio
import itertools

from coordination.transactions.test_coordinator import COUNT, T0, TIMEOUT_MS, Cluster, run, until
from drumlin.coordination.shards.state_partitions import partition_for
from drumlin.coordination.transactions.coordinator import TransactionCoordinator
from drumlin.coordination.transactions.states import TransactionState
from drumlin.wire.error_codes import ErrorCode, KafkaError


def test_an_end_is_noted_once_the_log_can_be_written_again() -> None:
    """Until then the producer is told to wait: it must not be so for ever."""

    async def test(cluster: Cluster, coordinator: TransactionCoordinator) -> None:
        producer = await coordinator.init_producer("x", TIMEOUT_MS, None)
        await coordinator.add_partitions("x", *producer, [T0])
        await coordinator.end("x", producer, is_commit=True, client_version=2)
        cluster.log.error = ErrorCode.kafka_storage_error  # before the markers
        await until(lambda: bool(cluster.markers))
        for _ in range(10):  # it has found out by then
            await asyncio.sleep(0)
        assert coordinator.describe("x").state is TransactionState.PREPARE_COMMIT
        cluster.log.error = None
        complete = TransactionState.COMPLETE_COMMIT
        await until(lambda: coordinator.describe("x").state is complete)

    run(test)


def test_what_ends_while_others_time_out_is_left_alone() -> None:
    """Two have timed out; one is ended by its producer while the abort of the other is written."""

    async def test(cluster: Cluster, coordinator: TransactionCoordinator) -> None:
        names = (f"id-{number}" for number in itertools.count())
        here = (each for each in names if partition_for(each, COUNT) == 0)
        late, just_in_time = next(here), next(here)
        producers = {}
        for each in (late, just_in_time):
            producers[each] = await coordinator.init_producer(each, TIMEOUT_MS, None)
            await coordinator.add_partitions(each, *producers[each], [T0])
        coordinator._clock.advance_ms(TIMEOUT_MS + 1)  # type: ignore[attr-defined]
        cluster.log.confirmations = confirmations = []
        aborting = asyncio.ensure_future(coordinator.abort_timed_out())
        await until(lambda: len(confirmations) == 1)
        ending = asyncio.ensure_future(
            coordinator.end(just_in_time, producers[just_in_time], is_commit=True, client_version=2)
        )
        await until(lambda: len(confirmations) == 2)
        cluster.log.confirmations = None
        for each in confirmations:
            each.set_result(None)
        await aborting
        await ending
        aborted, complete = TransactionState.COMPLETE_ABORT, TransactionState.COMPLETE_COMMIT
        await until(lambda: coordinator.describe(just_in_time).state is complete)
        await until(lambda: coordinator.describe(late).state is aborted)

    run(test)


def test_a_partition_of_which_nobody_can_tell_gets_its_marker() -> None:
    """It may be there, though we have not heard of it: without one, readers would wait for ever."""

    async def test(cluster: Cluster, coordinator: TransactionCoordinator) -> None:
        asked = 0

        async def count_partitions(_: str) -> int:
            nonlocal asked
            asked += 1
            if asked < 2:
                raise KafkaError(ErrorCode.broker_not_available)
            return 1

        completion = coordinator._completion
        completion._has_partition, completion._partition_count = has_none, count_partitions
        producer = await coordinator.init_producer("x", TIMEOUT_MS, None)
        gone = ("t", 1)
        await coordinator.add_partitions("x", *producer, [T0, gone])
        cluster.refused = {T0}
        await coordinator.end("x", producer, is_commit=True, client_version=2)
        complete = TransactionState.COMPLETE_COMMIT
        await until(lambda: coordinator.describe("x").state is complete)
        assert [each.partitions for each in cluster.markers] == [(T0, gone), (T0,)]

    run(test)


def has_none(_topic: str, _index: int) -> bool:
    return False
