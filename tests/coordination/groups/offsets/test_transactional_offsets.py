"""Offsets in transactions: when they count, beside a slow twin and after every restart."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

import pytest

from coordination.groups.coordinator.test_group_coordinator import loaded, with_coordinator
from coordination.memory_log import TOPIC_ID, MemoryLog, lead_all, new_coordinator
from drumlin.clock import ManualClock
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.offsets.commit import Commit
from drumlin.coordination.shards.pending_answer import Written
from drumlin.coordination.shards.state_batches import Producer
from drumlin.coordination.shards.state_partitions import partition_for
from drumlin.records.batch.batch import parse_header
from drumlin.records.plain.record import decode_batch
from drumlin.storage.producers.control_records import encode_marker
from drumlin.storage.producers.producer_state import TransactionMarker
from drumlin.storage.producers.verification import NOT_REQUIRED
from drumlin.turns import to_end
from drumlin.wire.by_hand.commit_request import TopicOffsets
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.data.committed_offsets import commit_offsets, fetch_offsets, position
from rig.depth import seeds

GROUP = "g"
PARTITION = partition_for(GROUP, 4)
DAY_MS = 86_400_000
Key = tuple[str, int]


def a_commit(key: Key, offset: int, producer_id: int | None = None, epoch: int = 0) -> Commit:
    positions = [position(key[0], TOPIC_ID, key[1], offset, -1, "")]
    producer = None if producer_id is None else Producer(producer_id, epoch)
    return Commit(GROUP, "", None, -1, None, positions, producer=producer)


def in_transaction(coordinator: GroupCoordinator, asked: Commit) -> Written[list[ErrorCode]]:
    return to_end(coordinator.commit_in_transaction(asked, NOT_REQUIRED))


async def commit(
    coordinator: GroupCoordinator, key: Key, offset: int, producer_id: int | None = None
) -> None:
    asked = a_commit(key, offset, producer_id)
    if producer_id is None:
        assert await commit_offsets(coordinator, asked) == [ErrorCode.none]
    else:
        codes = await in_transaction(coordinator, asked)
        assert codes == [ErrorCode.none]


def end(
    coordinator: GroupCoordinator, log: MemoryLog, producer_id: int, *, is_commit: bool
) -> None:
    """As the broker does it: the marker is written, then the coordinator hears of it."""
    coordinator.check_loaded(PARTITION)
    log.append(PARTITION, encode_marker(TransactionMarker(is_commit, 0), producer_id, 0, 1))
    coordinator.end_transaction(PARTITION, producer_id, is_commit)


async def seen(
    coordinator: GroupCoordinator, keys: list[Key], *, requires_stable: bool = False
) -> dict[Key, int | None]:
    """What is committed; -2 where that is not certain yet."""
    topics: dict[str, list[int]] = {}
    for topic, partition in keys:
        topics.setdefault(topic, []).append(partition)
    found: dict[Key, int | None] = {}
    fetched = await fetch_offsets(
        coordinator, GROUP, list(topics.items()), requires_stable=requires_stable
    )
    for topic, partitions in fetched:
        for partition, each in partitions:
            if isinstance(each, ErrorCode):
                assert each is ErrorCode.unstable_offset_commit
                found[topic, partition] = -2
            else:
                found[topic, partition] = None if each is None else each.offset
    return found


T0 = ("t", 0)


def test_they_count_when_the_transaction_commits() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, _: ManualClock) -> None:
        await commit(coordinator, T0, 5)
        await commit(coordinator, T0, 9, producer_id=1)
        assert await seen(coordinator, [T0]) == {T0: 5}
        assert await seen(coordinator, [T0], requires_stable=True) == {T0: -2}
        end(coordinator, log, 1, is_commit=True)
        assert await seen(coordinator, [T0], requires_stable=True) == {T0: 9}
        await commit(coordinator, T0, 12, producer_id=1)
        end(coordinator, log, 1, is_commit=False)
        assert await seen(coordinator, [T0], requires_stable=True) == {T0: 9}

    with_coordinator(run)


def test_they_are_written_as_a_part_of_the_transaction() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, _: ManualClock) -> None:
        await in_transaction(coordinator, a_commit(T0, 5, 8, epoch=3))
        (batch,) = log.batches[PARTITION]
        header = parse_header(batch)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (8, 3, -1)
        assert header.is_transactional
        assert not header.is_control

    with_coordinator(run)


def test_a_newer_plain_commit_is_not_overwritten() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, _: ManualClock) -> None:
        await commit(coordinator, T0, 9, producer_id=1)
        await commit(coordinator, T0, 5)
        assert await seen(coordinator, [T0], requires_stable=True) == {T0: -2}
        end(coordinator, log, 1, is_commit=True)
        assert await seen(coordinator, [T0]) == {T0: 5}

    with_coordinator(run)


def test_who_may_commit() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, _: ManualClock) -> None:
        member = Commit(GROUP, "m", None, 3, None, a_commit(T0, 1).offsets, producer=Producer(1, 0))
        with pytest.raises(KafkaError) as refused:
            await in_transaction(coordinator, member)
        assert refused.value.code is ErrorCode.group_id_not_found
        nameless = Commit("", "", None, -1, None, member.offsets, producer=Producer(1, 0))
        with pytest.raises(KafkaError) as refused:
            await in_transaction(coordinator, nameless)
        assert refused.value.code is ErrorCode.invalid_group_id
        too_long = a_commit(T0, 1, 1).offsets[0]._replace(metadata=[b"m" * 5000])
        asked = Commit(GROUP, "", None, -1, None, [too_long], producer=Producer(1, 0))
        codes = await in_transaction(coordinator, asked)
        assert codes == [ErrorCode.offset_metadata_too_large]
        assert not log.batches

    with_coordinator(run)


def test_what_is_pending_does_not_expire_and_keeps_the_group() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        other = ("t", 1)
        await commit(coordinator, T0, 5)
        await commit(coordinator, other, 5)
        await commit(coordinator, T0, 9, producer_id=1)
        clock.advance_ms(8 * DAY_MS)
        await coordinator.expire_offsets()
        assert await seen(coordinator, [T0, other]) == {T0: 5, other: None}
        assert coordinator.groups()
        end(coordinator, log, 1, is_commit=False)
        await coordinator.expire_offsets()
        assert not coordinator.groups()

    with_coordinator(run)


def test_a_group_of_pending_offsets_alone() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        await commit(coordinator, T0, 9, producer_id=1)
        clock.advance_ms(8 * DAY_MS)
        await coordinator.expire_offsets()
        assert [group.group_id for group in coordinator.groups()] == [GROUP]
        assert await to_end(coordinator.delete(GROUP)) is ErrorCode.none
        end(coordinator, log, 1, is_commit=True)
        assert await seen(coordinator, [T0]) == {T0: None}
        assert not coordinator.groups()

    with_coordinator(run)


def test_a_deleted_topic_takes_what_is_pending_along() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, _: ManualClock) -> None:
        await commit(coordinator, T0, 9, producer_id=1)
        coordinator.topic_deleted("t", TOPIC_ID)
        for _ in range(10):  # it is done in the background
            await asyncio.sleep(0)
        assert await seen(coordinator, [T0], requires_stable=True) == {T0: None}
        end(coordinator, log, 1, is_commit=True)
        assert await seen(coordinator, [T0]) == {T0: None}

    with_coordinator(run)


def test_a_deleted_topic_takes_along_what_is_committed_while_others_are_looked_at() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, _: ManualClock) -> None:
        other = next(each for each in map(str, range(100)) if partition_for(each, 4) == PARTITION)
        for group_id in (GROUP, other):
            plain = a_commit(("else", 0), 1)._replace(group_id=group_id)
            await commit_offsets(coordinator, plain)
        await commit(coordinator, T0, 9, producer_id=1)
        shard = await coordinator._partitions.when_ready(PARTITION)
        assert shard is not None
        removing = shard.topic_deleted("t", TOPIC_ID)
        assert [next(removing), next(removing)] == [[], []]  # the first group was looked at
        end(coordinator, log, 1, is_commit=True)
        assert [(key.topic, value) for records in removing for key, value in records] == [
            ("t", None)
        ]

    with_coordinator(run)


@pytest.mark.parametrize("pends_for_the_successor", [True, False])
def test_a_deleted_topics_tombstones_leave_its_successor_alone(
    pends_for_the_successor: bool,
) -> None:
    """A tombstone ends what is committed and what is pending: of one topic, and of the other."""

    async def run(coordinator: GroupCoordinator, log: MemoryLog, _: ManualClock) -> None:
        gone = UUID(int=6)
        pending = a_commit(T0, 9, 1)
        plain = a_commit(T0, 5)
        if pends_for_the_successor:
            plain = plain._replace(offsets=[plain.offsets[0]._replace(topic_id=gone)])
            await commit_offsets(coordinator, plain)
            await in_transaction(coordinator, pending)
        else:
            pending = pending._replace(offsets=[pending.offsets[0]._replace(topic_id=gone)])
            await in_transaction(coordinator, pending)
            await commit_offsets(coordinator, plain)
        coordinator.topic_deleted("t", gone)
        for _ in range(10):  # it is done in the background
            await asyncio.sleep(0)
        end(coordinator, log, 1, is_commit=True)
        expected = {T0: 9 if pends_for_the_successor else 5}
        assert await seen(coordinator, [T0]) == expected

    with_coordinator(run)


def test_markers_wait_for_the_loading() -> None:
    async def main() -> None:
        log = MemoryLog()
        coordinator = new_coordinator(log)
        with pytest.raises(KafkaError):
            coordinator.check_loaded(PARTITION)
        coordinator.start()
        log.gate.clear()
        lead_all(coordinator, log)
        with pytest.raises(KafkaError):
            coordinator.check_loaded(PARTITION)
        log.gate.set()
        await loaded(coordinator)
        coordinator.check_loaded(PARTITION)
        await coordinator.close()

    asyncio.run(main())


# -- beside a twin -----------------------------------------------------------------------------


@dataclass
class Said:
    """One record of the twin's log; of a producer that is None it counted at once."""

    key: Key
    offset: int | None  # None: deleted
    producer_id: int | None
    state: str = "open"  # of its transaction: open, committed or aborted


