"""`uniform`: members get equal numbers of partitions if subscriptions allow it, and keep theirs.

First each member keeps its partitions. Then free partitions go to the member with the fewest, and
partitions move from the member with the most to the one with the fewest, as long as that improves
the balance. If all members read the same topics, their numbers of partitions differ by one at most.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple
from uuid import UUID

from drumlin.coordination.groups.consumer.assignors.assignee import Assignee
from drumlin.coordination.groups.consumer.member import Partitions
from drumlin.turns import give_way

#: The maximum number of rounds over all topics. Moves in one topic may allow moves in another,
#: but a few rounds give a good balance.
_ROUNDS_MAX: Final = 16

#: The partitions of a topic assigned in one turn.
_AT_ONCE: Final = 64

_TopicPartition = tuple[UUID, int]

#: Sort key: integers compare faster than UUIDs, in the same order.
_order_of: Final = attrgetter("int")


async def assign_uniformly(
    members: Sequence[Assignee], partition_counts: Mapping[UUID, int]
) -> dict[str, Partitions]:
    if len(members) == 1:
        everything = await _everything(members[0], partition_counts)
        return {members[0].member_id: everything}
    ordered = sorted(members, key=attrgetter("member_id"))
    await give_way()
    topics = {member.topics for member in ordered}
    if len(topics) == 1:
        return await _assign_equals(ordered, partition_counts)
    return await _Unequal(ordered, partition_counts).assign()


async def _everything(member: Assignee, partition_counts: Mapping[UUID, int]) -> Partitions:
    everything: dict[UUID, frozenset[int]] = {}
    for topic_id in sorted(member.topics, key=_order_of):
        if partition_counts[topic_id]:
            everything[topic_id] = frozenset(range(partition_counts[topic_id]))
        await give_way()
    return everything


# -- all members read the same topics ----------------------------------------------------------


async def _assign_equals(
    members: Sequence[Assignee], partition_counts: Mapping[UUID, int]
) -> dict[str, Partitions]:
    work = _Equals()
    for topic_id in sorted(members[0].topics, key=_order_of):
        work.add(topic_id, partition_counts[topic_id])
        await give_way()
    kept = []
    for member in members:
        kept.append(work.keep(member.current))
        await give_way()
    sizes = [each.size for each in kept]
    total = sum(partition_counts[topic_id] for topic_id in members[0].topics)
    quota, larger = divmod(total, len(members))
    quotas = [quota] * len(members)
    # The members with the most partitions get the remainder, so that the fewest partitions move.
    for index in sorted(range(len(members)), key=lambda index: -sizes[index])[:larger]:
        quotas[index] += 1
    for index, size in enumerate(sizes):
        if size > quotas[index]:
            kept[index] = work.cut(kept[index].held, quotas[index])
            await give_way()
    free = work.free()
    assigned: dict[str, Partitions] = {}
    for member, (held, size, is_as_before), wanted in zip(members, kept, quotas, strict=True):
        if is_as_before and size == wanted:
            assigned[member.member_id] = member.current
        else:
            more = [next(free) for _ in range(wanted - size)]
            assigned[member.member_id] = work.together(held, more)
        await give_way()
    return assigned


#: Partitions by topic number; a UUID would be slow to compare and hash.
_Held = list[tuple[int, Collection[int]]]


class _Kept(NamedTuple):
    """The partitions that a member may keep, and whether these are all that it has."""

    held: _Held
    size: int
    is_as_before: bool


class _Equals:
    """The assigned partitions of topics that all members read."""

    def __init__(self) -> None:
        self._topics: list[UUID] = []
        self._numbers: dict[int, int] = {}
        self._all: list[frozenset[int]] = []
        self._taken: list[set[int]] = []

    def add(self, topic_id: UUID, partition_count: int) -> None:
        """Add a topic; topics are added in order, before any call of `keep`."""
        self._numbers[topic_id.int] = len(self._topics)
        self._topics.append(topic_id)
        self._all.append(frozenset(range(partition_count)))
        self._taken.append(set())

    def keep(self, current: Partitions) -> _Kept:
        """Assign the partitions that a member may keep to that member."""
        held: _Held = []
        size, is_as_before = 0, True
        for topic_id, partitions in current.items():
            number = self._numbers.get(topic_id.int)
            if number is None:
                is_as_before = False
                continue
            taken, there, kept = self._taken[number], self._all[number], partitions
            if not (partitions and partitions <= there and taken.isdisjoint(partitions)):
                kept = (partitions & there) - taken
                is_as_before = False
            taken |= kept
            size += len(kept)
            held.append((number, kept))
        return _Kept(held, size, is_as_before)

    def cut(self, held: _Held, size: int) -> _Kept:
        """Keep the first `size` of a member's partitions; the others become free."""
        left: _Held = []
        wanted = size
        for number, partitions in sorted(held, key=itemgetter(0)):
            ordered = sorted(partitions)
            self._taken[number].difference_update(ordered[size:])
            left.append((number, ordered[:size]))
            size -= len(left[-1][1])
        return _Kept(left, wanted, is_as_before=False)

    def free(self) -> Iterator[tuple[int, int]]:
        """The unassigned partitions, in order."""
        for number, there in enumerate(self._all):
            for partition in sorted(there - self._taken[number]):
                yield number, partition

    def together(self, held: _Held, more: Iterable[tuple[int, int]]) -> Partitions:
        by_topic = {number: list(partitions) for number, partitions in held if partitions}
        for number, partition in more:
            by_topic.setdefault(number, []).append(partition)
        return {self._topics[number]: frozenset(some) for number, some in by_topic.items()}


