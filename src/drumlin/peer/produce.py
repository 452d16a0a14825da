"""Send one record batch to one partition, as the bytes it is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

from drumlin.peer.connection import BrokerConnection
from drumlin.peer.errors import only
from drumlin.peer.rights import refusal
from drumlin.records.batch import Buffer
from drumlin.wire.errors import ErrorCode
from drumlin.wire.messages import Shape

# From 13 on topics go by id.
_VERSION_MAX: Final = 12
# From 12 on a broker takes a partition into the transaction by itself (KIP-890), and expects a
# new epoch for the next one.
_TRANSACTIONAL_VERSION_MAX: Final = 11
NO_ACKS: Final = 0


class Produced(NamedTuple):
    """Where a batch ended up. `log_append_time_ms` is -1 where records keep their own time."""

    base_offset: int
    log_append_time_ms: int
    log_start_offset: int


def send_batch(
    connection: BrokerConnection,
    topic: str,
    partition: int,
    batch: Buffer,
    *,
    acks: int,
    timeout_ms: int,
    transactional_id: str | None = None,
) -> asyncio.Future[Any]:
    """Send now, behind what was sent before; give the future answer to `produced`.

    With acks=0 the answer is None, as soon as the batch is on its way, or lost.
    """

    def build(shape: Shape) -> object:
        data = shape("PartitionProduceData", index=partition, records=batch)
        return shape(
            "ProduceRequest",
            transactional_id=transactional_id,
            acks=acks,
            timeout=timedelta(milliseconds=timeout_ms),
            topic_data=(shape("TopicProduceData", name=topic, partition_data=(data,)),),
        )

    version_max = _VERSION_MAX if transactional_id is None else _TRANSACTIONAL_VERSION_MAX
    if acks != NO_ACKS:
        return connection.send("produce", build, version_max=version_max)
    connection.send_unanswered("produce", build, version_max=version_max)
    return asyncio.ensure_future(connection.writable())


def produced(response: Any, topic: str, partition: int) -> Produced:
    """What the answer says.

    Raises:
        KafkaError: the broker's error for this partition.
        InvalidResponse: the answer says nothing about it.
    """
    if response is None:
        return Produced(-1, -1, -1)
    what = f"produce to topic {topic!r} partition {partition}"
    answer = only(only(response.responses, what).partition_responses, what)
    if answer.error_code is not ErrorCode.none:
        raise refusal("produce", answer.error_code, _complaint(answer, topic, partition))
    time = answer.log_append_time
    return Produced(
        answer.base_offset,
        -1 if time is None else int(time.timestamp() * 1000),
        getattr(answer, "log_start_offset", -1),
    )


def _complaint(answer: Any, topic: str, partition: int) -> str:
    errors: Sequence[Any] = getattr(answer, "record_errors", ())
    details = [f"record {each.batch_index}: {each.batch_index_error_message}" for each in errors]
    reasons = [getattr(answer, "error_message", None), *details[:3]]
    where = f"topic {topic!r} partition {partition}"
    return ": ".join([where, *filter(None, reasons)])