class Twin:
    """Every record that was ever written; what counts is looked up by going through all."""

    def __init__(self) -> None:
        self.records: list[Said] = []

    def end(self, producer_id: int, state: str) -> None:
        for each in self.records:
            if each.producer_id == producer_id and each.state == "open":
                each.state = state

    def committed(self, key: Key) -> int | None:
        counting = [
            each.offset
            for each in self.records
            if each.key == key and (each.producer_id is None or each.state == "committed")
        ]
        return counting[-1] if counting else None

    def is_unstable(self, key: Key) -> bool:
        pending = False
        for each in self.records:
            if each.key == key and each.offset is None:
                pending = False
            elif each.key == key and each.producer_id is not None and each.state == "open":
                pending = True
        return pending

    def compacted(self, batches: list[bytes]) -> Iterator[bytes]:
        """The log as a cleaner may leave it, which stops where a transaction is open.

        Each record is a batch here.
        """
        records = self.records
        is_open = [each.producer_id is not None and each.state == "open" for each in records]
        stable = records[: is_open.index(True)] if any(is_open) else records
        latest = {each.key: each for each in stable if each.state != "aborted"}
        kept = {id(each) for each in (*latest.values(), *records[len(stable) :])}
        unread = iter(records)
        for batch in batches:
            if parse_header(batch).is_control or id(next(unread)) in kept:
                yield batch


