"""Share partitions at work: what is written when they start again, are left, or cannot be read."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.sessions import SESSION
from broker.share_partitions.live_shares import (
    LIMITS,
    SHARED,
    TOPIC_ID,
    World,
    play,
    until,
    written_late,
)
from drumlin.broker.handlers import share_fetch
from drumlin.broker.share_fetch.acknowledgements import begin_to_acknowledge
from drumlin.broker.share_fetch.fetch import ShareFetch
from drumlin.broker.share_fetch.readable import denies_nothing
from drumlin.broker.share_partitions.partition_leader import SharePartitionLeader
from drumlin.broker.share_partitions.room import ShareRoom
from drumlin.broker.share_partitions.sessions import INITIAL_EPOCH, Member, SessionPartition
from drumlin.coordination.share.delivery.acknowledgement import Acknowledgement
from drumlin.coordination.share.delivery.fetched_batches import Fetched, InclusiveRange
from drumlin.coordination.share.state.coordinator import ShareCoordinator
from drumlin.metadata.store.changes import TopicDeleted
from drumlin.replication.waiting_room import Waiter
from drumlin.storage.segment.file_slice import FileSlice
from drumlin.turns import to_end
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.time.turn_lengths import single_steps
from rig.time.ways_given import WaysGiven
from storage.samples import prepared


def test_what_is_said_of_records_from_before_a_reset_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written_late(monkeypatch)

    async def scenario(world: World) -> None:
        await world.initialize()
        member = world.join("m")
        await world.given(member, 9)
        answer = world.accept(member, 0, 9)
        world.shares.forget((await world.live()).key)
        assert await answer is ErrorCode.not_leader_or_follower
        assert await world.start_offset() == 0

    play(tmp_path, scenario)


def test_who_hears_late_that_it_was_fenced_takes_nothing_from_its_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written_late(monkeypatch)

    async def scenario(world: World) -> None:
        await world.initialize()
        member = world.join("m")
        await world.given(member, 9)
        late = world.accept(member, 0, 9)
        await world.initialize()
        successor = await world.given(member, 4)
        assert await late in (ErrorCode.none, ErrorCode.not_leader_or_follower)
        assert world.shares.find("g", SHARED) is successor
        assert await world.accept(member, 0, 4) is ErrorCode.none

    play(tmp_path, scenario)


@pytest.mark.parametrize("is_late", [False, True])
def test_who_comes_next_begins_behind_what_was_said_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    """Also if the last member of a group goes before its acknowledgement is written."""
    if is_late:
        written_late(monkeypatch)

    async def scenario(world: World) -> None:
        await world.initialize()
        world.produce(10)
        member = world.join("m")
        first = await world.given(member, 9)
        answer = world.accept(member, 0, 9)
        world.shares.close_session(member)
        await until(lambda: world.shares.find("g", SHARED) is None, "the end of its partition")
        world.join("next")
        second = await world.live()
        assert second is not first
        assert await answer is ErrorCode.none
        assert second.records.start_offset == 10

    play(tmp_path, scenario)


def test_who_comes_while_the_last_one_goes_finds_its_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written_late(monkeypatch)

    async def scenario(world: World) -> None:
        await world.initialize()
        member = world.join("m")
        live = await world.given(member, 9)
        answer = world.accept(member, 0, 4)
        world.shares.close_session(member)
        world.join("next")
        assert await answer is ErrorCode.none
        await until(lambda: live.records.next_fetch_offset == 5, "what it had to come back")
        assert await world.live() is live

    play(tmp_path, scenario)


def test_what_cannot_be_read_is_not_kept(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        member = world.join("m")
        fetch = world.fetch(member, max_wait_s=20)
        await fetch.run()
        assert fetch.errors == {SHARED: ErrorCode.unknown_server_error}
        await until(lambda: not world.shares.partition_count, "it to be dropped")
        await world.initialize()
        await world.given(member, 9)
        assert world.shares.partition_count == 1

    play(tmp_path, scenario)


def test_a_fetch_that_waits_ends_with_its_session(tmp_path: Path) -> None:
    """Records that it acquired then would be locked for no member."""

    async def scenario(world: World) -> None:
        await world.initialize()
        leaving, _ = world.join("leaving"), world.join("other")
        live = await world.live()
        fetch = world.fetch(leaving, max_wait_s=3600)
        waiting = asyncio.ensure_future(fetch.run())
        await until(lambda: len(live.room) == 1, "the fetch to wait")
        world.shares.close_session(leaving)
        await asyncio.wait_for(waiting, 20)
        assert not fetch.given
        assert not fetch.errors

    play(tmp_path, scenario)


def test_who_has_come_again_is_not_thrown_out_for_having_left(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.initialize()
        left = world.shares.sessions.get(world.join("m"), SESSION.owner)
        member = world.join("m")
        live = await world.given(member, 9)
        world.shares.leave(left)
        await live.settle()
        assert await world.accept(member, 0, 9) is ErrorCode.none
        world.shares.leave(world.shares.sessions.get(member, SESSION.owner))
        assert not world.shares.sessions.has_group("g")

    play(tmp_path, scenario)


def test_members_of_other_groups_go_without_a_trace(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.initialize()
        member, other = world.join("m"), Member("h", "m")
        world.shares.sessions.open(other, SESSION.owner, [SHARED], 1, 10, acknowledges=False)
        await world.broker.share_state.initialize("h", TOPIC_ID, 0, 1, 0)
        live = await world.given(member, 9)
        await world.shares.open("h", SHARED).loaded
        assert world.shares.partition_count == 2
        world.shares.close_session(other)
        await until(lambda: world.shares.partition_count == 1, "one to go")
        assert await world.live() is live
        assert await world.accept(member, 0, 9) is ErrorCode.none
        await world.broker.metadata.delete_topic(TOPIC_ID)
        await until(lambda: not world.shares.partition_count, "the other to go with its topic")

    play(tmp_path, scenario)


def test_a_fetch_of_a_session_that_was_replaced_acquires_nothing(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.initialize()
        member = world.join("m")
        live = await world.given(member, 9)
        fetch = world.fetch(member, max_wait_s=3600)
        waiting = asyncio.ensure_future(fetch.run())
        await until(lambda: len(live.room) == 1, "the fetch to wait")
        world.join("m")
        live.room.disturb()
        await asyncio.wait_for(waiting, 20)
        assert not fetch.given

    play(tmp_path, scenario)


def test_locks_that_ended_in_time_wake_nobody(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.initialize()
        member = world.join("m")
        live = await world.given(member, 9)
        assert await world.accept(member, 0, 9) is ErrorCode.none
        assert live.records.next_deadline() is None
        await world.given(member, 19)
        woken: list[None] = []
        live.room.enter(Waiter(1, lambda: woken.append(None)), for_stable=False)
        live._expire()  # the timer of the first lock
        assert not woken
        assert live.records.next_deadline() is not None

    play(tmp_path, scenario)


def _count_released(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of the partitions that a member is taken from."""
    released: list[int] = []
    releasing = SharePartitionLeader.releasing

    async def counted(live: SharePartitionLeader, member_id: str) -> None:
        released.append(live.key.partition)
        await releasing(live, member_id)

    monkeypatch.setattr(SharePartitionLeader, "releasing", counted)
    return released


