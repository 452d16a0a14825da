"""Acknowledgements of one request: taken at once, answered when they are written.

What is wrong with one partition is that partition's matter alone. The errors come in Apache
Kafka's order: topic id, what the request says, the partition, the records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from drumlin.broker.shares.delivery import ShareDelivery
from drumlin.broker.shares.live_partition import LivePartition
from drumlin.broker.shares.sessions import Member, SharedPartition
from drumlin.coordination.share_partitions.acknowledgement import Acknowledgement, check_request
from drumlin.coordination.share_partitions.in_flight import Change
from drumlin.wire.errors import ErrorCode, KafkaError

#: What was said of each partition.
Acknowledgements = Mapping[SharedPartition, Sequence[Acknowledgement]]


class Answer(NamedTuple):
    """What a member is told of a partition; a sentence where the records are in question."""

    code: ErrorCode = ErrorCode.none
    message: str | None = None


Answers = dict[SharedPartition, Answer]


def acknowledgements(topics: Iterable[Any]) -> dict[SharedPartition, list[Acknowledgement]]:
    """What a ShareFetch or ShareAcknowledge request says, where it says anything."""
    said: dict[SharedPartition, list[Acknowledgement]] = {}
    for topic in topics:
        for partition in topic.partitions:
            if partition.acknowledgement_batches:
                # Named twice, it counts twice: what is dropped here would be delivered again.
                shared = SharedPartition(topic.topic_id, partition.partition_index)
                said.setdefault(shared, []).extend(
                    Acknowledgement(each.first_offset, each.last_offset, each.acknowledge_types)
                    for each in partition.acknowledgement_batches
                )
    return said


def begin_to_acknowledge(
    delivery: ShareDelivery,
    member: Member,
    said: Acknowledgements,
    *,
    knows_renew: bool,
    says_renew: bool,
) -> Awaitable[Answers]:
    """Take what a member says. Whoever awaits the answers may go away; all is written anyway."""
    answers: Answers = {}
    taken: list[tuple[SharedPartition, LivePartition, Change]] = []
    for shared, batches in said.items():
        answers[shared] = Answer()
        try:
            delivery.check_topic(shared)
            check_request(batches, knows_renew=knows_renew, says_renew=says_renew)
            delivery.partition_of(shared)
            live = delivery.find(member.group_id, shared)
            if live is None or not live.is_ready:
                raise KafkaError(ErrorCode.unknown_topic_or_partition, "nobody reads it here")
            if change := live.acknowledge(member.member_id, batches):
                taken.append((shared, live, change))
        except KafkaError as error:
            answers[shared] = Answer(error.code, error.message)
    return asyncio.shield(delivery.spawn(_write_all(taken, answers)))


async def _write_all(
    taken: Sequence[tuple[SharedPartition, LivePartition, Change]], answers: Answers
) -> Answers:
    async def write(shared: SharedPartition, live: LivePartition, change: Change) -> None:
        try:
            await live.write(change)
        except KafkaError as error:
            answers[shared] = Answer(error.code, error.message)

    if len(taken) == 1:
        await write(*taken[0])
    else:
        await asyncio.gather(*(write(*each) for each in taken))
    return answers