KEYS = [("t", 0), ("t", 1), ("u", 0)]


@pytest.mark.parametrize("seed", seeds(5, 12))
def test_random_transactions_are_seen_as_by_the_twin(seed: int) -> None:
    chance = random.Random(seed)

    async def check(coordinator: GroupCoordinator, twin: Twin) -> None:
        counting = {key: twin.committed(key) for key in KEYS}
        assert await seen(coordinator, KEYS) == counting
        stable = {key: -2 if twin.is_unstable(key) else counting[key] for key in KEYS}
        assert await seen(coordinator, KEYS, requires_stable=True) == stable

    async def loaded_from(batches: list[bytes], twin: Twin) -> None:
        log = MemoryLog()
        log.batches[PARTITION] = batches
        again = new_coordinator(log)
        again.start()
        lead_all(again, log)
        await loaded(again)
        await check(again, twin)
        later = Twin()
        later.records = [Said(s.key, s.offset, s.producer_id, s.state) for s in twin.records]
        for producer_id in range(3):
            is_commit = chance.random() < 0.7
            end(again, log, producer_id, is_commit=is_commit)
            later.end(producer_id, "committed" if is_commit else "aborted")
            await check(again, later)
        await again.close()

    async def run(coordinator: GroupCoordinator, log: MemoryLog, _: ManualClock) -> None:
        twin = Twin()
        for number in range(120):
            key, producer_id = chance.choice(KEYS), chance.randrange(3)
            match chance.randrange(10):
                case 0 | 1 | 2:
                    await commit(coordinator, key, number)
                    twin.records.append(Said(key, number, None))
                case 3 | 4 | 5:
                    await commit(coordinator, key, number, producer_id)
                    twin.records.append(Said(key, number, producer_id))
                case 6:
                    written = len(log.batches.get(PARTITION, ()))
                    if coordinator.groups():
                        to_end(coordinator.delete_offsets(GROUP, [key]))
                    if len(log.batches.get(PARTITION, ())) > written:
                        twin.records.append(Said(key, None, None))
                case kind:
                    end(coordinator, log, producer_id, is_commit=kind < 9)
                    twin.end(producer_id, "committed" if kind < 9 else "aborted")
            await check(coordinator, twin)
            if number % 15 == 0:
                batches = list(log.batches.get(PARTITION, ()))
                assert all(len(decode_batch(batch)) == 1 for batch in batches)
                await loaded_from(list(batches), twin)
                await loaded_from(list(twin.compacted(batches)), twin)

    with_coordinator(run)


