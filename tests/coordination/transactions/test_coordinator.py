"""The coordinator beside its rules: loading, leadership that comes and goes, producer ids."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from coordination.memory_log import MESSAGE_BYTES_MAX, MemoryLog
from coordination.transactions.settings import TransactionSettings
from drumlin.clock import ManualClock
from drumlin.coordination.producer_ids import ProducerIds
from drumlin.coordination.shards.state_batches import Producer
from drumlin.coordination.shards.state_partitions import partition_for
from drumlin.coordination.shards.state_topic import StateTopic
from drumlin.coordination.transactions.coordinator import TransactionCoordinator
from drumlin.coordination.transactions.markers import Marker, TopicPartition
from drumlin.coordination.transactions.records import ID_BYTES_MAX
from drumlin.coordination.transactions.shard import TransactionShard
from drumlin.coordination.transactions.states import TransactionState
from drumlin.metadata.names import TRANSACTION_STATE
from drumlin.metadata.store.store import ProducerIdBlock
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.time.turn_lengths import single_steps
from rig.waiting import eventually

TIMEOUT_MS = 60_000
T0 = ("t", 0)
COUNT = 4


class Cluster:
    """What is around a coordinator: a log, partitions that take markers, blocks of producer ids."""

    def __init__(self, partition_count: int = COUNT, block_size: int = 1000) -> None:
        self.log = MemoryLog(partition_count)
        self.markers: list[Marker] = []
        self.failure: Exception | None = None
        self.refused: set[TopicPartition] = set()
        """Partitions that do not take the next marker."""
        self.blocks = self._count_blocks(block_size)
        self.has_topic = True

    def _count_blocks(self, size: int) -> Iterator[ProducerIdBlock]:
        first = 0
        while True:
            yield ProducerIdBlock(first, size)
            first += size

    async def write_markers(self, marker: Marker) -> dict[TopicPartition, ErrorCode]:
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        self.markers.append(marker)
        codes = dict.fromkeys(marker.partitions, ErrorCode.none)
        codes |= dict.fromkeys(self.refused, ErrorCode.not_leader_or_follower)
        self.refused = set()
        return codes

    def coordinator(self) -> TransactionCoordinator:
        """One that leads nothing yet."""

        async def next_block() -> ProducerIdBlock:
            await asyncio.sleep(0)  # the metadata store takes its time
            return next(self.blocks)

        async def create() -> None:
            self.has_topic = True
            lead(made)

        made = TransactionCoordinator(
            TransactionSettings(),
            ManualClock(),
            StateTopic(
                TRANSACTION_STATE,
                self.log.find,
                self.log.read,
                lambda: COUNT if self.has_topic else None,
                create,
            ),
            ProducerIds(next_block),
            self.write_markers,
            lambda topic, index: True,
            nothing_is_gone,
        )
        return made


async def nothing_is_gone(_: str) -> int:
    return 100


def lead(coordinator: TransactionCoordinator, leader_epoch: int = 0) -> None:
    for partition in range(COUNT):
        coordinator.become_leader(partition, leader_epoch)


async def loaded(coordinator: TransactionCoordinator) -> None:
    for partition in range(COUNT):
        await coordinator._partitions.when_ready(partition)


async def until(condition: Callable[[], bool]) -> None:
    await eventually(condition)


async def refusal(work: Awaitable[object]) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        await work
    return error.value.code


def run(
    test: Callable[[Cluster, TransactionCoordinator], Awaitable[None]],
    cluster: Cluster | None = None,
    leads: bool = True,
) -> None:
    """With a coordinator that has begun, and by default leads all partitions."""

    async def main() -> None:
        around = cluster or Cluster()
        coordinator = around.coordinator()
        coordinator.start()
        if leads:
            lead(coordinator)
            await loaded(coordinator)
        try:
            await asyncio.wait_for(test(around, coordinator), 30)
        finally:
            around.log.gate.set()
            await coordinator.close()

    asyncio.run(main())


async def codes_of_everything(coordinator: TransactionCoordinator) -> set[ErrorCode]:
    """What each request about an id is answered."""
    producer = Producer(0, 0)
    with pytest.raises(KafkaError) as described:
        coordinator.describe("x")
    return {
        await refusal(coordinator.init_producer("x", TIMEOUT_MS, None)),
        await refusal(coordinator.end("x", producer, is_commit=True, client_version=2)),
        *(await coordinator.add_partitions("x", 0, 0, [T0])).values(),
        *(await coordinator.add_partitions("x", 0, 0, [T0], verify_only=True)).values(),
        described.value.code,
    }


def test_before_the_start_and_after_the_end() -> None:
    async def main() -> None:
        coordinator = Cluster().coordinator()
        for _ in range(2):
            codes = await codes_of_everything(coordinator)
            assert codes == {ErrorCode.coordinator_not_available}
            with pytest.raises(KafkaError) as listed:
                coordinator.transactions()
            assert listed.value.code is ErrorCode.coordinator_not_available
            coordinator.start()
            await coordinator.close()

    asyncio.run(main())


def test_of_partitions_that_are_led_elsewhere_nothing_is_known() -> None:
    async def test(_: Cluster, coordinator: TransactionCoordinator) -> None:
        assert await codes_of_everything(coordinator) == {ErrorCode.not_coordinator}
        assert coordinator.transactions() == []

    run(test, leads=False)


def test_while_it_is_loading() -> None:
    async def test(cluster: Cluster, coordinator: TransactionCoordinator) -> None:
        cluster.log.gate.clear()
        lead(coordinator)
        assert await codes_of_everything(coordinator) == {ErrorCode.coordinator_load_in_progress}
        with pytest.raises(KafkaError) as listed:
            coordinator.transactions()
        assert listed.value.code is ErrorCode.coordinator_load_in_progress
        cluster.log.gate.set()
        await loaded(coordinator)
        assert await coordinator.init_producer("x", TIMEOUT_MS, None) == (0, 0)

    run(test, leads=False)


def test_a_partition_that_cannot_be_read() -> None:
    async def test(cluster: Cluster, coordinator: TransactionCoordinator) -> None:
        cluster.log.broken = True
        lead(coordinator)
        await loaded(coordinator)
        assert await codes_of_everything(coordinator) == {ErrorCode.not_coordinator}

    run(test, leads=False)


def test_the_topic_is_created_when_it_is_needed() -> None:
    cluster = Cluster()
    cluster.has_topic = False

    async def test(_: Cluster, coordinator: TransactionCoordinator) -> None:
        assert await coordinator.find_partition("x") == partition_for("x", COUNT)
        assert await coordinator.init_producer("x", TIMEOUT_MS, None) == (0, 0)

    run(test, cluster, leads=False)


def test_leadership_that_goes_while_something_is_written() -> None:
    """The producer is sent to the next coordinator, which has what was written."""

    async def test(cluster: Cluster, coordinator: TransactionCoordinator) -> None:
        producer = await coordinator.init_producer("x", TIMEOUT_MS, None)
        await coordinator.add_partitions("x", *producer, [T0])
        cluster.log.confirmations = []
        ending = asyncio.ensure_future(
            coordinator.end("x", producer, is_commit=True, client_version=2)
        )
        await asyncio.sleep(0)
        partition = partition_for("x", COUNT)
        coordinator.resign(partition)
        for each in cluster.log.confirmations:
            each.set_result(None)
        cluster.log.confirmations = None
        assert await refusal(ending) is ErrorCode.not_coordinator
        assert cluster.markers == []
        coordinator.become_leader(partition, 5)
        await loaded(coordinator)
        await until(lambda: bool(cluster.markers))
        (marker,) = cluster.markers
        assert (marker.is_commit, marker.coordinator_epoch) == (True, 5)
        # It asks again, as if the answer was lost.
        again = await coordinator.end("x", producer, is_commit=True, client_version=2)
        assert again == producer._replace(producer_epoch=1)

    run(test)


def test_leadership_that_goes_while_markers_are_written() -> None:
    """What the former coordinator still hears does not change anything."""

    async def test(cluster: Cluster, coordinator: TransactionCoordinator) -> None:
        producer = await coordinator.init_producer("x", TIMEOUT_MS, None)
        await coordinator.add_partitions("x", *producer, [T0])
        cluster.failure = KafkaError(ErrorCode.not_leader_or_follower)
        timers = len(coordinator._background)
        await coordinator.end("x", producer, is_commit=False, client_version=0)
        await asyncio.sleep(0)
        batches = {index: list(each) for index, each in cluster.log.batches.items()}
        coordinator.resign(partition_for("x", COUNT))
        await until(lambda: len(coordinator._background) == timers)
        assert (cluster.markers, cluster.log.batches) == ([], batches)

    run(test)


@pytest.mark.parametrize("kept", [0, 3])
def test_very_many_partitions_are_told_in_turns(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`kept`: so many of them have their marker only the second time."""
    partitions = [("t", index) for index in range(600)]

    async def test(cluster: Cluster, coordinator: TransactionCoordinator) -> None:
        producer = await coordinator.init_producer("x", TIMEOUT_MS, None)
        await coordinator.add_partitions("x", *producer, partitions)
        cluster.refused = set(partitions[:kept])
        single_steps(monkeypatch)
        await coordinator.end("x", producer, is_commit=True, client_version=2)
        passed = 0
        while coordinator.describe("x").state is not TransactionState.COMPLETE_COMMIT:
            await asyncio.sleep(0 if passed < 3 * len(partitions) else 0.001)
            passed += 1
        assert passed >= 3 * len(partitions)  # whether they are there, which, and what they said
        told = [list(each.partitions) for each in cluster.markers]
        assert told == ([partitions, partitions[:kept]] if kept else [partitions])

    run(test)


