"""One record written to a topic, by an idempotent producer: once, however often it is sent.

Topics are not created: a misspelled one is an error.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Final

from drumlin.client.errors import ClientError, DeliveryFailed, RequestRefused
from drumlin.client.write.partition_sender import Batch
from drumlin.client.write.producer import DeliveryMode, Producer
from drumlin.console.answers.asking import Answer
from drumlin.console.answers.topics import existing_topic
from drumlin.console.changes.record import NewRecord
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.produce import Produced
from drumlin.peer.retry import Deadline
from drumlin.peer.rights import Denied
from drumlin.records.plain.plain_columns import murmur2_plain
from drumlin.records.plain.record import Record, encode_batch
from drumlin.wire.error_codes import ErrorCode, KafkaError

#: Much less than the time of an answer, so that the outcome is told.
_DELIVERY_MS: Final = 20_000


class MayBeWritten(ClientError):
    """The record may be in the log or not: who writes it again may have it twice."""


async def produce(
    connections: BrokerConnections, topic: str, partition: int | None, record: NewRecord
) -> Answer:
    """Write a record; to the partition of Kafka's default partitioner, unless one is given.

    Raises:
        KafkaError: there is no such topic or partition, or a broker refuses the record.
        MayBeWritten: it is unknown whether the record was written.
    """
    described = await existing_topic(connections, topic)
    existing = [each.index for each in described.partitions]
    if partition is None:
        partition = _chosen(record.key, existing)
    elif partition not in existing:
        what = f"topic {topic!r} partition {partition}"
        raise KafkaError(ErrorCode.unknown_topic_or_partition, f"{what} does not exist")
    time_ms = time.time_ns() // 1_000_000
    row = Record(0, time_ms, record.key, record.value, record.headers)
    batch = Batch(encode_batch([row]), Deadline(_DELIVERY_MS))
    producer = Producer(connections)
    try:
        producer.put(topic, partition, DeliveryMode.of("all", None), batch)
        written = await _outcome(batch)
    finally:
        producer.close()
    return {
        "topic": topic,
        "partition": partition,
        "offset": written.base_offset,
        "timestamp_ms": time_ms if written.log_append_time_ms < 0 else written.log_append_time_ms,
    }


def _chosen(key: bytes | None, partitions: list[int]) -> int:
    if key is None:
        return random.choice(partitions)
    return murmur2_plain(key) % len(partitions)


async def _outcome(batch: Batch) -> Produced:
    try:
        return await asyncio.wrap_future(batch.done)
    except DeliveryFailed as error:
        if error.may_be_written:
            why = f"{error}; the record may be written: look before you write it again"
            raise MayBeWritten(why) from error
        if isinstance(error.__cause__, Denied):
            raise error.__cause__ from None
        if isinstance(error.__cause__, KafkaError):
            raise RequestRefused(str(error), error.__cause__.code) from error
        raise
