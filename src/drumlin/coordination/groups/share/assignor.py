"""The assignor `simple`: assigns partitions to the members of a share group. Pure.

Unlike in other groups, several members may have the same partition. With more partitions than
members, each partition has one member; with fewer, each partition has several, so that every member
has one. Balance has priority over members keeping their partitions. The assignor yields to the
event loop; the caller must not change the arguments meanwhile.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple
from uuid import UUID

from drumlin.coordination.groups.share.records import Assignment
from drumlin.turns import give_way

#: The partitions assigned in one turn.
_PLACES_AT_ONCE: Final = 64

#: Sort key: integers compare faster than UUIDs, in the same order.
_order_of: Final = attrgetter("int")


class _Sharing(NamedTuple):
    """Partitions shared by members, numbered in the order of topic and partition."""

    places: Sequence[tuple[UUID, int]]
    members: Sequence[str]
    got: dict[str, set[int]]


async def assign(
    subscriptions: Mapping[str, frozenset[UUID]],
    assignable: Mapping[UUID, Iterable[int]],
    current: Mapping[str, Assignment],
) -> dict[str, Assignment]:
    """The target assignment: member -> its partitions.

    Members with equal subscriptions share the partitions of all topics together. If subscriptions
    differ, each topic is shared separately among its subscribers.
    """
    result: dict[str, dict[UUID, tuple[int, ...]]] = {member: {} for member in subscriptions}
    for topic_ids, members in await _shared_topics(subscriptions):
        sharing = await _begin(topic_ids, members, assignable, current)
        await _spread(sharing)
        for member, got in sharing.got.items():
            await give_way()
            assignment: dict[UUID, list[int]] = {}
            for number in sorted(got):
                topic_id, partition = sharing.places[number]
                assignment.setdefault(topic_id, []).append(partition)
            for topic_id, partitions in assignment.items():
                result[member][topic_id] = tuple(partitions)
    return dict(result)


async def _shared_topics(
    subscriptions: Mapping[str, frozenset[UUID]],
) -> Iterable[tuple[Sequence[UUID], Sequence[str]]]:
    """Groups of topics whose partitions are shared together, with their members; both sorted."""
    members = sorted(subscriptions)
    await give_way()
    distinct = set(subscriptions.values())
    if len(distinct) <= 1:
        return [(sorted(topic_ids, key=_order_of), members) for topic_ids in distinct]
    subscribers: dict[UUID, list[str]] = {}
    for member in members:
        for topic_id in subscriptions[member]:
            subscribers.setdefault(topic_id, []).append(member)
            await give_way()
    return [((topic_id,), subscribers[topic_id]) for topic_id in sorted(subscribers, key=_order_of)]


async def _begin(
    topic_ids: Sequence[UUID],
    members: Sequence[str],
    assignable: Mapping[UUID, Iterable[int]],
    current: Mapping[str, Assignment],
) -> _Sharing:
    """Begin with the members' existing partitions."""
    places: list[tuple[UUID, int]] = []
    numbers: dict[UUID, dict[int, int]] = {}
    for topic_id in topic_ids:
        of_topic = sorted(assignable.get(topic_id, ()))
        numbers[topic_id] = {each: len(places) + i for i, each in enumerate(of_topic)}
        places += [(topic_id, each) for each in of_topic]
        await give_way()
    got = {}
    for member in members:
        await give_way()
        has: set[int] = set()
        held = current.get(member)
        if held:
            for topic_id in topic_ids if len(topic_ids) < len(held) else held:
                known = numbers.get(topic_id, {})
                has.update(known[each] for each in held.get(topic_id, ()) if each in known)
        got[member] = has
    return _Sharing(places, members, got)


async def _spread(sharing: _Sharing) -> None:
    places, members, got = sharing
    if not places or not members:
        return
    per_place = -(-len(members) // len(places))
    quotas = _quotas(per_place * len(places), members)
    holders: list[set[str]] = [set() for _ in places]
    for member, numbers in got.items():
        for number in numbers:
            holders[number].add(member)
        await give_way()

    def give_up(member: str, number: int) -> None:
        got[member].discard(number)
        holders[number].discard(member)

    for number, these in enumerate(
        holders
    ):  # too many members: those furthest above their quota lose the partition
        excess = len(these) - per_place
        if excess > 0:
            surplus = {each: len(got[each]) - quotas[each] for each in these}
            for member in sorted(surplus, key=lambda each: (-surplus[each], each))[:excess]:
                give_up(member, number)
            await give_way()
    for member in members:  # still above the quota: partitions with most members go first
        excess = len(got[member]) - quotas[member]
        if excess > 0:
            by_holders = sorted(got[member], key=lambda number: (-len(holders[number]), number))
            for number in by_holders[:excess]:
                give_up(member, number)
            await give_way()
    await _hand_out(per_place, quotas, got, holders)


async def _hand_out(
    per_place: int,
    quotas: Mapping[str, int],
    got: dict[str, set[int]],
    holders: list[set[str]],
) -> None:
    """Give partitions that have too few members to the members with the fewest partitions, up to
    their quota.
    """
    with_room = [
        (len(got[member]) - quota, member)
        for member, quota in quotas.items()
        if len(got[member]) < quota
    ]
    heapq.heapify(with_room)
    lacking = [number for number, these in enumerate(holders) if len(these) < per_place]
    lacking.sort(key=lambda number: len(holders[number]))  # stable: equal elements stay in order
    for count, number in enumerate(lacking):
        if count % _PLACES_AT_ONCE == 0:
            await give_way()
        these = holders[number]
        passed = []
        while len(these) < per_place and with_room:
            balance, member = heapq.heappop(with_room)
            if member not in these:
                got[member].add(number)
                these.add(member)
                balance += 1
            if balance < 0:
                passed.append((balance, member))
        for each in passed:
            heapq.heappush(with_room, each)


def _quotas(total: int, members: Sequence[str]) -> dict[str, int]:
    """The number of partitions for each member: equal shares, the remainder spread evenly."""
    ends = [-(-total * count // len(members)) for count in range(len(members) + 1)]
    return {member: ends[i + 1] - ends[i] for i, member in enumerate(members)}