@pytest.mark.parametrize("failure", [KafkaError(ErrorCode.unknown_server_error), OSError("odd")])
def test_markers_are_written_whatever_happens(failure: Exception) -> None:
    async def test(cluster: Cluster, coordinator: TransactionCoordinator) -> None:
        producer = await coordinator.init_producer("x", TIMEOUT_MS, None)
        await coordinator.add_partitions("x", *producer, [T0])
        cluster.failure = failure
        await coordinator.end("x", producer, is_commit=True, client_version=2)
        complete = TransactionState.COMPLETE_COMMIT
        await until(lambda: coordinator.describe("x").state is complete)
        assert [each.partitions for each in cluster.markers] == [(T0,)]

    run(test)


def test_producer_ids_that_have_to_be_fetched() -> None:
    """Many producers begin at once, and a block has two ids."""

    async def test(_: Cluster, coordinator: TransactionCoordinator) -> None:
        begun = await asyncio.gather(
            *(coordinator.init_producer(f"id-{n}", TIMEOUT_MS, None) for n in range(21))
        )
        assert len({each.producer_id for each in begun}) == 21
        assert {each.producer_epoch for each in begun} == {0}

    run(test, Cluster(block_size=2))


def test_two_that_begin_at_once() -> None:
    async def test(cluster: Cluster, coordinator: TransactionCoordinator) -> None:
        cluster.log.confirmations = []
        first = asyncio.ensure_future(coordinator.init_producer("x", TIMEOUT_MS, None))
        await until(lambda: bool(cluster.log.confirmations))
        second = refusal(coordinator.init_producer("x", TIMEOUT_MS, None))
        assert await second is ErrorCode.concurrent_transactions
        cluster.log.confirmations[0].set_result(None)
        assert await first == (0, 0)

    run(test)


