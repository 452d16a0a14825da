"""Fetches one range of a partition ahead of the thread that decodes it. Used in the loop only.

One piece is ready and one is in flight, so that the network never waits for the decoder;
`fetch_memory.py` limits the memory of all streams. The next fetch starts at the end offset of the
fetched batches, whatever records they hold: offsets without a record are skipped.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from drumlin.client.errors import ClientError, LogEndsEarly, OffsetOutOfRange
from drumlin.client.read.fetch_memory import FetchMemory
from drumlin.client.read.log_bounds import bounds_of
from drumlin.client.read.nearest_replica import NearestReplica
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.connection import BrokerConnection
from drumlin.peer.fetch import end_of_batches, fetch
from drumlin.peer.options import Isolation
from drumlin.peer.peer_error import InvalidResponse, PeerError
from drumlin.peer.retry import Deadline
from drumlin.wire.by_hand.fetch_response import PartitionFetch
from drumlin.wire.error_codes import ErrorCode, KafkaError

_MAX_WAIT_MS: Final = 500


class OffsetRange(NamedTuple):
    """start_offset <= offset < end_offset, in one partition.

    A fetch does not stop at the end of a range; if the range is known to be small, `fetch_bytes`
    limits the first fetch.
    """

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    fetch_bytes: int | None = None

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class RangeStream:
    """The pieces of one range, in order. `begin` starts fetching, in the loop."""

    def __init__(
        self,
        connections: BrokerConnections,
        wanted: OffsetRange,
        isolation: Isolation,
        fetch_bytes: int,
        memory: FetchMemory,
        rack: str = "",
    ) -> None:
        """With a `rack`, reads from the nearest replica; without one, only from the leader."""
        self._connections = connections
        self._range = wanted
        self._isolation = isolation
        self._fetch_bytes = fetch_bytes
        self._nearest = NearestReplica(rack)
        self._share = memory.share()
        self._is_closed = False
        # Pieces, then the error that ended fetching, or None after the last piece.
        self._ready: asyncio.Queue[PartitionFetch | Exception | None] = asyncio.Queue(maxsize=1)
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start fetching."""
        if not self._is_closed:
            self._task = self._connections.run(self._fetch_all)

    async def next(self) -> PartitionFetch | None:
        """The next piece; None when the range is complete. Raises the error that ended fetching."""
        if self._is_closed:
            raise ClientError(f"{self._where}: no longer readable, as the next range was begun")
        self._share.ask()
        piece = await self._ready.get()
        self._share.answer()
        if isinstance(piece, Exception):
            raise piece
        return piece

    def close(self) -> None:
        """Stop fetching, possibly before the end of the range."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
        self._share.give_up()

    async def _fetch_all(self) -> None:
        try:
            await self._fetch_pieces()
        except Exception as error:  # noqa: BLE001 - raised again by `next`
            await self._ready.put(error)
        else:
            await self._ready.put(None)

    async def _fetch_pieces(self) -> None:
        offset = self._range.start_offset
        fetch_bytes = min(self._range.fetch_bytes or self._fetch_bytes, self._fetch_bytes)
        patience: Deadline | None = None
        while offset < self._range.end_offset:
            await self._share.wait_to_fetch(fetch_bytes)
            if (
                patience is None
            ):  # begins at the first fetch: time spent waiting for a slow reader does not count
                patience = Deadline(self._connections.options.patience_ms)
            fetched = await self._fetch(offset, fetch_bytes)
            self._share.fetched(len(fetched.records))
            end_offset = end_of_batches(fetched.records)
            if end_offset is None:
                self._share.leave_out()
                self._check_empty(fetched, offset, patience)
                continue
            if end_offset <= offset:
                raise InvalidResponse(f"{self._where}: got only records before offset {offset}")
            await self._ready.put(fetched)
            offset, fetch_bytes, patience = end_offset, self._fetch_bytes, None

    async def _fetch(self, offset: int, max_bytes: int) -> PartitionFetch:
        topic = self._range.topic
        fetched = await self._fetch_near(offset, max_bytes)
        if fetched is not None:
            return fetched

        async def attempt() -> PartitionFetch:
            leader = await self._connections.leader(topic, self._range.partition)
            return await self._fetch_from(leader, offset, max_bytes, self._nearest.rack)

        try:
            fetched = await self._connections.retrying(attempt, topics=(topic,))
        except KafkaError as error:
            if error.code is not ErrorCode.offset_out_of_range:
                raise
            raise await self._out_of_range(offset) from error
        self._nearest.follow(fetched.preferred_read_replica)
        return fetched

    async def _fetch_near(self, offset: int, max_bytes: int) -> PartitionFetch | None:
        """Fetch from the replica that the leader has named. None: fetch from the leader."""
        node_id = self._nearest.node_id
        if node_id is None:
            return None
        try:
            replica = await self._connections.broker(node_id)
            fetched = await self._fetch_from(replica, offset, max_bytes, self._nearest.rack)
            if fetched.records:
                return fetched
        except (KafkaError, PeerError):
            pass
        # The follower is down, no longer a replica, or lagging: fetch from the leader.
        self._nearest.give_up()
        return None

    async def _fetch_from(
        self, broker: BrokerConnection, offset: int, max_bytes: int, rack: str
    ) -> PartitionFetch:
        return await fetch(
            broker,
            self._range.topic,
            self._range.partition,
            offset,
            max_bytes=max_bytes,
            max_wait_ms=_MAX_WAIT_MS,
            isolation=self._isolation,
            rack=rack,
        )

    def _check_empty(self, fetched: PartitionFetch, offset: int, patience: Deadline) -> None:
        # The high watermark of a newly elected leader may lag for a moment.
        if fetched.records:
            raise InvalidResponse(f"{self._where}: no whole batch in {len(fetched.records)} bytes")
        if patience.is_over:
            raise LogEndsEarly(
                f"{self._where}: nothing readable at offset {offset}, expected up to "
                f"{self._range.end_offset} (high watermark {fetched.high_watermark}, "
                f"last stable offset {fetched.last_stable_offset})"
            )

    async def _out_of_range(self, offset: int) -> OffsetOutOfRange:
        place = self._range.place
        bounds = await bounds_of(self._connections, [place], self._isolation)
        return OffsetOutOfRange(*place, offset, *bounds[place])

    @property
    def _where(self) -> str:
        return f"topic {self._range.topic!r} partition {self._range.partition}"
