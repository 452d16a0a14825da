"""A broker ends while a group is converted: of several batches, the log has but the first ones.

Kafka would not convert such a group, as its records are one batch. Whatever is loaded here, the
clients of the group get into it again.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordination import memory_log
from coordination.classic_members import (
    MEMBERS,
    REBALANCE_MS,
    Members,
    request,
    single_step,
    some_turns,
)
from coordination.memory_log import (
    TOPIC_ID,
    KnownTopics,
    MemoryLog,
    lead_all,
    new_coordinator,
    wake,
)
from coordination.test_group_coordinator import loaded, with_coordinator
from coordination.test_upgrades_in_turns import NOTHING, SETTINGS, stable, upgrade
from drumlin.clock import ManualClock
from drumlin.coordination.groups import upgrade_execution
from drumlin.coordination.groups.classic.messages import SyncRequest
from drumlin.coordination.groups.consumer import conversion
from drumlin.coordination.groups.consumer.messages import HeartbeatRequest
from drumlin.coordination.groups.coordinator import GroupCoordinator
from drumlin.wire.errors import ErrorCode, KafkaError

#: So that a conversion is several batches; all members of a classic group are one record.
_BATCH_BYTES = 1_000
_NEXT_TIME = {
    ErrorCode.illegal_generation,
    ErrorCode.rebalance_in_progress,
    ErrorCode.coordinator_load_in_progress,
}
_PARTITIONS = 2
#: Heartbeats.
_PATIENCE, _QUIET = 500, 12


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    single_step(monkeypatch)
    monkeypatch.setattr(upgrade_execution, "_MEMBERS_AT_ONCE", 2)
    monkeypatch.setattr(conversion, "_DOWNGRADED_AT_ONCE", 2)


async def _leading(log: MemoryLog, clock: ManualClock) -> GroupCoordinator:
    topics = KnownTopics()
    topics.put("t", _PARTITIONS, TOPIC_ID)
    coordinator = new_coordinator(log, SETTINGS, clock, topics)
    coordinator.start()
    lead_all(coordinator, log)
    await loaded(coordinator)
    return coordinator


async def _converted(
    coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock, to: str
) -> tuple[Members, list[MemoryLog]]:
    """What the log may say, whenever it ends in the midst of the conversion."""
    members = await stable(coordinator, clock)
    before = _count(log)
    await upgrade(coordinator)
    await some_turns(200)
    if to == "classic":
        leaving = HeartbeatRequest("m", -1, "c", "/h", None, None, None, None)
        await coordinator.consumer_heartbeat("g", leaving)
        before = _count(log)
        for _ in range(2_000):
            if coordinator.group("g").kind.value == "Classic":
                break
            await asyncio.sleep(0.001)
    assert coordinator.group("g").kind.value.lower() == to
    return members, [_first(log, count) for count in range(before, _count(log) + 1)]


def _count(log: MemoryLog) -> int:
    (batches,) = [each for each in log.batches.values() if each]
    return len(batches)


def _first(log: MemoryLog, count: int) -> MemoryLog:
    cut = MemoryLog()
    cut.batches = {partition: each[:count] for partition, each in log.batches.items()}
    return cut


class _Client:
    """A member of the classic protocol, which does what it is told."""

    def __init__(self, member: Any) -> None:
        self.member_id, self.generation = member.member_id, member.generation_id
        self.instance_id = "static" if member.member_id.startswith("static") else None
        self.is_assigned = True

    async def go_on(self, coordinator: GroupCoordinator) -> None:
        try:
            if self.is_assigned:
                coordinator.heartbeat("g", self.member_id, self.instance_id, self.generation)
                return
            joined = await coordinator.join("g", request(self.member_id, self.instance_id))
            _check(joined.error)
            self.member_id, self.generation = joined.member_id, joined.generation_id
            said = [(each.member_id, NOTHING) for each in joined.members]
            synced = await coordinator.sync(
                "g",
                SyncRequest(
                    self.member_id, self.instance_id, self.generation, "consumer", "range", said
                ),
            )
            _check(synced.error)
            self.is_assigned = True
        except KafkaError as refusal:
            self.is_assigned = False
            if refusal.code is ErrorCode.unknown_member_id:
                self.member_id = ""
            else:
                assert refusal.code in _NEXT_TIME


def _check(error: ErrorCode) -> None:
    if error is not ErrorCode.none:
        raise KafkaError(error)


async def _settled(
    coordinator: GroupCoordinator, clock: ManualClock, clients: list[_Client]
) -> None:
    working: dict[_Client, asyncio.Future[None]] = {}
    quiet = 0
    for _ in range(_PATIENCE):
        for each in clients:
            if each not in working or working[each].done():
                working[each] = asyncio.ensure_future(each.go_on(coordinator))
        await some_turns(200)
        await asyncio.sleep(0.001)  # something may be done in a thread
        clock.advance_ms(REBALANCE_MS // 4)
        wake(coordinator)
        quiet = quiet + 1 if all(each.is_assigned for each in clients) else 0
        if quiet == _QUIET:
            break
    await asyncio.wait_for(asyncio.gather(*working.values()), 10)


@pytest.mark.parametrize("to", ["consumer", "classic"])
def test_clients_get_into_what_is_loaded(to: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_log, "MESSAGE_BYTES_MAX", _BATCH_BYTES)

    async def run(_: GroupCoordinator, __: MemoryLog, clock: ManualClock) -> None:
        log = MemoryLog()
        coordinator = await _leading(log, clock)
        members, logs = await _converted(coordinator, log, clock, to)
        await coordinator.close()
        assert len(logs) > 3
        for cut in logs:
            again = await _leading(cut, clock)
            clients = [_Client(each) for each in members]
            await _settled(again, clock, clients)
            assert all(each.is_assigned for each in clients)
            assert len({each.member_id for each in clients}) == MEMBERS
            assert {each.member_id for each in clients} <= _member_ids(again)
            await again.close()

    with_coordinator(run, SETTINGS)


class _FullLog(MemoryLog):
    """It takes so many batches, then none for a while."""

    room = 1_000

    def append(self, *args: Any, **how: Any) -> Any:
        if not self.room:
            raise KafkaError(ErrorCode.kafka_storage_error)
        self.room -= 1
        return super().append(*args, **how)


@pytest.mark.parametrize("written", [0, 1, 2])
@pytest.mark.parametrize("to", ["consumer", "classic"])
def test_the_device_becomes_full(to: str, written: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_log, "MESSAGE_BYTES_MAX", _BATCH_BYTES)

    async def run(_: GroupCoordinator, __: MemoryLog, clock: ManualClock) -> None:
        log = _FullLog()
        coordinator = await _leading(log, clock)
        members = await stable(coordinator, clock)
        if to == "classic":
            await upgrade(coordinator)
            await some_turns(200)
            leaving = HeartbeatRequest("m", -1, "c", "/h", None, None, None, None)
            await coordinator.consumer_heartbeat("g", leaving)
            log.room = written
        else:
            log.room = written
            with pytest.raises(KafkaError):
                await upgrade(coordinator)
        for _ in range(100):
            await asyncio.sleep(0.001)
        assert not log.room
        again = await _leading(log, clock)
        assert [each.kind for each in again.groups()] == [
            each.kind for each in coordinator.groups()
        ]
        assert _member_ids(again) == _member_ids(coordinator)
        await again.close()
        log.room = 1_000
        clients = [_Client(each) for each in members]
        await _settled(coordinator, clock, clients)
        assert {each.member_id for each in clients} <= _member_ids(coordinator)
        await coordinator.close()

    with_coordinator(run, SETTINGS)


def _member_ids(coordinator: GroupCoordinator) -> set[str]:
    groups: list[Any] = list(coordinator.groups())
    return {
        member_id
        for each in groups
        for member_id in (
            each.members if each.kind.value == "Consumer" else each.membership.members
        )
    }
