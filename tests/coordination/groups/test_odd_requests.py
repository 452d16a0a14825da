"""Requests that no proper client makes, and logs that no broker has written: nothing gets stuck."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from uuid import UUID

import pytest

from coordination.groups.coordinator.test_group_coordinator import loaded
from coordination.groups.share.share_world import ShareWorld, run
from coordination.memory_log import KnownTopics, MemoryLog, lead_all, new_coordinator
from drumlin.coordination.groups.consumer.messages import HeartbeatAnswer, HeartbeatRequest
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.every_kind.messages import JoinRequest
from drumlin.coordination.regexes import compile_regex
from drumlin.coordination.shards.state_partitions import StatePartitions
from drumlin.coordination.share.delivery.settings import Settings
from drumlin.coordination.share.delivery.share_partition import SharePartition
from drumlin.coordination.share.state.state import StateBatch
from drumlin.wire.error_codes import ErrorCode, KafkaError


async def _beat(
    coordinator: GroupCoordinator, member_id: str, epoch: int, instance_id: str
) -> HeartbeatAnswer:
    request = HeartbeatRequest(
        member_id,
        epoch,
        "client",
        "/host",
        group_instance_id=instance_id,
        rebalance_timeout_ms=1000,
        topics=frozenset({"t"}),
        owned={} if epoch == 0 else None,
    )
    return await coordinator.consumer_heartbeat("g", request)


def test_an_instance_is_free_when_its_member_calls_itself_another() -> None:
    async def main() -> None:
        log, topics = MemoryLog(), KnownTopics()
        topics.put("t", 2)
        coordinator = new_coordinator(log, topics=topics)
        coordinator.start()
        lead_all(coordinator, log)
        for partition in range(log.partition_count or 0):
            await coordinator._partitions.when_ready(partition)
        for instance_id in ("one", "two"):
            await _beat(coordinator, "a", 0, instance_id)
        assert (await _beat(coordinator, "b", 0, "one")).member_id == "b"
        await _beat(coordinator, "a", -1, "two")
        await _beat(coordinator, "b", -1, "one")
        assert (await _beat(coordinator, "c", 0, "two")).member_id == "c"
        await coordinator.close()

    asyncio.run(main())


def test_who_waits_for_a_partition_hears_of_any_failure() -> None:
    def read(partition: int, is_cancelled: object) -> None:
        raise LookupError("an error that was not foreseen")

    async def main() -> None:
        partitions: StatePartitions[object, None] = StatePartitions(
            "topic", lambda _: object(), read, lambda _, __: iter(()), lambda _: None
        )
        partitions.begin(0, 0)
        assert await asyncio.wait_for(partitions.when_ready(0), 20) is None
        with pytest.raises(KafkaError) as refused:
            partitions.shard(0)
        assert refused.value.code is ErrorCode.not_coordinator
        await partitions.close()

    asyncio.run(main())


def test_a_topic_that_is_named_twice_is_altered_once() -> None:
    async def scenario(world: ShareWorld) -> None:
        topic = world.topics.put("t", 2)
        (outcome,) = await world.share.alter_offsets("g", [("t", {0: 4}), ("t", {1: 5, 9: 0})])
        assert [each for each, error in outcome.partitions.items() if error is None] == [0, 1]
        for partition, start_offset in ((0, 4), (1, 5)):
            state = await world.states.summary("g", topic.topic_id, partition)
            assert state.start_offset == start_offset

    run(scenario)


@pytest.mark.parametrize(
    "pattern",
    [
        r"\pL" * 17,
        r"[\pL\pN]" * 512,
        "(?i)" + r"\PL" * 1000,
        "|".join([r"\pL\pN"] * 500),
        r"(((a{10}){10}){10})" * 150,
        "x" * 4097,
    ],
)
def test_patterns_that_cost_much_are_refused_before_they_cost_it(pattern: str) -> None:
    with pytest.raises(KafkaError) as refused:
        compile_regex(pattern)
    assert refused.value.code is ErrorCode.invalid_regular_expression


def test_ordinary_patterns_are_no_trouble() -> None:
    names = "|".join(f"topic-{number}" for number in range(300))
    assert compile_regex(names).fullmatch("topic-299")
    assert compile_regex(r"(?i)[\pL\pN_.-]+\.(v1|v2)").fullmatch("Größe-7.V2")


def test_patterns_that_take_long_to_compile_are_refused() -> None:
    with pytest.raises(KafkaError) as refused:
        compile_regex(r"(?i)" + r"\pL|" * 3000)
    assert refused.value.code is ErrorCode.invalid_regular_expression
    assert compile_regex("|".join(f"topic-{n}" for n in range(300))).fullmatch("topic-299")


def test_a_topic_that_goes_while_it_is_initialised_throws_nobody_out() -> None:
    async def scenario(world: ShareWorld) -> None:
        topic = world.topics.put("t", 1)
        known = world.topics.put("known", 1)
        begin = world.states.initialize

        async def initialize(group_id: str, topic_id: UUID, *rest: int) -> None:
            if topic_id == topic.topic_id:
                world.topics.remove("t")
            await begin(group_id, topic_id, *rest)

        world.states.initialize = initialize  # type: ignore[method-assign, assignment]
        answer = await world.beat("a", 0, "t", "known")
        assert answer.assignment == {known.topic_id: (0,)}

    run(scenario)


@pytest.mark.parametrize("kept", [1, 7, -1])
def test_a_state_of_records_that_means_nothing_holds_nothing_up(kept: int) -> None:
    """A client that may write share state can write any number."""
    loaded = SharePartition.load(Settings, 0, [StateBatch(0, 5, kept, 1), StateBatch(6, 6, 2, 1)])
    assert (loaded.next_fetch_offset, loaded.end_offset) == (0, 7)


def test_what_a_member_says_of_itself_is_bounded() -> None:
    """It would stay in memory for as long as the session lasts, and anyone can send it."""

    async def main() -> None:
        log = MemoryLog()
        coordinator = new_coordinator(log)
        coordinator.start()
        lead_all(coordinator, log)
        await loaded(coordinator)
        protocols = (("range", bytes(3 << 20)), ("roundrobin", bytes(2 << 20)))
        request = JoinRequest("", None, "c", "/h", 60_000, 10_000, "consumer", protocols, False)
        with pytest.raises(KafkaError) as refused:
            coordinator.join("g", request)
        assert refused.value.code is ErrorCode.invalid_request
        assert not coordinator.groups()
        await coordinator.close()

    asyncio.run(main())


def test_loading_ends_when_the_partition_is_led_elsewhere() -> None:
    class EndlessLog(MemoryLog):
        def read(self, partition: int) -> Iterator[bytes]:
            began.set()
            while not is_over.is_set():
                yield b""
            ended.set()

    began, ended, is_over = threading.Event(), threading.Event(), threading.Event()

    async def main() -> None:
        coordinator = new_coordinator(EndlessLog())
        coordinator.start()
        coordinator.become_leader(0, 0)
        await asyncio.to_thread(began.wait, 20)
        coordinator.resign(0)
        await asyncio.wait_for(coordinator.close(), 20)  # which waits for what loads
        assert not ended.is_set()

    try:
        asyncio.run(main())
    finally:
        is_over.set()