def test_a_transaction_of_very_many_offsets() -> None:
    """What is newer stays, what was deleted is gone, and all others count at once."""

    async def run(coordinator: GroupCoordinator, log: MemoryLog, _: ManualClock) -> None:
        many = TopicOffsets("t", TOPIC_ID, range(9_000), [5] * 9_000, [-1] * 9_000)
        asked = a_commit(T0, 5, 1)._replace(offsets=[many])
        await in_transaction(coordinator, asked)
        other = asked._replace(offsets=[many.some(range(100))], producer=Producer(2, 0))
        await in_transaction(coordinator, other)
        await commit(coordinator, ("t", 7), 9)
        await to_end(coordinator.delete_offsets(GROUP, [("t", 8), ("t", 8_999)]))
        end(coordinator, log, 1, is_commit=True)
        keys = [("t", partition) for partition in range(9_000)]
        found = await seen(coordinator, keys)
        gone = {key for key, offset in found.items() if offset is None}
        assert gone == {("t", 8), ("t", 8_999)}
        assert {key for key, offset in found.items() if offset == 9} == {("t", 7)}
        unstable = await seen(coordinator, keys, requires_stable=True)
        pending = {key for key, offset in unstable.items() if offset == -2}
        assert pending == {("t", partition) for partition in range(100) if partition != 8}
        end(coordinator, log, 2, is_commit=True)
        assert (await seen(coordinator, keys, requires_stable=True))["t", 7] == 9

    with_coordinator(run)