@pytest.mark.parametrize("size", [0, 32_768])
def test_ids_that_no_record_can_have(size: int) -> None:
    async def test(_: Cluster, coordinator: TransactionCoordinator) -> None:
        name, code = "x" * size, ErrorCode.invalid_request
        assert await refusal(coordinator.init_producer(name, TIMEOUT_MS, None)) is code
        assert await coordinator.add_partitions(name, 0, 0, [T0]) == {T0: code}
        assert coordinator.transactions() == []

    run(test)


def test_the_longest_id() -> None:
    async def test(_: Cluster, coordinator: TransactionCoordinator) -> None:
        assert await coordinator.init_producer("x" * 32_767, TIMEOUT_MS, None) == (0, 0)

    run(test)


def test_a_transaction_that_becomes_too_large_for_a_record() -> None:
    """It is refused, and its transaction stays open."""

    async def test(cluster: Cluster, coordinator: TransactionCoordinator) -> None:
        producer = await coordinator.init_producer("x", TIMEOUT_MS, None)
        await coordinator.add_partitions("x", *producer, [T0])
        cluster.log.error = ErrorCode.message_too_large
        codes = await coordinator.add_partitions("x", *producer, [("u", 1), ("u", 2)])
        assert set(codes.values()) == {ErrorCode.unknown_server_error}
        cluster.log.error = None
        assert coordinator.describe("x").partitions == {T0}
        assert await coordinator.end("x", producer, is_commit=True, client_version=2) == (0, 1)

    run(test)


