"""The coordinator over a log in memory: waiting, loading, failing, expiring."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest

from coordination.groups.classic.scenario import subscription
from coordination.memory_log import (
    TOPIC_ID,
    KnownTopics,
    MemoryLog,
    lead_all,
    new_coordinator,
    wake,
)
from coordination.settings import Settings
from drumlin.clock import ManualClock, SystemClock
from drumlin.coordination.groups.classic.records import GroupKey
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.every_kind.messages import (
    JoinAnswer,
    JoinRequest,
    LeavingMember,
    SyncRequest,
)
from drumlin.coordination.groups.every_kind.states import GroupState
from drumlin.coordination.groups.offsets.commit import Commit
from drumlin.coordination.groups.offsets.offset_records import OffsetKey
from drumlin.coordination.groups.shard.record_registry import decode_key
from drumlin.coordination.shards.state_partitions import partition_for
from drumlin.records.batch.batch import parse_header
from drumlin.turns import to_end
from drumlin.wire.by_hand.commit_request import TopicOffsets
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.data.committed_offsets import commit_offsets, fetch_offsets
from rig.data.committed_offsets import position as a_position
from rig.waiting import eventually

DAY_MS = 86_400_000
Run = Callable[[GroupCoordinator, MemoryLog, ManualClock], Awaitable[None]]


def with_coordinator(run: Run, settings: Settings | None = None) -> None:
    """Run it with a coordinator that leads and has loaded all partitions."""

    async def main() -> None:
        log, clock = MemoryLog(), ManualClock()
        coordinator = new_coordinator(log, settings, clock)
        coordinator.start()
        lead_all(coordinator, log)
        await loaded(coordinator)
        try:
            await asyncio.wait_for(run(coordinator, log, clock), 20)
        finally:
            await coordinator.close()

    asyncio.run(main())


async def until(condition: Callable[[], bool]) -> None:
    await eventually(condition)


async def loaded(coordinator: GroupCoordinator) -> None:
    await until(lambda: _can_be_asked(coordinator))


def _can_be_asked(coordinator: GroupCoordinator) -> bool:
    try:
        coordinator.groups()
    except KafkaError as refusal:
        assert refusal.code is ErrorCode.coordinator_load_in_progress
        return False
    return True


def position(
    offset: int = 5, metadata: str = "", partition: int = 0, topic: str = "t"
) -> TopicOffsets:
    return a_position(topic, TOPIC_ID, partition, offset, -1, metadata)


def commit(group_id: str, *positions: TopicOffsets, retention_ms: int | None = None) -> Commit:
    return Commit(group_id, "", None, -1, retention_ms, positions or (position(),))


async def committed(coordinator: GroupCoordinator, group_id: str) -> dict[tuple[str, int], int]:
    return {
        (topic, partition): found.offset
        for topic, partitions in await fetch_offsets(coordinator, group_id, None)
        for partition, found in partitions
        if found is not None
    }


async def join(
    coordinator: GroupCoordinator, clock: ManualClock, group_id: str, topics: str = "t"
) -> JoinAnswer:
    """A member alone in its group, up to a stable generation."""
    request = JoinRequest(
        "", None, "c", "/h", 60_000, 10_000, "consumer", (("range", subscription(topics)),), False
    )
    waiting = coordinator.join(group_id, request)
    clock.advance_ms(3_000)
    wake(coordinator)
    answer = await waiting
    sync = SyncRequest(answer.member_id, None, answer.generation_id, None, None, ())
    assert (await coordinator.sync(group_id, sync)).error is ErrorCode.none
    return answer


@pytest.mark.parametrize(
    ("group_id", "partition"),
    # As Apache Kafka 4.3 placed them among 50.
    [("coord-g1", 46), ("coord-g2", 45), ("", 0), ("группа", 8), ("😀", 49)],
)
def test_groups_hash_as_in_java(group_id: str, partition: int) -> None:
    assert partition_for(group_id, 50) == partition


def test_the_smallest_hash_counts_as_zero() -> None:
    assert partition_for("polygenelubricants", 50) == 0  # its hash is -2^31


def test_commits_come_back_and_survive_a_restart() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        codes = await commit_offsets(
            coordinator,
            commit("g", position(5, "x"), position(6, "y" * 4097), position(7, "z" * 4096, 1)),
        )
        assert codes == [ErrorCode.none, ErrorCode.offset_metadata_too_large, ErrorCode.none]
        member = await join(coordinator, clock, "members")
        again = new_coordinator(log, clock=clock)
        again.start()
        lead_all(again, log)
        await loaded(again)
        assert await committed(again, "g") == {("t", 0): 5, ("t", 1): 7}
        group = again.group("members")
        assert (group.state, group.generation_id) == (GroupState.STABLE, 1)
        again.heartbeat("members", member.member_id, None, 1)
        await again.close()

    with_coordinator(run)


def test_a_commit_is_answered_once_it_is_confirmed() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, _: ManualClock) -> None:
        log.confirmations = []
        waiting = asyncio.ensure_future(commit_offsets(coordinator, commit("g")))
        fetching = asyncio.ensure_future(fetch_offsets(coordinator, "g", None))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        assert not fetching.done()  # what is not confirmed is not shown either
        log.confirmations[0].set_result(None)
        assert await waiting == [ErrorCode.none]
        assert len(await fetching) == 1

    with_coordinator(run)


def test_a_commit_that_is_not_confirmed_in_time_fails() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, _: ManualClock) -> None:
        log.confirmations = []
        with pytest.raises(KafkaError) as refusal:
            await commit_offsets(coordinator, commit("g"))
        assert refusal.value.code is ErrorCode.coordinator_not_available
        with pytest.raises(KafkaError) as refusal:
            await fetch_offsets(coordinator, "g", None)
        assert refusal.value.code is ErrorCode.not_coordinator

    with_coordinator(run, Settings(offsets_commit_timeout_ms=20))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.not_enough_replicas, ErrorCode.coordinator_not_available),
        (ErrorCode.not_leader_or_follower, ErrorCode.not_coordinator),
        (ErrorCode.kafka_storage_error, ErrorCode.not_coordinator),
        (ErrorCode.message_too_large, ErrorCode.unknown_server_error),
    ],
)
def test_a_log_that_fails(error: ErrorCode, told: ErrorCode) -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        await commit_offsets(coordinator, commit("g", position(1)))
        log.error = error
        with pytest.raises(KafkaError) as refusal:
            await commit_offsets(coordinator, commit("g", position(2)))
        assert refusal.value.code is told
        assert await committed(coordinator, "g") == {("t", 0): 1}
        request = JoinRequest("", None, "c", "/h", 1, 10_000, "consumer", (("range", b""),), False)
        assert (await coordinator.join("new", request)).error is told
        with pytest.raises(KafkaError) as refusal:
            coordinator.group("new")
        assert refusal.value.code is ErrorCode.group_id_not_found
        log.error = None
        await join(coordinator, clock, "new")

    with_coordinator(run)


def test_before_it_leads_and_while_it_loads() -> None:
    async def main() -> None:
        log = MemoryLog()
        log.gate.clear()
        coordinator = new_coordinator(log)
        assert _refusal(coordinator) is ErrorCode.coordinator_not_available
        coordinator.start()
        assert _refusal(coordinator) is ErrorCode.not_coordinator
        lead_all(coordinator, log)
        assert _refusal(coordinator) is ErrorCode.coordinator_load_in_progress
        coordinator.heartbeat("g", "m", None, 1)  # no member is thrown out meanwhile
        with pytest.raises(KafkaError):
            coordinator.groups()
        log.gate.set()
        await loaded(coordinator)
        assert _refusal(coordinator) is ErrorCode.group_id_not_found
        await coordinator.close()

    def _refusal(coordinator: GroupCoordinator) -> ErrorCode:
        with pytest.raises(KafkaError) as refusal:
            coordinator.group("g")
        return refusal.value.code

    asyncio.run(main())


def test_leadership_that_is_lost_while_loading() -> None:
    async def main() -> None:
        log = MemoryLog(1)
        log.gate.clear()
        coordinator = new_coordinator(log)
        coordinator.start()
        coordinator.become_leader(0, 0)
        coordinator.resign(0)
        coordinator.become_leader(0, 2)
        log.gate.set()
        await loaded(coordinator)
        assert await commit_offsets(coordinator, commit("g")) == [ErrorCode.none]
        coordinator.resign(0)
        with pytest.raises(KafkaError) as refusal:
            commit_offsets(coordinator, commit("g"))
        assert refusal.value.code is ErrorCode.not_coordinator
        await coordinator.close()

    asyncio.run(main())


def test_a_partition_that_cannot_be_read_is_not_coordinated() -> None:
    async def main() -> None:
        log = MemoryLog(1)
        log.broken = True
        coordinator = new_coordinator(log)
        coordinator.start()
        coordinator.become_leader(0, 0)
        await coordinator._partitions.when_ready(0)
        with pytest.raises(KafkaError) as refusal:
            coordinator.group("g")
        assert refusal.value.code is ErrorCode.not_coordinator
        assert coordinator.groups() == []
        await coordinator.close()

    asyncio.run(main())


def test_those_who_wait_are_told_when_leadership_is_lost() -> None:
    async def run(coordinator: GroupCoordinator, _: MemoryLog, __: ManualClock) -> None:
        request = JoinRequest("", None, "c", "/h", 1, 10_000, "consumer", (("range", b""),), False)
        waiting = coordinator.join("g", request)
        coordinator.resign(partition_for("g", 4))
        assert (await waiting).error is ErrorCode.not_coordinator

    with_coordinator(run)


def test_the_topic_is_created_when_a_coordinator_is_looked_for() -> None:
    async def main() -> None:
        log = MemoryLog()
        log.partition_count = None
        coordinator = new_coordinator(log)
        coordinator.start()
        assert await coordinator.find_partition("g") == partition_for("g", 4)
        assert await commit_offsets(coordinator, commit("g")) == [ErrorCode.none]
        await coordinator.close()

    asyncio.run(main())


def test_deadlines_come_by_themselves() -> None:
    """With the machine's clock: an alarm of the loop wakes the group."""

    async def main() -> None:
        log = MemoryLog()
        settings = Settings(group_initial_rebalance_delay_ms=10, group_min_session_timeout_ms=1)
        coordinator = new_coordinator(log, settings, SystemClock())
        coordinator.start()
        lead_all(coordinator, log)
        await loaded(coordinator)
        request = JoinRequest("", None, "c", "/h", 60_000, 30, "consumer", (("range", b""),), False)
        answer = await asyncio.wait_for(asyncio.ensure_future(coordinator.join("g", request)), 10)
        assert answer.generation_id == 1
        # Then its session ends.
        await until(lambda: coordinator.group("g").state is GroupState.EMPTY)
        await coordinator.close()

    asyncio.run(main())