def test_who_leaves_is_looked_for_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In what it fetched, and in what it has from a session before; nowhere else."""
    released = _count_released(monkeypatch)

    async def scenario(world: World) -> None:
        await world.add_partitions(10)
        everywhere = [SessionPartition(TOPIC_ID, each) for each in range(10)]
        world.join("other", *everywhere)
        lives = [world.shares.open("g", each) for each in everywhere]
        await asyncio.gather(*(live.loaded for live in lives))
        member = world.join("m", *everywhere[:3])
        assert lives[2].acquire("m", Fetched(0, [InclusiveRange(0, 4)]), LIMITS)
        world.join("m", *everywhere[4:5])
        world.shares.close_session(member)
        await until(lambda: len(released) == 2, "it to be looked for")
        await lives[2].settle()
        assert sorted(released) == [2, 4]
        assert lives[2].acquire("other", Fetched(0, [InclusiveRange(0, 4)]), LIMITS)

    play(tmp_path, scenario)


def test_who_leaves_thousands_of_partitions_does_so_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = _count_released(monkeypatch)

    async def scenario(world: World) -> None:
        await world.add_partitions(200)
        everywhere = [SessionPartition(TOPIC_ID, each) for each in range(200)]
        member = world.join("m", *everywhere)
        lives = [world.shares.open("g", each) for each in everywhere]
        await asyncio.gather(*(live.loaded for live in lives))
        single_steps(monkeypatch)  # others have their turn at every step
        world.shares.close_session(member)
        assert 0 < len(released) < 100
        await until(lambda: not world.shares.partition_count, "all to be dropped")
        assert sorted(released) == list(range(200))

    play(tmp_path, scenario)


@pytest.mark.parametrize("how", ["topic", "last member"])
def test_thousands_of_partitions_are_dropped_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    async def scenario(world: World) -> None:
        count = 100
        await world.add_partitions(count)
        everywhere = [SessionPartition(TOPIC_ID, each) for each in range(count)]
        member = world.join("m", *everywhere)
        lives = [world.shares.open("g", each) for each in everywhere]
        await asyncio.gather(*(live.loaded for live in lives))
        single_steps(monkeypatch)
        if how == "topic":
            world.shares.on_change(TopicDeleted(world.broker.metadata.image.topics["t"]))
        else:
            world.shares.close_session(member)
        most, before = 0, world.shares.partition_count
        assert before == count
        while world.shares.partition_count:
            await asyncio.sleep(0)
            most = max(most, before - world.shares.partition_count)
            before = world.shares.partition_count
        assert most <= 2
        assert all(live.is_closed for live in lives)

    play(tmp_path, scenario)


def test_thousands_of_partitions_are_opened_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(world: World) -> None:
        await world.add_partitions(200)
        member = world.join("m", *(SessionPartition(TOPIC_ID, each) for each in range(200)))
        world.produce(1)
        single_steps(monkeypatch)  # others have their turn at every step
        fetching = asyncio.create_task(world.fetch(member, 20, 200).run())
        most = before = 0
        while not fetching.done():
            await asyncio.sleep(0)
            count = world.shares.partition_count
            most, before = max(most, count - before), count
        await fetching
        assert before == 200
        assert most < 5

    play(tmp_path, scenario)


def test_thousands_of_partitions_are_looked_at_acquired_and_left_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: dict[str, int] = {}

    def count(kind: type, name: str) -> None:
        method = getattr(kind, name)

        def counted(*args: Any, **fields: Any) -> Any:
            done[name] = done.get(name, 0) + 1
            return method(*args, **fields)

        monkeypatch.setattr(kind, name, counted)

    async def scenario(world: World) -> None:
        await world.add_partitions(50)
        everywhere = [SessionPartition(TOPIC_ID, each) for each in range(50)]
        member = world.join("m", *everywhere)
        lives = [world.shares.open("g", each) for each in everywhere]
        await asyncio.gather(*(live.loaded for live in lives))
        count(SharePartitionLeader, "next_fetch_offset")
        count(SharePartitionLeader, "acquire")
        count(FileSlice, "is_resident")
        count(ShareRoom, "enter")
        count(ShareRoom, "leave")
        single_steps(monkeypatch)
        fetch = world.fetch(member, 3600, 50, min_bytes=50 * prepared(1).header.size)
        fetching = asyncio.create_task(fetch.run())
        most: dict[str, int] = {}
        before: dict[str, int] = {}
        while not fetching.done():
            if done.get("enter") == 50:
                for each in range(50):
                    world.produce(1, each)
                done["enter"] += 1
            await asyncio.sleep(0)
            for name, number in done.items():
                most[name] = max(most.get(name, 0), number - before.get(name, 0))
            before = dict(done)
        await fetching
        assert len(fetch.given) == 50
        assert done["acquire"] == done["is_resident"] == 50
        assert done["leave"] >= 50
        assert max(most.values()) <= 3, most

    play(tmp_path, scenario)


def test_a_fetch_does_not_wait_for_a_topic_that_is_deleted_while_it_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(world: World) -> None:
        await world.add_partitions(20)
        everywhere = [SessionPartition(TOPIC_ID, each) for each in range(20)]
        member = world.join("m", *everywhere)
        lives = [world.shares.open("g", each) for each in everywhere]
        await asyncio.gather(*(live.loaded for live in lives))
        single_steps(monkeypatch)
        read = ShareFetch._read_all

        async def read_and_delete(fetch: ShareFetch) -> Any:
            cold = await read(fetch)
            if world.broker.metadata.image.topics.get("t"):
                await world.broker.metadata.delete_topic(TOPIC_ID)
                await until(lambda: not world.shares.partition_count, "the topic to be dropped")
            return cold

        monkeypatch.setattr(ShareFetch, "_read_all", read_and_delete)
        fetch = world.fetch(member, 3600, 20)
        await asyncio.wait_for(fetch.run(), 20)
        assert set(fetch.errors.values()) == {ErrorCode.unknown_topic_id}
        assert len(fetch.errors) == 20

    play(tmp_path, scenario)


@pytest.mark.parametrize("steps", [0, 40, *range(80, 160, 6)])
def test_what_comes_while_others_have_their_turn_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """Appended to a partition that was looked at already."""

    async def scenario(world: World) -> None:
        await world.add_partitions(20)
        everywhere = [SessionPartition(TOPIC_ID, each) for each in range(20)]
        member = world.join("m", *everywhere)
        await asyncio.gather(*(world.shares.open("g", each).loaded for each in everywhere))
        single_steps(monkeypatch)
        fetch = world.fetch(member, 3600, 20)
        fetching = asyncio.create_task(fetch.run())
        for _ in range(steps):
            await asyncio.sleep(0)
        world.produce(1)
        await asyncio.wait_for(fetching, 20)
        assert list(fetch.given) == [SHARED]

    play(tmp_path, scenario)


def test_very_many_partitions_are_told_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here, that there are no such partitions."""

    async def scenario(world: World) -> None:
        await world.initialize()
        member = world.join("m")
        context: Any = SimpleNamespace(broker=world.broker, version=1, listener="PLAINTEXT")
        for count, steps in ((300, 600), (3, 0)):
            begun = to_end(
                begin_to_acknowledge(
                    world.shares, member, {}, denies_nothing, knows_renew=True, says_renew=False
                )
            )
            fetch = world.fetch(member, 0, count)
            await fetch.run()
            with monkeypatch.context() as patched:
                ways = WaysGiven(patched)
                answer = await share_fetch._respond(context, INITIAL_EPOCH, member, fetch, begun)
            assert ways.count >= steps
            told = [each.error_code for each in answer.responses[0].partitions]
            assert (len(told), told.count(ErrorCode.none)) == (count, 1)

    play(tmp_path, scenario)