def test_long_ids_expire_in_several_batches() -> None:
    async def test(_: Cluster, coordinator: TransactionCoordinator) -> None:
        names = ["".join(each) for each in itertools.product("048x", repeat=3)][:40]
        ids = [each.ljust(ID_BYTES_MAX, "x") for each in names]
        assert partition_for(ids[0], COUNT) == partition_for(ids[-1], COUNT)
        for each in ids:
            await coordinator.init_producer(each, TIMEOUT_MS, None)
        assert isinstance(coordinator._clock, ManualClock)
        coordinator._clock.advance_ms(TransactionSettings.transactional_id_expiration_ms)
        await coordinator.expire()
        assert coordinator.transactions() == []

    run(test)


def test_a_transaction_that_is_too_large_to_be_ended_cannot_become_so_large() -> None:
    async def test(around: Cluster, coordinator: TransactionCoordinator) -> None:
        who = await coordinator.init_producer("x", TIMEOUT_MS, None)

        async def add(*partitions: TopicPartition) -> bool:
            added = await coordinator.add_partitions("x", *who, partitions, client_version=0)
            assert set(added.values()) <= {ErrorCode.none, ErrorCode.unknown_server_error}
            return ErrorCode.unknown_server_error not in added.values()

        count = MESSAGE_BYTES_MAX // (240 + 8) - 2
        assert await add(*((f"{each:0240d}", 0) for each in range(count)))
        for length in (200, 100, 50, 25, 10, 5, 3):
            number = 0
            while await add((f"{number}".ljust(length, "x"), 0)):
                number += 1
        assert isinstance(coordinator._clock, ManualClock)
        coordinator._clock.advance_ms(TIMEOUT_MS + 1)
        await coordinator.abort_timed_out()
        await until(lambda: coordinator.describe("x").state is TransactionState.COMPLETE_ABORT)
        assert not around.markers[0].is_commit

    run(test)


def test_very_many_ids_are_looked_at_in_steps() -> None:
    shard = TransactionShard(0)
    for each in range(5_000):
        transaction: Any = SimpleNamespace(number=each)
        shard.transactions[f"x{each}"] = transaction

    def is_meant(each: Any) -> bool:
        return bool(each.number % 2)

    found = list(shard.chosen(is_meant))
    assert len(found) >= 5
    assert [each.number for some in found for each in some] == list(range(1, 5_000, 2))  # type: ignore[attr-defined]