# -- expiry and deletion -----------------------------------------------------------------------


def test_offsets_expire_after_their_retention() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        await commit_offsets(coordinator, commit("simple", position(1)))
        await commit_offsets(coordinator, commit("explicit", position(1), retention_ms=DAY_MS))
        member = await join(coordinator, clock, "live", topics="t")
        live = Commit(
            "live", member.member_id, None, 1, None, (position(1), position(2, topic="u"))
        )
        assert await commit_offsets(coordinator, live) == [ErrorCode.none] * 2
        clock.advance_ms(DAY_MS)
        await commit_offsets(coordinator, commit("simple", position(1, partition=1)))
        await coordinator.expire_offsets()
        assert {group.group_id for group in coordinator.groups()} == {"simple", "live"}
        clock.advance_ms(6 * DAY_MS)
        await coordinator.expire_offsets()
        # What a live member reads stays; what it has ceased to read goes.
        assert await committed(coordinator, "simple") == {("t", 1): 1}
        assert await committed(coordinator, "live") == {("t", 0): 1}
        await coordinator.leave("live", [LeavingMember(member.member_id)])
        clock.advance_ms(7 * DAY_MS - 1)
        await coordinator.expire_offsets()
        assert await committed(coordinator, "live") == {("t", 0): 1}
        clock.advance_ms(1)
        await coordinator.expire_offsets()
        assert coordinator.groups() == []
        assert _what_remains(log) == {}

    with_coordinator(run)


