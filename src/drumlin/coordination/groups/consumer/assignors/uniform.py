"""`uniform`: members get as many partitions as their subscriptions allow, and keep what they have.

First everyone keeps what is still its own, then free partitions go to whoever has least, then
partitions move from whoever has most to whoever has least, as long as that makes it more even.
If all members read the same topics, nobody ends up with two partitions more than another.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Final, NamedTuple
from uuid import UUID

from drumlin.coordination.groups.consumer.assignors.assignee import Assignee
from drumlin.coordination.groups.consumer.member import Partitions

#: Moving partitions of one topic can make room in another. It is even enough after some rounds.
_ROUNDS_MAX: Final = 16

_TopicPartition = tuple[UUID, int]


def assign_uniformly(
    members: Sequence[Assignee], partition_counts: Mapping[UUID, int]
) -> dict[str, Partitions]:
    if len(members) == 1:
        return {members[0].member_id: _everything(members[0], partition_counts)}
    ordered = sorted(members, key=lambda member: member.member_id)
    topics = {member.topics for member in ordered}
    if len(topics) == 1:
        return _assign_equals(ordered, partition_counts)
    return _Unequal(ordered, partition_counts).assign()


def _everything(member: Assignee, partition_counts: Mapping[UUID, int]) -> Partitions:
    counts = {topic_id: partition_counts[topic_id] for topic_id in sorted(member.topics)}
    return {topic_id: frozenset(range(count)) for topic_id, count in counts.items() if count}


# -- all members read the same topics ----------------------------------------------------------


def _assign_equals(
    members: Sequence[Assignee], partition_counts: Mapping[UUID, int]
) -> dict[str, Partitions]:
    work = _Equals(sorted(members[0].topics), partition_counts)
    kept = [work.keep(member.current) for member in members]
    sizes = [each.size for each in kept]
    total = sum(partition_counts[topic_id] for topic_id in members[0].topics)
    quota, larger = divmod(total, len(members))
    quotas = [quota] * len(members)
    # Whoever has most already is who gets one more: so the fewest partitions move.
    for index in sorted(range(len(members)), key=lambda index: -sizes[index])[:larger]:
        quotas[index] += 1
    for index, size in enumerate(sizes):
        if size > quotas[index]:
            kept[index] = work.cut(kept[index].held, quotas[index])
    free = work.free()
    assigned: dict[str, Partitions] = {}
    for member, (held, size, is_as_before), wanted in zip(members, kept, quotas, strict=True):
        if is_as_before and size == wanted:
            assigned[member.member_id] = member.current
        else:
            more = [next(free) for _ in range(wanted - size)]
            assigned[member.member_id] = work.together(held, more)
    return assigned


#: Partitions of topics, which are numbers in their order here: a UUID is slow to compare and hash.
_Held = list[tuple[int, Collection[int]]]


class _Kept(NamedTuple):
    """What a member may keep; whether that is all it has."""

    held: _Held
    size: int
    is_as_before: bool


class _Equals:
    """What is taken, of topics that all members read."""

    def __init__(self, topics: Sequence[UUID], partition_counts: Mapping[UUID, int]) -> None:
        self._topics = topics
        self._numbers = {topic_id.int: number for number, topic_id in enumerate(topics)}
        self._all = [frozenset(range(partition_counts[topic_id])) for topic_id in topics]
        self._taken: list[set[int]] = [set() for _ in topics]

    def keep(self, current: Partitions) -> _Kept:
        """What a member has and may keep, and nobody else from then on."""
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
        """The first `size` of them; the others are free again."""
        left: _Held = []
        wanted = size
        for number, partitions in sorted(held, key=itemgetter(0)):
            ordered = sorted(partitions)
            self._taken[number].difference_update(ordered[size:])
            left.append((number, ordered[:size]))
            size -= len(left[-1][1])
        return _Kept(left, wanted, is_as_before=False)

    def free(self) -> Iterator[tuple[int, int]]:
        """What nobody has, in its order."""
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
    """The assignment while it is made; members are numbers, in the order of their ids."""

    def __init__(self, members: Sequence[Assignee], partition_counts: Mapping[UUID, int]) -> None:
        self._members = members
        self._counts = partition_counts
        self._subscribers: dict[UUID, list[int]] = {}
        for index, member in enumerate(members):
            for topic_id in member.topics:
                self._subscribers.setdefault(topic_id, []).append(index)
        self._loads = [0] * len(members)
        #: Topic -> member -> its partitions.
        self._owned: dict[UUID, dict[int, list[int]]] = {each: {} for each in self._subscribers}

    def assign(self) -> dict[str, Partitions]:
        taken: set[_TopicPartition] = set()
        for index, member in enumerate(self._members):
            for topic_id, partition in _kept(member, self._counts, taken):
                self._give(topic_id, partition, index)
        topics = sorted(self._subscribers, key=self._urgency)
        for topic_id in topics:
            self._give_free(topic_id, taken)
        for _ in range(_ROUNDS_MAX):
            moved = [self._balance(topic_id) for topic_id in topics]
            if not any(moved):
                break
        return self._result()

    def _urgency(self, topic_id: UUID) -> tuple[float, int, UUID]:
        """Topics that leave least choice come first."""
        subscribers = len(self._subscribers[topic_id])
        return -self._counts[topic_id] / subscribers, subscribers, topic_id

    def _give(self, topic_id: UUID, partition: int, member: int) -> None:
        self._owned[topic_id].setdefault(member, []).append(partition)
        self._loads[member] += 1

    def _give_free(self, topic_id: UUID, taken: set[_TopicPartition]) -> None:
        free = [
            partition
            for partition in range(self._counts[topic_id])
            if (topic_id, partition) not in taken
        ]
        if not free:
            return
        least = self._by_load(topic_id)
        for partition in free:
            load, member = least[0]
            self._give(topic_id, partition, member)
            heapq.heapreplace(least, (load + 1, member))

    def _by_load(self, topic_id: UUID) -> list[tuple[int, int]]:
        heap = [(self._loads[member], member) for member in self._subscribers[topic_id]]
        heapq.heapify(heap)
        return heap

    def _balance(self, topic_id: UUID) -> bool:
        """Move partitions of one topic to where there is less; whether any was moved."""
        owned = self._owned[topic_id]
        most = [(-self._loads[member], -member) for member, some in owned.items() if some]
        heapq.heapify(most)
        least = self._by_load(topic_id)
        has_moved = False
        for giver in self._heaviest(most, owned):
            while self._loads[least[0][1]] != least[0][0]:
                _, stale = heapq.heappop(least)  # it has given, or was given, meanwhile
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
        """Whoever has most partitions in all, and some of this topic, again and again."""
        while most:
            load, member = heapq.heappop(most)
            if owned[-member] and -load == self._loads[-member]:
                yield -member

    def _result(self) -> dict[str, Partitions]:
        assigned: list[dict[UUID, frozenset[int]]] = [{} for _ in self._members]
        for topic_id, owners in self._owned.items():
            for member, partitions in owners.items():
                if partitions:
                    assigned[member][topic_id] = frozenset(partitions)
        return {
            member.member_id: some for member, some in zip(self._members, assigned, strict=True)
        }


def _kept(
    member: Assignee, partition_counts: Mapping[UUID, int], taken: set[_TopicPartition]
) -> list[_TopicPartition]:
    """What the member has and may keep; nothing that is `taken`, and it is from then on."""
    kept = [
        (topic_id, partition)
        for topic_id in sorted(member.current)
        if topic_id in member.topics
        for partition in sorted(member.current[topic_id])
        if partition < partition_counts[topic_id] and (topic_id, partition) not in taken
    ]
    taken.update(kept)
    return kept
