"""Deletes the first records of logs (DeleteRecords), which moves the log start offset up."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from drumlin.client.places import End, check_partitions
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.peer_error import PeerError, only
from drumlin.peer.rights import refusal
from drumlin.wire.error_codes import ErrorCode, KafkaError, error_of
from drumlin.wire.protocol.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

#: Stands for the high watermark, so that all records are deleted.
HIGH_WATERMARK: Final = -1


async def delete_records(
    connections: BrokerConnections, before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | KafkaError | PeerError]:
    """Delete the records before an offset, in many partitions at once.

    Returns for each partition its new log start offset, or the error: a failure in one does not
    undo the deletion in others.
    """

    async def outcome(place: TopicPartition, offset: int) -> int | KafkaError | PeerError:
        try:
            return await _delete_in(connections, *place, offset)
        except (KafkaError, PeerError) as error:
            return error

    outcomes = await asyncio.gather(*(outcome(*each) for each in before.items()))
    return dict(zip(before, outcomes, strict=True))


async def _delete_in(
    connections: BrokerConnections, topic: str, partition: int, offset: int
) -> int:
    where = f"topic {topic!r} partition {partition}"
    part = DeleteRecordsPartition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(
        topics=(DeleteRecordsTopic(name=topic, partitions=(part,)),),
        timeout=timedelta(milliseconds=connections.options.request_timeout_ms),
    )

    async def attempt() -> int:
        connection = await connections.leader(topic, partition)
        response = await connection.request("delete_records", request)
        answer: Any = only(only(response.topics, where).partitions, where)
        if answer.error_code is not ErrorCode.none:
            raise refusal("delete_records", error_of(answer.error_code), where)
        return int(answer.low_watermark)

    return await connections.retrying(attempt, topics=(topic,))


async def delete_in_topic(
    connections: BrokerConnections,
    topic: str,
    partitions: Sequence[int] | None,
    before: End | Mapping[int, End],
) -> dict[int, int]:
    """Delete in partitions of one topic (None: all); returns their new log start offsets.

    Raises:
        KafkaError, PeerError: the first refusal; a note lists the new starts of the others.
        ValueError: `before` does not have exactly these partitions.
    """
    wanted = await connections.partitions(topic) if partitions is None else list(partitions)
    if isinstance(before, Mapping):
        check_partitions("before", before, wanted)
        ends = {partition: before[partition] for partition in wanted}
    else:
        ends = dict.fromkeys(wanted, before)
    offsets = {
        TopicPartition(topic, each): HIGH_WATERMARK if end == "latest" else end
        for each, end in ends.items()
    }
    outcomes = await delete_records(connections, offsets)
    starts: dict[int, int] = {}
    refusals: list[KafkaError | PeerError] = []
    for (_, partition), outcome in outcomes.items():
        if isinstance(outcome, int):
            starts[partition] = outcome
        else:
            refusals.append(outcome)
    if refusals:
        if starts:
            refusals[0].add_note(f"other partitions start here now: {starts}")
        raise refusals[0]
    return starts