def test_groups_are_deleted_with_their_offsets() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        member = await join(coordinator, clock, "g")
        with pytest.raises(KafkaError) as refusal:
            to_end(coordinator.delete("g"))
        assert refusal.value.code is ErrorCode.non_empty_group
        await coordinator.leave("g", [LeavingMember(member.member_id)])
        await commit_offsets(coordinator, commit("g", position(1), position(2, partition=1)))
        assert await to_end(coordinator.delete("g")) is ErrorCode.none
        with pytest.raises(KafkaError) as refusal:
            to_end(coordinator.delete("g"))
        assert refusal.value.code is ErrorCode.group_id_not_found
        assert _what_remains(log) == {}

    with_coordinator(run)


def test_offsets_that_members_read_are_not_deleted() -> None:
    async def run(coordinator: GroupCoordinator, _: MemoryLog, clock: ManualClock) -> None:
        member = await join(coordinator, clock, "g", topics="t")
        positions = (position(1), position(2, topic="u"))
        await commit_offsets(coordinator, Commit("g", member.member_id, None, 1, None, positions))
        codes = await to_end(coordinator.delete_offsets("g", [("t", 0), ("u", 0), ("v", 0)]))
        assert codes == [ErrorCode.group_subscribed_to_topic, ErrorCode.none, ErrorCode.none]
        assert await committed(coordinator, "g") == {("t", 0): 1}

    with_coordinator(run)


def test_a_deleted_topic_takes_its_offsets_along() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, _: ManualClock) -> None:
        successor = position(2, partition=1)._replace(topic_id=UUID(int=8))
        for group_id in ("g", "h"):
            await commit_offsets(coordinator, commit(group_id, position(1), successor))
        coordinator.topic_deleted("t", TOPIC_ID)
        await until(lambda: len(_what_remains(log)) == 2)
        # The successor's stays.
        assert {key.partition for key in _what_remains(log) if isinstance(key, OffsetKey)} == {1}

    with_coordinator(run)


