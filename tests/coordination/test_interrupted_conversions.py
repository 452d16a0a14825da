"""A broker ends while a group is converted: of several batches, the log has but the first ones.

Kafka would not convert such a group, as its records are one batch. Here they count together: what
is loaded is the group as it was or the one that it has become, and nothing between them.
"""

from __future__ import annotations

import asyncio
import copy
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
    FullLog,
    KnownTopics,
    MemoryLog,
    lead_all,
    new_coordinator,
    wake,
)
from coordination.test_group_coordinator import loaded, until, with_coordinator
from coordination.test_upgrades_in_turns import NOTHING, SETTINGS, stable, upgrade
from drumlin.clock import ManualClock
from drumlin.coordination.groups.consumer import conversion
from drumlin.coordination.groups.consumer.messages import HeartbeatRequest
from drumlin.coordination.groups.coordinator import atomic_writer, upgrades
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.coordinator.downgrades import Downgrades
from drumlin.coordination.groups.coordinator.upgrades import Upgrades
from drumlin.coordination.groups.every_kind.messages import SyncRequest
from drumlin.coordination.groups.shard.log import load
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.waiting import eventually

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
    monkeypatch.setattr(upgrades, "_MEMBERS_AT_ONCE", 2)
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
        await eventually(lambda: coordinator.group("g").kind.value == "Classic")
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
    await asyncio.wait_for(asyncio.gather(*working.values()), 60)


def _said(group: Any) -> Any:
    """What the log is to say of a group."""
    if group.kind.value == "Consumer":
        return group.members, group.targets, group.epoch, group.target_epoch, group.owners
    members = group.membership.members.values()
    return group.generation_id, {
        each.member_id: (
            each.group_instance_id,
            each.session_timeout_ms,
            each.metadata(group.protocol_name),
            each.assignment,
        )
        for each in members
    }


class _Switch:
    """Notes what a group becomes, and how much the log says by then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, log: MemoryLog) -> None:
        self._log = log
        self.count, self.said = 0, None
        upgraded = Upgrades._take_place
        downgrading = Downgrades._take_place_of

        def take_place(of: Any, shard: Any, group: Any, *arguments: Any) -> None:
            upgraded(of, shard, group, *arguments)
            self._note(shard.groups["g"])

        async def take_place_of(of: Any, shard: Any, *arguments: Any) -> None:
            await downgrading(of, shard, *arguments)
            self._note(shard.groups["g"])

        monkeypatch.setattr(Upgrades, "_take_place", take_place)
        monkeypatch.setattr(Downgrades, "_take_place_of", take_place_of)

    def _note(self, group: Any) -> None:
        self.count, self.said = _count(self._log), copy.deepcopy(_said(group))


@pytest.mark.parametrize("to", ["consumer", "classic"])
def test_the_group_is_what_it_was_or_what_it_becomes(
    to: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_log, "MESSAGE_BYTES_MAX", _BATCH_BYTES)

    async def run(_: GroupCoordinator, __: MemoryLog, clock: ManualClock) -> None:
        log = MemoryLog()
        switch = _Switch(monkeypatch, log)
        coordinator = await _leading(log, clock)
        _, logs = await _converted(coordinator, log, clock, to)
        await coordinator.close()
        first, last = _count(logs[0]), switch.count
        assert last - first > 3
        before, *between, after = logs[: last - first + 1]
        was = await _loaded(before, clock)
        for cut in between:
            assert await _loaded(cut, clock) == was
            assert await _loaded(cut, clock) == was
        assert await _loaded(after, clock) == switch.said

    with_coordinator(run, SETTINGS)


def test_what_is_loaded_before_the_start_is_ended_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some partitions are loaded while a broker that begins still opens others."""
    monkeypatch.setattr(memory_log, "MESSAGE_BYTES_MAX", _BATCH_BYTES)

    async def run(_: GroupCoordinator, __: MemoryLog, clock: ManualClock) -> None:
        log = MemoryLog()
        coordinator = await _leading(log, clock)
        _, logs = await _converted(coordinator, log, clock, "consumer")
        await coordinator.close()
        cut = logs[2]
        assert any(_unfinished(cut))
        again = new_coordinator(cut, SETTINGS, clock)
        lead_all(again, cut)
        await until(lambda: not any(_unfinished(cut)))
        again.start()
        await again.close()

    with_coordinator(run, SETTINGS)


async def _loaded(log: MemoryLog, clock: ManualClock) -> Any:
    coordinator = await _leading(log, clock)
    said = copy.deepcopy(_said(coordinator.group("g")))
    await coordinator.close()
    assert not any(_unfinished(log))
    return said


def _unfinished(log: MemoryLog) -> list[Any]:
    return [load(each).unfinished for each in log.batches.values()]


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


@pytest.mark.parametrize("written", range(4))
@pytest.mark.parametrize("to", ["consumer", "classic"])
def test_the_device_becomes_full(to: str, written: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_log, "MESSAGE_BYTES_MAX", _BATCH_BYTES)
    monkeypatch.setattr(atomic_writer, "_RETRY_S", 0)

    async def run(_: GroupCoordinator, __: MemoryLog, clock: ManualClock) -> None:
        log = FullLog()
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
        await eventually(lambda: not log.room)
        await some_turns(100)
        cut = _first(log, _count(log))
        assert await _loaded(cut, clock) == _said(coordinator.group("g"))
        log.room = 1_000
        await some_turns(10)
        assert not any(_unfinished(log))
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
