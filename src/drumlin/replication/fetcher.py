"""Fetches all partitions that this broker follows from one leader, in one incremental session.

As soon as an answer is in the logs the next request is sent: it tells the leader so, and producers
with acks=all wait for that. A partition that comes while the leader holds a request is told by
another one, which has the leader answer the first.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from drumlin.peer import follower_fetch
from drumlin.peer.follower_fetch import Limits, Replica, encode_fetch
from drumlin.peer.peer_error import PeerError
from drumlin.replication.followed_partitions import Followed, FollowedPartitions, Surroundings
from drumlin.replication.leaders_offsets import leaders_offsets
from drumlin.wire.by_hand.fetch_response import parse_fetch_response
from drumlin.wire.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from drumlin.peer.connection import BrokerConnection
    from drumlin.peer.follower_fetch import Position
    from drumlin.replication.followed_partition import FollowedPartition
    from drumlin.replication.follower_session import Request
    from drumlin.wire.by_hand.fetch_response import FetchResponse
    from drumlin.wire.messages import EncodedBody, Shape

_logger = logging.getLogger(__name__)

_IN_FLIGHT_MAX: Final = 2
_OF_SESSIONS: Final = frozenset(
    {
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
    }
)


class LeaderFetcher:
    """Runs from `start` to `close`. Partitions come and go at any time."""

    def __init__(self, leader_id: int, around: Surroundings) -> None:
        self.leader_id = leader_id
        self._around = around
        self._followed = FollowedPartitions(around, self._tell_soon)
        self._session = self._followed.session
        self._epoch = -1  # of the broker, by which the leader knows the session
        self._has_news = asyncio.Event()
        self._will_tell = False
        self._task: asyncio.Task[None] | None = None
        self._connection: BrokerConnection | None = None
        self._in_flight: deque[tuple[Request, asyncio.Future[FetchResponse]]] = deque()
        self._failures = 0  # in a row, of connections and whole requests
        self._unforeseen = ""  # the last failure that is a fault of ours

    def __len__(self) -> int:
        return len(self._followed)

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Fetch no more."""
        await self._followed.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def add(self, partition: FollowedPartition) -> None:
        """Fetch a partition from now on, or at once in its new leader epoch."""
        self._followed.add(partition)

    def remove(self, partition: FollowedPartition) -> None:
        """Fetch a partition no more. What is under way for it changes nothing any more."""
        self._followed.remove(partition)

    def name_again(self, partition: FollowedPartition) -> None:
        """Tell the leader once more where a partition stands."""
        self._followed.name_again(partition)

    def hold_back(self, partition: FollowedPartition) -> None:
        """Fetch a partition only once its log dir, which is offline, works again."""
        self._followed.hold_back(partition)

    # -- the loop ----------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                await self._fetch_over_one_connection()
            except (PeerError, KafkaError) as error:
                level = logging.DEBUG if self._failures else logging.WARNING  # once
                _logger.log(level, "fetching from broker %d has failed: %s", self.leader_id, error)
            except Exception as error:  # its partitions would not be followed any more
                is_known = self._failures > 0 and self._unforeseen == repr(error)
                self._unforeseen = repr(error)
                if not is_known:
                    _logger.exception("fetching from broker %d has failed", self.leader_id)
            self._session.restart()
            self._failures += 1
            await asyncio.sleep(self._around.backoff_s(self._failures))

    async def _fetch_over_one_connection(self) -> None:
        await self._until_wanted()
        connection = await self._around.connect(self.leader_id)
        self._connection = connection
        try:
            while True:
                if not self._in_flight:
                    await self._until_wanted()
                    self._send(connection)
                self._tell()
                request, answer = self._in_flight[0]
                response = await answer
                self._in_flight.popleft()
                if self._session.is_current(request):
                    await self._take(connection, request, response)
                    self._failures = 0
        finally:
            self._connection = None
            connection.close()
            for _, answer in self._in_flight:
                if not answer.cancel() and not answer.cancelled():
                    answer.exception()  # the first one has told it
            self._in_flight.clear()

    async def _until_wanted(self) -> None:
        """Return when there is something to fetch."""
        while not len(self._session):
            self._has_news.clear()
            await self._has_news.wait()

    # -- requests ----------------------------------------------------------------------

    def _tell_soon(self) -> None:
        """There is more to tell the leader; there may be yet more in this turn."""
        self._has_news.set()
        if self._in_flight and not self._will_tell:
            self._will_tell = True
            asyncio.get_running_loop().call_soon(self._tell_now)

    def _tell_now(self) -> None:
        self._will_tell = False
        try:
            self._tell()
        except (PeerError, KafkaError):
            return  # the loop meets it, too

    def _tell(self) -> None:
        """Tell the leader of news while it holds a request, unless it does not know us yet."""
        if (
            self._connection is not None
            and 0 < len(self._in_flight) < _IN_FLIGHT_MAX
            and self._session.has_news
            and not self._session.is_beginning
        ):
            self._send(self._connection)

    def _send(self, connection: BrokerConnection) -> None:
        epoch = self._around.broker_epoch()
        if epoch != self._epoch:  # of every partition, the leader has to hear that we are in it
            self._epoch = epoch
            self._session.restart()
        request = self._session.next()
        body = self._encode(request)

        def build(shape: Shape) -> EncodedBody:
            if shape.version < follower_fetch.VERSION_MIN:
                raise KafkaError(
                    ErrorCode.unsupported_version,
                    f"broker {self.leader_id} is too old to be followed",
                )
            return body

        answer = connection.send(
            "fetch",
            build,
            version_max=follower_fetch.VERSION_MAX,
            timeout_ms=self._around.config.replica_socket_timeout_ms,
            parse=parse_fetch_response,
        )
        self._in_flight.append((request, answer))

    def _encode(self, request: Request) -> EncodedBody:
        around = self._around
        config = around.config
        limits = Limits(
            config.replica_fetch_wait_max_ms if request.is_complete else 0,
            config.replica_fetch_min_bytes,
            config.replica_fetch_response_max_bytes,
            config.replica_fetch_max_bytes,
        )
        return encode_fetch(
            Replica(around.node_id, self._epoch),
            limits,
            (request.session_id, request.epoch),
            request.wanted,
            request.forgotten,
        )

    # -- answers -----------------------------------------------------------------------

    async def _take(
        self, connection: BrokerConnection, request: Request, response: FetchResponse
    ) -> None:
        if response.error_code in _OF_SESSIONS:
            _logger.debug("broker %d: %s", self.leader_id, response.error_code.name)
            self._session.restart()
            return
        if response.error_code is not ErrorCode.none:
            raise KafkaError(response.error_code, "the leader refuses")
        self._session.answered(request, response.session_id)
        some_records = None
        out_of_range: list[tuple[Followed, Position, int]] = []
        for topic in response.topics:
            for answer in topic.partitions:
                key = topic.topic_id, answer.partition
                followed, asked = self._followed.find(key), self._session.asked(key, request)
                if len(answer.records):
                    some_records = answer.records
                if followed is None or asked is None:
                    continue
                if answer.error_code is ErrorCode.offset_out_of_range:
                    out_of_range.append((followed, asked, answer.high_watermark))
                else:
                    await self._followed.take(followed, asked, answer)
        if some_records is not None:
            connection.give_back(some_records)
        if out_of_range:
            await self._reset(connection, out_of_range)

    async def _reset(
        self, connection: BrokerConnection, out_of_range: list[tuple[Followed, Position, int]]
    ) -> None:
        """Ask where the leader's logs begin and end, as it does not have what was asked for."""
        partitions = [followed.partition for followed, _, _ in out_of_range]
        found = await leaders_offsets(connection, self._around.node_id, partitions)
        for followed, asked, committed in out_of_range:
            offsets = found.get(followed.partition)
            if offsets is not None:
                self._followed.reset(followed, asked, offsets, committed)