async def with_topics(topics: KnownTopics, log: MemoryLog, clock: ManualClock) -> GroupCoordinator:
    """A coordinator that has loaded what the log says, with these topics."""
    coordinator = new_coordinator(log, Settings(), clock, topics)
    coordinator.start()
    lead_all(coordinator, log)
    await loaded(coordinator)
    return coordinator


def test_offsets_of_a_deleted_topic_are_not_its_successors() -> None:
    """Whether or not they are in the log still: between the deletion and the tombstones."""

    async def main() -> None:
        log, clock, topics = MemoryLog(), ManualClock(), KnownTopics()
        topics.put("t", 2, TOPIC_ID)
        topics.put("u", 1, UUID(int=9))
        coordinator = await with_topics(topics, log, clock)
        elsewhere = position(7, topic="u")._replace(topic_id=UUID(int=9))
        unmarked = position(8, partition=1)._replace(topic_id=None)  # as older brokers wrote it
        await commit_offsets(coordinator, commit("g", position(5), unmarked, elsewhere))
        topics.remove("t")
        topics.put("t", 2, UUID(int=8))
        assert await committed(coordinator, "g") == {("t", 1): 8, ("u", 0): 7}
        (found,) = await fetch_offsets(coordinator, "g", [("t", (0,))])
        assert found == ("t", [(0, None)])

        again = await with_topics(topics, log, clock)  # it never heard of the deletion
        await until(lambda: len(_offsets_in(log)) == 2)
        assert await committed(again, "g") == {("t", 1): 8, ("u", 0): 7}
        await coordinator.close()
        await again.close()

    asyncio.run(main())


def test_a_deleted_topics_offsets_go_once_the_log_can_be_written() -> None:
    async def main() -> None:
        log, clock, topics = MemoryLog(), ManualClock(), KnownTopics()
        topics.put("t", 2, TOPIC_ID)
        coordinator = new_coordinator(
            log, Settings(offsets_retention_check_interval_ms=1), clock, topics
        )
        coordinator.start()
        lead_all(coordinator, log)
        await loaded(coordinator)
        unmarked = position(8, partition=1)._replace(topic_id=None)
        await commit_offsets(coordinator, commit("g", position(5), unmarked))
        log.error = ErrorCode.kafka_storage_error  # full, say
        coordinator.topic_deleted("t", topics.remove("t").topic_id)
        topics.put("t", 2, UUID(int=8))
        await asyncio.sleep(0.01)
        assert len(_offsets_in(log)) == 2
        log.error = None
        await until(lambda: not _offsets_in(log))
        assert await committed(coordinator, "g") == {}
        await coordinator.close()

    asyncio.run(main())


def _offsets_in(log: MemoryLog) -> list[object]:
    return [key for key in _what_remains(log) if isinstance(key, OffsetKey)]


@pytest.mark.parametrize("codec", range(5))
def test_batches_are_compressed_as_configured(codec: int) -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        await commit_offsets(coordinator, commit("g", position(5)))
        (batch,) = log.batches[partition_for("g", 4)]
        assert parse_header(batch).compression == codec
        again = new_coordinator(log, clock=clock)
        again.start()
        lead_all(again, log)
        await loaded(again)
        assert await committed(again, "g") == {("t", 0): 5}
        await again.close()

    with_coordinator(run, Settings(offsets_topic_compression_codec=codec))


def _what_remains(log: MemoryLog) -> dict[OffsetKey | GroupKey | None, bytes]:
    """What a compacted log would keep."""
    remains = {}
    for record in log.records():
        assert record.key is not None
        key = decode_key(record.key)
        if record.value is None:
            remains.pop(key, None)
        else:
            remains[key] = record.value
    return remains


def test_names_that_fit_into_no_record() -> None:
    """They are refused, and the next member finds the group as it was."""

    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        long = "x" * 40_000
        for group_id, topic in (("g", long), (long, "t")):
            one = a_position(topic, None, 0, 1)
            with pytest.raises(KafkaError) as refusal:
                await commit_offsets(coordinator, Commit(group_id, "", None, -1, None, [one]))
            assert refusal.value.code is ErrorCode.invalid_request
        one = a_position("t", None, 0, 1)
        await commit_offsets(coordinator, Commit("g", "", None, -1, None, [one]))
        ((_, [(_, committed)]),) = await fetch_offsets(coordinator, "g", None)
        assert committed is not None
        assert committed.offset == 1

    with_coordinator(run)
