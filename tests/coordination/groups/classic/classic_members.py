"""Members of one classic group, of which everything is done step by step, and its records."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Sequence
from typing import Any

import pytest

from coordination.groups.classic.scenario import subscription
from coordination.groups.coordinator.test_group_coordinator import loaded
from coordination.memory_log import MemoryLog, lead_all, new_coordinator, wake
from drumlin.clock import ManualClock
from drumlin.coordination.groups.classic import membership
from drumlin.coordination.groups.classic.records import GROUP_METADATA, GroupKey, GroupMetadata
from drumlin.coordination.groups.consumer import classic_members, departure, member_change
from drumlin.coordination.groups.coordinator import answer_queue, classic_store, upgrades
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.every_kind.messages import (
    JoinAnswer,
    JoinRequest,
    SyncAnswer,
    SyncRequest,
)
from drumlin.coordination.groups.shard.record_registry import decode_key
from drumlin.wire.error_codes import ErrorCode
from rig.time.turn_lengths import single_steps
from rig.waiting import eventually

MEMBERS = 8
REBALANCE_MS = 3_000
SESSION_MS = 60_000
Members = list[JoinAnswer]


def single_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step is a turn from now on, of more than a member."""
    single_steps(monkeypatch)
    monkeypatch.setattr(answer_queue, "TURN_S", 0)
    monkeypatch.setattr(membership, "MEMBERS_PER_STEP", 1)
    monkeypatch.setattr(classic_store, "_MEMBERS_AT_ONCE", 1)
    monkeypatch.setattr(member_change, "_ASSIGNED_AT_ONCE", 0)
    for converting in (upgrades, departure, classic_members):
        monkeypatch.setattr(converting, "MEMBERS_AT_ONCE", 0)


def gated(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """What is encoded in a thread waits for it."""
    gate, encode = threading.Event(), classic_store.encode_batches

    def encode_behind_gate(*args: Any, **how: Any) -> Any:
        assert gate.wait(10)
        return encode(*args, **how)

    monkeypatch.setattr(classic_store, "encode_batches", encode_behind_gate)
    return gate


def request(member_id: str = "", instance_id: str | None = None, topics: str = "t") -> JoinRequest:
    protocols = (("range", subscription(topics)),)
    return JoinRequest(
        member_id, instance_id, "", "", REBALANCE_MS, SESSION_MS, "consumer", protocols, False
    )


async def first_generation(
    coordinator: GroupCoordinator, clock: ManualClock, count: int = MEMBERS
) -> Members:
    """The last member is a static one; the leader comes first."""
    joining = [coordinator.join("g", request()) for _ in range(count - 1)]
    joining.append(coordinator.join("g", request(instance_id="static")))
    clock.advance_ms(REBALANCE_MS)
    wake(coordinator)
    return [await each for each in joining]


def sync(
    coordinator: GroupCoordinator, members: Sequence[JoinAnswer], *, last: str = "static"
) -> list[asyncio.Future[SyncAnswer]]:
    """Everybody asks for its assignment, the leader at last."""
    shares = [(each.member_id, f"{each.member_id}@{each.generation_id}") for each in members]
    asked = [(member_id, share.encode()) for member_id, share in shares]
    syncing = []
    for each in sorted(members, key=lambda each: bool(each.members)):
        said = asked if each.members else []
        instance_id = last if each.member_id.startswith("static") else None
        syncing.append(
            coordinator.sync(
                "g",
                SyncRequest(
                    each.member_id, instance_id, each.generation_id, "consumer", "range", said
                ),
            )
        )
    return [asyncio.ensure_future(each) for each in syncing]


async def some_turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def converted(coordinator: GroupCoordinator) -> None:
    """No group is being converted any more, and what followed from that is done."""
    await eventually(lambda: not coordinator._upgrades.is_under_way("g"))
    await some_turns(100)


async def answered(
    coordinator: GroupCoordinator, clock: ManualClock, waiting: Sequence[Awaitable[Any]]
) -> list[Any]:
    """All of them, if need be as their time is over."""
    started = [asyncio.ensure_future(each) for each in waiting]
    await some_turns(100)
    if not all(each.done() for each in started):
        clock.advance_ms(REBALANCE_MS)
        coordinator._alarm.set()
    return await all_of(started)


async def all_of(waiting: Sequence[Awaitable[Any]]) -> list[Any]:
    return await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 10)


def stored(log: MemoryLog) -> list[GroupMetadata | None]:
    """What the log says of the group, one record after the other."""
    records = [(decode_key(each.key or b""), each.value) for each in log.records()]
    values = [value for key, value in records if key == GroupKey("g")]
    return [None if value is None else GROUP_METADATA.decode(value) for value in values]


async def settled(coordinator: GroupCoordinator, clock: ManualClock, members: Members) -> Members:
    """Members that are left, or else a new one, join again, until the group is stable."""
    for _ in range(5):
        known = coordinator.classic_group("g")
        joining = []
        for member_id in list(known.membership.members) or [""]:
            instance_id = "static" if member_id.startswith("static") else None
            joining.append(coordinator.join("g", request(member_id, instance_id)))
        answers = await answered(coordinator, clock, joining)
        members = [each for each in answers if each.error is ErrorCode.none]
        if any(each.members for each in members):
            told = await all_of(sync(coordinator, members))
            if {each.error for each in told} == {ErrorCode.none}:
                return members
    raise AssertionError("it does not become stable")


async def check_log(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
    """Another coordinator reads the same group, and nothing was written twice."""
    written = [each for each in stored(log) if each is not None and each.members]
    generations = [each.generation_id for each in written]
    assert generations == sorted(generations)
    # Once each, and once for a static member that has come back.
    assert len({(each.generation_id, each.members) for each in written}) == len(written)
    again = new_coordinator(log, clock=clock)
    again.start()
    lead_all(again, log)
    await loaded(again)
    group, twin = coordinator.classic_group("g"), again.classic_group("g")
    assert (twin.state, twin.generation_id) == (group.state, group.generation_id)
    assert twin.subscribed_topics == group.subscribed_topics == {"t"}
    assert assignments(twin) == assignments(group)
    await again.close()


def assignments(group: Any) -> dict[str, bytes]:
    return {each.member_id: each.assignment for each in group.membership.members.values()}
