"""`uniform`: members get as many partitions as their subscriptions allow, and keep what they have.

First everyone keeps what is still its own, then free partitions go to whoever has least, then
partitions move from whoever has most to whoever has least, as long as that makes it more even.
If all members read the same topics, nobody ends up with two partitions more than another.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final
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
    topics = members[0].topics
    taken: set[_TopicPartition] = set()
    kept = [_kept(member, partition_counts, taken) for member in members]
    total = sum(partition_counts[topic_id] for topic_id in topics)
    quota, larger = divmod(total, len(members))
    quotas = [quota] * len(members)
    # Whoever has most already is who gets one more: so the fewest partitions move.
    for index in sorted(range(len(members)), key=lambda index: -len(kept[index]))[:larger]:
        quotas[index] += 1
    for index, some in enumerate(kept):
        taken.difference_update(some[quotas[index] :])
        del some[quotas[index] :]
    free = (
        (topic_id, partition)
        for topic_id in sorted(topics)
        for partition in range(partition_counts[topic_id])
        if (topic_id, partition) not in taken
    )
    for index, some in enumerate(kept):
        some += [next(free) for _ in range(quotas[index] - len(some))]
    return {member.member_id: _by_topic(some) for member, some in zip(members, kept, strict=True)}


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


def _by_topic(partitions: Iterable[_TopicPartition]) -> Partitions:
    by_topic: dict[UUID, list[int]] = {}
    for topic_id, partition in partitions:
        by_topic.setdefault(topic_id, []).append(partition)
    return {topic_id: frozenset(some) for topic_id, some in by_topic.items()}


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
