"""Small samples of logs: the bytes per offset at a place. Spark plans its tasks by them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, NamedTuple

from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.fetch import fetch, last_whole_batch
from drumlin.peer.peer_error import PeerError
from drumlin.records.batch.batch import Buffer, parse_header, parse_offset_and_length
from drumlin.wire.error_codes import KafkaError

#: The size of a fetch. A broker always returns the first batch whole.
_PIECE_BYTES: Final = 16 << 10
_AT_A_TIME: Final = 16
#: Offsets to go back if a sample is only transaction markers, which say nothing about records.
_STEPS_BACK: Final = (0, 1, 8)
#: The time limit for all samples: plans wait for them, but can do without.
_PATIENCE_S: Final = 5.0


class LogPlace(NamedTuple):
    """An offset in a partition."""

    topic: str
    partition: int
    offset: int


class LogSample(NamedTuple):
    """The bytes of the offsets from `start_offset` to `end_offset` (exclusive), gaps included."""

    start_offset: int
    end_offset: int
    size_bytes: int

    @property
    def bytes_per_offset(self) -> float:
        return self.size_bytes / (self.end_offset - self.start_offset)


async def log_samples(
    connections: BrokerConnections, places: Iterable[LogPlace]
) -> dict[LogPlace, LogSample]:
    """Samples at these places. Places that cannot be read quickly are left out."""
    turn = asyncio.Semaphore(_AT_A_TIME)

    async def sample(place: LogPlace) -> LogSample | None:
        async with turn:
            try:
                return await _sample(connections, place)
            except (KafkaError, PeerError):  # not worth waiting for
                return None

    looks = {place: asyncio.ensure_future(sample(place)) for place in dict.fromkeys(places)}
    if not looks:
        return {}
    try:
        done, _ = await asyncio.wait(looks.values(), timeout=_PATIENCE_S)
    finally:
        for look in looks.values():
            look.cancel()
    found = {place: look.result() for place, look in looks.items() if look in done}
    return {place: each for place, each in found.items() if each is not None}


async def _sample(connections: BrokerConnections, place: LogPlace) -> LogSample | None:
    """The sample at a place; at a transaction marker, with the records before it."""
    found = None
    for step in _STEPS_BACK:
        offset = max(0, place.offset - step)
        fetched = await fetch(
            await connections.leader(place.topic, place.partition),
            place.topic,
            place.partition,
            offset,
            max_bytes=_PIECE_BYTES,
            max_wait_ms=0,
            isolation="read_uncommitted",
        )
        last = last_whole_batch(fetched.records)
        if last is None or last.end_offset <= offset:
            break
        first = parse_header(fetched.records)
        size_bytes = _whole_bytes(fetched.records)
        found = LogSample(min(first.base_offset, offset), last.end_offset, size_bytes)
        if not (first.is_control and last.is_control):
            break
    return found


def _whole_bytes(records: Buffer) -> int:
    """The size of the whole batches in `records`, which has at least one."""
    position = 0
    while position + 12 <= len(records):
        _, size = parse_offset_and_length(records, position)
        if size <= 0 or position + size > len(records):
            break
        position += size
    return position