@pytest.mark.deep
@pytest.mark.parametrize("is_written", [True, False])
def test_very_much_that_is_said_of_one_partition_counts_as_a_whole_once_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    """Every other record is accepted, the others go back; or else all of them stay locked."""
    count = 1200

    async def refuse(*_: Any) -> None:
        raise KafkaError(ErrorCode.not_coordinator)

    async def scenario(world: World) -> None:
        await world.initialize()
        member, other = world.join("m"), world.join("other")
        live = await world.given(member, count - 1)
        if not is_written:
            monkeypatch.setattr(ShareCoordinator, "write", refuse)
        said = {SHARED: [Acknowledgement(0, count - 1, [1, 2] * (count // 2))]}
        taking = begin_to_acknowledge(
            world.shares, member, said, denies_nothing, knows_renew=True, says_renew=False
        )
        begun = to_end(taking)
        told = (await begun.answers())[SHARED].code
        again = live.acquire(other.member_id, Fetched(0, [InclusiveRange(0, count - 1)]), LIMITS)
        if is_written:
            assert told is ErrorCode.none
            state = await world.broker.share_state.read("g", TOPIC_ID, 0)
            assert len(state.batches) == count
            assert [each.first_offset for each in again][:2] == [1, 3]
        else:
            assert told is ErrorCode.coordinator_not_available
            assert not again

    play(tmp_path, scenario)
