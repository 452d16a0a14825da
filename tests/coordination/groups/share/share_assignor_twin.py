"""The slow twin of the assignor `simple`: the same rules, partition by partition and set by set."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from drumlin.coordination.groups.share.records import Assignment


class _Place(NamedTuple):
    topic_id: UUID
    partition: int


def slowly_assigned(
    subscriptions: Mapping[str, frozenset[UUID]],
    assignable: Mapping[UUID, Iterable[int]],
    current: Mapping[str, Assignment],
) -> dict[str, Assignment]:
    """Member -> what it is to have.

    Members with one subscription share all partitions as a whole. Where subscriptions differ,
    each topic is shared by itself among those who want it.
    """
    has = {
        member: {_Place(topic_id, each) for topic_id, these in held.items() for each in these}
        for member, held in current.items()
        if member in subscriptions
    }
    result: dict[str, set[_Place]] = {member: set() for member in subscriptions}
    if len(set(subscriptions.values())) <= 1:
        groups = [frozenset().union(*subscriptions.values())] if subscriptions else []
    else:
        topics = sorted(frozenset().union(*subscriptions.values()))
        groups = [frozenset((topic_id,)) for topic_id in topics]
    for topic_ids in groups:
        places = [
            _Place(topic_id, each)
            for topic_id in sorted(topic_ids)
            for each in sorted(assignable.get(topic_id, ()))
        ]
        members = sorted(member for member, wanted in subscriptions.items() if topic_ids <= wanted)
        for member, got in _spread(places, members, has).items():
            result[member] |= got
    return {member: _as_assignment(got) for member, got in result.items()}


def _as_assignment(places: Iterable[_Place]) -> Assignment:
    assignment: dict[UUID, list[int]] = {}
    for place in sorted(places):
        assignment.setdefault(place.topic_id, []).append(place.partition)
    return {topic_id: tuple(partitions) for topic_id, partitions in assignment.items()}


def _spread(
    places: Sequence[_Place], members: Sequence[str], has: Mapping[str, set[_Place]]
) -> dict[str, set[_Place]]:
    if not places or not members:
        return {member: set() for member in members}
    sharing = -(-len(members) // len(places))
    quotas = _quotas(sharing * len(places), members)
    wanted = set(places)
    got = {member: has.get(member, set()) & wanted for member in members}
    holders = {place: {each for each in members if place in got[each]} for place in places}

    def give_up(member: str, place: _Place) -> None:
        got[member].discard(place)
        holders[place].discard(member)

    for place in places:  # what too many have, those with too much give up first
        excess = len(holders[place]) - sharing
        if excess > 0:
            surplus = {each: len(got[each]) - quotas[each] for each in holders[place]}
            for member in sorted(surplus, key=lambda each: (-surplus[each], each))[:excess]:
                give_up(member, place)
    for member in members:  # the rest of what is too much: rather what others have too
        excess = len(got[member]) - quotas[member]
        if excess > 0:
            by_holders = sorted(got[member], key=lambda place: (-len(holders[place]), place))
            for place in by_holders[:excess]:
                give_up(member, place)
    _hand_out(places, sharing, quotas, got, holders)
    return got


def _hand_out(
    places: Sequence[_Place],
    sharing: int,
    quotas: Mapping[str, int],
    got: dict[str, set[_Place]],
    holders: dict[_Place, set[str]],
) -> None:
    """Give what too few have to the members that have least; none gets more than its quota."""
    with_room = [
        (len(got[member]) - quota, member)
        for member, quota in quotas.items()
        if len(got[member]) < quota
    ]
    heapq.heapify(with_room)
    for place in sorted(places, key=lambda each: (len(holders[each]), each)):
        passed = []
        while len(holders[place]) < sharing and with_room:
            balance, member = heapq.heappop(with_room)
            if member not in holders[place]:
                got[member].add(place)
                holders[place].add(member)
                balance += 1
            if balance < 0:
                passed.append((balance, member))
        for each in passed:
            heapq.heappush(with_room, each)


def _quotas(total: int, members: Sequence[str]) -> dict[str, int]:
    """How much each member is to have: equal shares, and what is left over spread evenly."""
    ends = [-(-total * count // len(members)) for count in range(len(members) + 1)]
    return {member: ends[i + 1] - ends[i] for i, member in enumerate(members)}
