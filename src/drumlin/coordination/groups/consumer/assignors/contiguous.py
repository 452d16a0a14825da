"""`range`: every member gets a run of consecutive partitions of each topic.

With equal subscriptions, members get the same partitions of each topic, so that topics with equal
partition counts can be joined. The first members get the larger runs; static members come first, in
the order of their instance ids, so that they keep their partitions when they come back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from uuid import UUID

from drumlin.coordination.groups.consumer.assignors.assignee import Assignee
from drumlin.coordination.groups.consumer.member import Partitions
from drumlin.turns import give_way


async def assign_ranges(
    members: Sequence[Assignee], partition_counts: Mapping[UUID, int]
) -> dict[str, Partitions]:
    ordered = sorted(
        (each for each in members if each.group_instance_id is not None),
        key=attrgetter("group_instance_id"),
    )
    await give_way()
    ordered += sorted(
        (each for each in members if each.group_instance_id is None), key=attrgetter("member_id")
    )
    subscribers: dict[UUID, list[str]] = {}
    for member in ordered:
        await give_way()
        for topic_id in member.topics:
            subscribers.setdefault(topic_id, []).append(member.member_id)
    assigned: dict[str, dict[UUID, frozenset[int]]] = {each.member_id: {} for each in members}
    for topic_id, member_ids in subscribers.items():
        share, larger = divmod(partition_counts[topic_id], len(member_ids))
        start = 0
        for index, member_id in enumerate(member_ids):
            await give_way()
            end = start + share + (index < larger)
            if start == end:
                break  # the remaining members get no partitions
            assigned[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(assigned)
