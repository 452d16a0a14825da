"""The acknowledgements of one request: applied immediately, and answered once they are written.

An error of one partition does not affect the other partitions. The order of checks is Apache
Kafka's: topic id, the request itself, the client's right, the partition, the records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from drumlin.broker.rights.acls import Kind
from drumlin.broker.rights.denials import DENIED
from drumlin.broker.share_fetch.readable import Denies
from drumlin.broker.share_partitions.delivery import ShareDelivery
from drumlin.broker.share_partitions.sessions import Member, SessionPartition
from drumlin.coordination.share.delivery.acknowledgement import Acknowledgement, check_request
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

#: The acknowledgements of each partition.
Acknowledgements = Mapping[SessionPartition, Sequence[Acknowledgement]]


class Answer(NamedTuple):
    """The outcome for one partition; an error about records has a message."""

    code: ErrorCode = ErrorCode.none
    message: str | None = None


Answers = dict[SessionPartition, Answer]

_TAKEN: Final = Answer()


class Acknowledging:
    """The acknowledgements of a request: those being written, and those refused immediately."""

    def __init__(self) -> None:
        self._answers: Answers = {}
        self._writing: dict[SessionPartition, asyncio.Task[KafkaError | None]] = {}

    async def answers(self) -> Answers:
        """The answers, once everything is written. Writing continues if the caller is cancelled."""
        while self._writing:  # one by one, as waiting for thousands together takes a turn
            shared, task = self._writing.popitem()
            if not task.done():
                await asyncio.wait([task])
            error = task.result()
            if error is not None:
                self.refuse(shared, error)
            await give_way()
        return self._answers

    def take(self, shared: SessionPartition) -> None:
        """Remember that the partition's acknowledgements were accepted."""
        self._answers[shared] = _TAKEN

    def refuse(self, shared: SessionPartition, error: KafkaError) -> None:
        self._answers[shared] = Answer(error.code, error.message)

    def wait_for(self, shared: SessionPartition, task: asyncio.Task[KafkaError | None]) -> None:
        self._writing[shared] = task


async def acknowledgements(topics: Iterable[Any]) -> dict[SessionPartition, list[Acknowledgement]]:
    """The acknowledgements in a ShareFetch or ShareAcknowledge request, by partition."""
    said: dict[SessionPartition, list[Acknowledgement]] = {}
    for topic in topics:
        await give_way()
        for partition in topic.partitions:
            if partition.acknowledgement_batches:
                # A partition may be named twice. All its acknowledgements count: if one were
                # dropped, its records would be delivered again.
                shared = SessionPartition(topic.topic_id, partition.partition_index)
                batches = said.setdefault(shared, [])
                for each in partition.acknowledgement_batches:
                    batches.append(
                        Acknowledgement(each.first_offset, each.last_offset, each.acknowledge_types)
                    )
                    await give_way()
    return said


async def begin_to_acknowledge(
    delivery: ShareDelivery,
    member: Member,
    said: Acknowledgements,
    denies: Denies,
    *,
    knows_renew: bool,
    says_renew: bool,
) -> Acknowledging:
    """Apply a member's acknowledgements partition by partition, and start writing them."""
    begun = Acknowledging()
    for shared, batches in said.items():
        begun.take(shared)
        try:
            delivery.check_topic(shared)
            await check_request(batches, knows_renew=knows_renew, says_renew=says_renew)
            if denies(shared):
                raise KafkaError(DENIED[Kind.TOPIC])  # without a message, as in Apache Kafka
            delivery.partition_of(shared)
            live = delivery.find(member.group_id, shared)
            if live is None or not live.is_ready:
                raise KafkaError(ErrorCode.unknown_topic_or_partition, "it has no readers here")
            change = await live.acknowledging(member.member_id, batches)
            if change and (writing := live.write(change)) is not None:
                begun.wait_for(shared, writing)
        except KafkaError as error:
            begun.refuse(shared, error)
        await give_way()
    return begun
