"""Fetching of one partition's record batches, as bytes.

Responses carry whole batches, except that the last may be cut off at the size limit; the first is
always whole. This module does not read the records. `end_of_batches` returns the offset at which to
continue, even if records were compacted away or batches are control batches.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from drumlin.peer.connection import BrokerConnection
from drumlin.peer.options import ISOLATION_LEVELS, Isolation
from drumlin.peer.peer_error import only
from drumlin.peer.rights import refusal
from drumlin.records.batch.batch import (
    HEADER_SIZE,
    BatchHeader,
    Buffer,
    parse_header,
    parse_offset_and_length,
)
from drumlin.wire.by_hand.fetch_response import (
    VERSION_MAX_WITH_NAMES,
    FetchResponse,
    PartitionFetch,
    parse_fetch_response,
)
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.protocol.fetch import FetchPartition, FetchRequest, FetchTopic

_CONSUMER: Final = -1


async def fetch(
    connection: BrokerConnection,
    topic: str,
    partition: int,
    offset: int,
    *,
    max_bytes: int,
    max_wait_ms: int,
    isolation: Isolation,
    rack: str = "",
) -> PartitionFetch:
    """Fetch batches, beginning with the one that contains `offset`, up to about `max_bytes`.

    If a rack is given, the leader may name a replica there instead of sending records (KIP-392).

    Raises:
        KafkaError: the broker's error for this partition.
        PeerError: there is no answer.
    """
    wanted = FetchPartition(
        partition=partition,
        fetch_offset=offset,
        partition_max_bytes=max_bytes,
    )
    request = FetchRequest(
        replica_id=_CONSUMER,
        max_wait=timedelta(milliseconds=max_wait_ms),
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=ISOLATION_LEVELS[isolation],
        topics=(FetchTopic(topic=topic, partitions=(wanted,)),),
        forgotten_topics_data=(),
        rack_id=rack,
    )
    response: FetchResponse = await connection.request(
        "fetch", request, version_max=VERSION_MAX_WITH_NAMES, parse=parse_fetch_response
    )
    where = f"fetch of topic {topic!r} partition {partition}"
    if response.error_code is not ErrorCode.none:
        raise refusal("fetch", response.error_code, where)
    fetched = only(only(response.topics, where).partitions, where)
    if fetched.error_code is not ErrorCode.none:
        raise refusal("fetch", fetched.error_code, where)
    return fetched


def last_whole_batch(records: Buffer) -> BatchHeader | None:
    """The header of the last whole batch; None if no batch is whole."""
    position, end, last_position = 0, len(records), None
    while end - position >= HEADER_SIZE:
        _, size = parse_offset_and_length(records, position)
        if size < HEADER_SIZE or position + size > end:
            break
        last_position = position
        position += size
    return None if last_position is None else parse_header(records, last_position)


def end_of_batches(records: Buffer) -> int | None:
    """The offset after the last whole batch, to be fetched next; None if no batch is whole."""
    last = last_whole_batch(records)
    return None if last is None else last.end_offset
