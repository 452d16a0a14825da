"""A fetcher: replicates partitions from one leader, over one incremental fetch session.

The next request is sent as soon as a response is appended to the logs: it acknowledges these
records to the leader, and producers with acks=all wait for that. If a partition is added while the
leader holds a request, a second request names the partition, and makes the leader answer the first.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final

from drumlin.peer import follower_fetch
from drumlin.peer.connection import BrokerConnection
from drumlin.peer.follower_fetch import Limits, Position, Replica, encode_fetch
from drumlin.peer.peer_error import PeerError
from drumlin.replication.followed_partition import FollowedPartition
from drumlin.replication.followed_partitions import Followed, FollowedPartitions, FollowerContext
from drumlin.replication.follower_session import Request
from drumlin.replication.leaders_offsets import leaders_offsets
from drumlin.wire.by_hand.fetch_response import FetchResponse, parse_fetch_response
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import EncodedBody

_logger = logging.getLogger(__name__)

_IN_FLIGHT_MAX: Final = 2  # one held by the leader, and one that updates the session
_SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
    }
)


class LeaderFetcher:
    """A fetcher, active from `start` until `close`. Partitions may be added and removed at any
    time.
    """

    def __init__(self, leader_id: int, context: FollowerContext) -> None:
        self.leader_id = leader_id
        self._context = context
        self._followed = FollowedPartitions(context, self._update_soon)
        self._session = self._followed.session
        self._epoch = -1  # this broker's epoch that the leader knows from the session
        self._has_updates = asyncio.Event()
        self._will_update = False
        self._task: asyncio.Task[None] | None = None
        self._connection: BrokerConnection | None = None
        self._in_flight: deque[tuple[Request, asyncio.Future[FetchResponse]]] = deque()
        self._failures = 0  # consecutive failures of connections and of whole requests
        self._unforeseen = ""  # the repr of the last failure by a bug of ours

    def __len__(self) -> int:
        return len(self._followed)

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop fetching."""
        await self._followed.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def add(self, partition: FollowedPartition) -> None:
        """Start to fetch a partition, or continue at once in its new leader epoch."""
        self._followed.add(partition)

    def remove(self, partition: FollowedPartition) -> None:
        """Stop fetching a partition. Answers and truncations in progress for it are discarded."""
        self._followed.remove(partition)

    def report_again(self, partition: FollowedPartition) -> None:
        """Send the position of a partition to the leader once more."""
        self._followed.report_again(partition)

    def pause_while_offline(self, partition: FollowedPartition) -> None:
        """Pause a partition until its log dir, which is offline, works again."""
        self._followed.pause_while_offline(partition)

    # -- the loop ----------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                await self._fetch_over_one_connection()
            except (PeerError, KafkaError) as error:
                level = logging.DEBUG if self._failures else logging.WARNING  # once
                _logger.log(level, "fetching from broker %d has failed: %s", self.leader_id, error)
            except Exception as error:  # else the replication of these partitions would end
                is_known = self._failures > 0 and self._unforeseen == repr(error)
                self._unforeseen = repr(error)
                if not is_known:
                    _logger.exception("fetching from broker %d has failed", self.leader_id)
            self._session.restart()
            self._failures += 1
            await asyncio.sleep(self._context.backoff_s(self._failures))

    async def _fetch_over_one_connection(self) -> None:
        await self._until_wanted()
        connection = await self._context.connect(self.leader_id)
        self._connection = connection
        try:
            while True:
                if not self._in_flight:
                    await self._until_wanted()
                    self._send(connection)
                self._update()
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
                    answer.exception()  # marks it as retrieved: the first failure was reported
            self._in_flight.clear()

    async def _until_wanted(self) -> None:
        """Wait until there is a partition to fetch."""
        while not len(self._session):
            self._has_updates.clear()
            await self._has_updates.wait()

    # -- requests ----------------------------------------------------------------------

    def _update_soon(self) -> None:
        """Update the session in the next turn, as there may be more changes in this one."""
        self._has_updates.set()
        if self._in_flight and not self._will_update:
            self._will_update = True
            asyncio.get_running_loop().call_soon(self._update_now)

    def _update_now(self) -> None:
        self._will_update = False
        try:
            self._update()
        except (PeerError, KafkaError):
            return  # `_run` fails for the same reason and handles that

    def _update(self) -> None:
        """Send the changes of the session, if the leader holds a request of that session."""
        if (
            self._connection is not None
            and 0 < len(self._in_flight) < _IN_FLIGHT_MAX
            and self._session.has_updates
            and not self._session.is_starting
        ):
            self._send(self._connection)

    def _send(self, connection: BrokerConnection) -> None:
        epoch = self._context.broker_epoch()
        if epoch != self._epoch:  # report each partition in the new epoch (KIP-903)
            self._epoch = epoch
            self._session.restart()
        request = self._session.next()
        body = self._encode(request)

        if connection.version_of("fetch", follower_fetch.VERSION_MAX) < follower_fetch.VERSION_MIN:
            message = f"broker {self.leader_id} is too old to replicate from"
            raise KafkaError(ErrorCode.unsupported_version, message)
        answer = connection.send(
            "fetch",
            body,
            version_max=follower_fetch.VERSION_MAX,
            timeout_ms=self._context.config.replica_socket_timeout_ms,
            parse=parse_fetch_response,
        )
        self._in_flight.append((request, answer))

    def _encode(self, request: Request) -> EncodedBody:
        context = self._context
        config = context.config
        limits = Limits(
            config.replica_fetch_wait_max_ms if request.is_complete else 0,
            config.replica_fetch_min_bytes,
            config.replica_fetch_response_max_bytes,
            config.replica_fetch_max_bytes,
        )
        return encode_fetch(
            Replica(context.node_id, self._epoch),
            limits,
            (request.session_id, request.epoch),
            request.wanted,
            request.forgotten,
        )

    # -- answers -----------------------------------------------------------------------

    async def _take(
        self, connection: BrokerConnection, request: Request, response: FetchResponse
    ) -> None:
        if response.error_code in _SESSION_ERRORS:
            _logger.debug("broker %d: %s", self.leader_id, response.error_code.name)
            self._session.restart()
            return
        if response.error_code is not ErrorCode.none:
            raise KafkaError(response.error_code, "the leader refuses the fetch")
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
        """Look up the leader's log start and end offsets, as it lacks the requested offsets."""
        partitions = [followed.partition for followed, _, _ in out_of_range]
        found = await leaders_offsets(connection, self._context.node_id, partitions)
        for followed, asked, committed in out_of_range:
            offsets = found.get(followed.partition)
            if offsets is not None:
                self._followed.reset(followed, asked, offsets, committed)
