"""Fetch record batches of one partition, as the bytes they are.

Responses carry whole batches, except that the last may be cut off at the size limit; the
first is always whole. What lies between is nobody's business here but for `end_of_batches`,
which tells where to fetch on, whatever was compacted away or is no record at all.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final, NamedTuple

from drumlin.peer.connection import BrokerConnection
from drumlin.peer.options import ISOLATION_LEVELS, Isolation
from drumlin.records.batch import iterate_headers
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.messages import Shape

# From 13 on topics go by id; names do for readers, and work on every broker.
_VERSION_MAX: Final = 12
_CONSUMER: Final = -1


class AbortedTransaction(NamedTuple):
    """A transaction whose records, from `first_offset` on, a committed reader must skip."""

    producer_id: int
    first_offset: int


class Fetched(NamedTuple):
    """The answer for one partition. `records` is empty where nothing is readable yet."""

    records: bytes
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted_transactions: tuple[AbortedTransaction, ...]


async def fetch(
    connection: BrokerConnection,
    topic: str,
    partition: int,
    offset: int,
    *,
    max_bytes: int,
    max_wait_ms: int,
    isolation: Isolation,
) -> Fetched:
    """Batches from the one that holds `offset` on, up to about `max_bytes`.

    Raises:
        KafkaError: the broker's error for this partition.
        PeerError: no answer.
    """

    def build(shape: Shape) -> object:
        wanted = shape(
            "FetchPartition",
            partition=partition,
            fetch_offset=offset,
            partition_max_bytes=max_bytes,
        )
        return shape(
            "FetchRequest",
            replica_id=_CONSUMER,
            max_wait=timedelta(milliseconds=max_wait_ms),
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=ISOLATION_LEVELS[isolation],
            topics=(shape("FetchTopic", topic=topic, partitions=(wanted,)),),
            forgotten_topics_data=(),
        )

    response = await connection.request("fetch", build, version_max=_VERSION_MAX)
    return _fetched(response, topic, partition)


def _fetched(response: Any, topic: str, partition: int) -> Fetched:
    code = getattr(response, "error_code", ErrorCode.none)
    data = None
    if code is ErrorCode.none:
        data = response.responses[0].partitions[0]
        code = data.error_code
    if data is None or code is not ErrorCode.none:
        raise KafkaError(code, f"fetch of topic {topic!r} partition {partition}")
    return Fetched(
        data.records or b"",
        data.high_watermark,
        data.last_stable_offset,
        getattr(data, "log_start_offset", -1),
        tuple(
            AbortedTransaction(each.producer_id, each.first_offset)
            for each in data.aborted_transactions or ()
        ),
    )


def end_of_batches(records: bytes) -> int | None:
    """The offset after the last whole batch: where to fetch on. None where no batch is whole."""
    end_offset = None
    for _, header in iterate_headers(records):
        end_offset = header.end_offset
    return end_offset