# -- members read different topics -------------------------------------------------------------


class _Unequal:
    """An assignment in progress; members are numbered in the order of their ids."""

    def __init__(self, members: Sequence[Assignee], partition_counts: Mapping[UUID, int]) -> None:
        self._members = members
        self._counts = partition_counts
        self._subscribers: dict[UUID, list[int]] = {}
        self._loads = [0] * len(members)
        #: Topic -> member -> its partitions.
        self._owned: dict[UUID, dict[int, list[int]]] = {}

    async def assign(self) -> dict[str, Partitions]:
        for index, member in enumerate(self._members):
            for topic_id in member.topics:
                self._subscribers.setdefault(topic_id, []).append(index)
            await give_way()
        self._owned = {each: {} for each in self._subscribers}
        taken: set[_TopicPartition] = set()
        for index, member in enumerate(self._members):
            for topic_id, partition in _kept(member, self._counts, taken):
                self._give(topic_id, partition, index)
            await give_way()
        topics = sorted(self._subscribers, key=self._urgency)
        for topic_id in topics:
            await self._give_free(topic_id, taken)
        for _ in range(_ROUNDS_MAX):
            has_moved = False
            for topic_id in topics:
                has_moved |= await self._balance(topic_id)
            if not has_moved:
                break
        return await self._result()

    def _urgency(self, topic_id: UUID) -> tuple[float, int, int]:
        """The sort key of a topic: topics with the least choice of members come first."""
        subscribers = len(self._subscribers[topic_id])
        return -self._counts[topic_id] / subscribers, subscribers, topic_id.int

    def _give(self, topic_id: UUID, partition: int, member: int) -> None:
        self._owned[topic_id].setdefault(member, []).append(partition)
        self._loads[member] += 1

    async def _give_free(self, topic_id: UUID, taken: set[_TopicPartition]) -> None:
        least: list[tuple[int, int]] = []
        for partition in range(self._counts[topic_id]):
            if partition % _AT_ONCE == 0:
                await give_way()
            if (topic_id, partition) not in taken:
                least = least or self._by_load(topic_id)
                load, member = least[0]
                self._give(topic_id, partition, member)
                heapq.heapreplace(least, (load + 1, member))

    def _by_load(self, topic_id: UUID) -> list[tuple[int, int]]:
        heap = [(self._loads[member], member) for member in self._subscribers[topic_id]]
        heapq.heapify(heap)
        return heap

    async def _balance(self, topic_id: UUID) -> bool:
        """Move partitions of one topic to members with fewer; returns whether any partition was
        moved.
        """
        owned = self._owned[topic_id]
        most = [(-self._loads[member], -member) for member, some in owned.items() if some]
        heapq.heapify(most)
        await give_way()
        least = self._by_load(topic_id)
        has_moved = False
        for giver in self._heaviest(most, owned):
            await give_way()
            while self._loads[least[0][1]] != least[0][0]:
                _, stale = heapq.heappop(least)  # outdated: the member's load has changed
                heapq.heappush(least, (self._loads[stale], stale))
            taker = least[0][1]
            if self._loads[giver] - self._loads[taker] < 2:
                break
            self._loads[giver] -= 1
            self._give(topic_id, owned[giver].pop(), taker)
            has_moved = True
            heapq.heapreplace(least, (self._loads[taker], taker))
            heapq.heappush(most, (-self._loads[giver], -giver))
        return has_moved

    def _heaviest(
        self, most: list[tuple[int, int]], owned: Mapping[int, list[int]]
    ) -> Iterator[int]:
        """Members with partitions of this topic, those with the most partitions of all topics
        first.
        """
        while most:
            load, member = heapq.heappop(most)
            if owned[-member] and -load == self._loads[-member]:
                yield -member

    async def _result(self) -> dict[str, Partitions]:
        assigned: list[dict[UUID, frozenset[int]]] = [{} for _ in self._members]
        for topic_id in list(self._owned):
            # Freed topic by topic, as freeing all at once would block the loop.
            for member, partitions in self._owned.pop(topic_id).items():
                if partitions:
                    assigned[member][topic_id] = frozenset(partitions)
                await give_way()
        return {
            member.member_id: some for member, some in zip(self._members, assigned, strict=True)
        }


def _kept(
    member: Assignee, partition_counts: Mapping[UUID, int], taken: set[_TopicPartition]
) -> list[_TopicPartition]:
    """The member's partitions that are not in `taken`; adds them to it."""
    kept = [
        (topic_id, partition)
        for topic_id in sorted(member.current, key=_order_of)
        if topic_id in member.topics
        for partition in sorted(member.current[topic_id])
        if partition < partition_counts[topic_id] and (topic_id, partition) not in taken
    ]
    taken.update(kept)
    return kept
