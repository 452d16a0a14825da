"""Fetches all partitions that this broker follows from one leader, in one incremental session.

One request at a time: as soon as its answer is in the logs the next one is sent, which tells the
leader so, and for which producers with acks=all wait. What an answer changes is decided by
`FollowedPartition`; a partition with an error pauses by itself, and holds up no other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from drumlin.peer import follower_fetch
from drumlin.peer.errors import PeerError
from drumlin.peer.follower_fetch import Key, Limits, Position, Replica, encode_fetch
from drumlin.replication.follower_session import FollowerSession, Request
from drumlin.replication.leaders_offsets import leaders_offsets
from drumlin.turns import Pace
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.fetch_response import parse_fetch_response

if TYPE_CHECKING:
    from drumlin.clock import Clock
    from drumlin.config.broker import BrokerConfig
    from drumlin.peer.connection import BrokerConnection
    from drumlin.replication.followed_partition import FollowedPartition
    from drumlin.replication.throttle import Throttle
    from drumlin.storage.truncation import Truncation
    from drumlin.turns import Work
    from drumlin.wire.fetch_response import FetchResponse, PartitionFetch
    from drumlin.wire.messages import EncodedBody, Shape

T = TypeVar("T")

_logger = logging.getLogger(__name__)

#: The first pause after an error; it doubles up to `replica.fetch.backoff.ms`.
_BACKOFF_MS: Final = 50
_OF_SESSIONS: Final = frozenset(
    {
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
    }
)
#: Something else is being done with the files of a log: until it is tried again.
_BUSY_S: Final = 0.005
#: The rate of a throttle may have been changed after so long.
_HELD_BACK_S: Final = 1.0
#: Usual for a moment whenever a leader changes: not worth a warning.
_USUAL: Final = frozenset(
    {
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_id,
    }
)


class Surroundings(NamedTuple):
    """What a fetcher is given."""

    #: A new connection to a broker, which the fetcher closes.
    connect: Callable[[int], Awaitable[BrokerConnection]]
    node_id: int
    #: Of this process (KIP-903).
    broker_epoch: Callable[[], int]
    clock: Clock
    config: BrokerConfig
    #: Calls what blocks, in a thread.
    blocking: Callable[..., Awaitable[Any]]
    #: The leader knows a later leader epoch of this partition than we do.
    on_fenced: Callable[[FollowedPartition], object]
    #: For partitions that lack records.
    throttle: Throttle | None = None


class _Followed:
    """A partition, and whether it pauses: after an error, or as it has had enough for now."""

    __slots__ = ("due_at", "failures", "lacks_records", "partition")

    def __init__(self, partition: FollowedPartition) -> None:
        self.partition = partition
        self.failures = 0
        self.due_at: float | None = None  # to be fetched again
        self.lacks_records = True  # as far as is known: it is not in sync


class LeaderFetcher:
    """Runs from `start` to `close`. Partitions come and go at any time."""

    def __init__(self, leader_id: int, around: Surroundings) -> None:
        self.leader_id = leader_id
        self._around = around
        self._followed: dict[Key, _Followed] = {}
        self._paused: dict[Key, _Followed] = {}
        self._session = FollowerSession()
        self._has_news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._truncating: set[asyncio.Task[None]] = set()
        self._failures = 0  # in a row, of whole requests

    def __len__(self) -> int:
        return len(self._followed)

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Fetch no more."""
        for followed in list(self._followed.values()):
            self.remove(followed.partition)
        tasks = {*self._truncating} if self._task is None else {*self._truncating, self._task}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def add(self, partition: FollowedPartition) -> None:
        """Fetch a partition from now on, or at once in its new leader epoch."""
        key = _key(partition)
        followed = self._followed.get(key)
        if followed is None or followed.partition is not partition:
            followed = self._followed[key] = _Followed(partition)
        followed.failures = 0
        truncation = None if partition.is_busy else partition.begin()
        if truncation is None:
            self._resume(key, followed)
        else:
            self._begin(key, followed, truncation)
        self._has_news.set()

    def remove(self, partition: FollowedPartition) -> None:
        """Fetch a partition no more. What is under way for it changes nothing any more."""
        key = _key(partition)
        self._followed.pop(key, None)
        self._paused.pop(key, None)
        self._session.drop(key)
        partition.interrupt()

    # -- the loop ----------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                await self._fetch_over_one_connection()
            except (PeerError, KafkaError) as error:
                self._failed(error)
            except Exception:  # the others would not be followed any more
                _logger.exception("fetching from broker %d has failed", self.leader_id)
            self._session.restart()
            self._failures += 1
            await asyncio.sleep(self._backoff_s(self._failures))

    def _failed(self, error: Exception) -> None:
        level = logging.DEBUG if self._failures else logging.WARNING  # once
        _logger.log(level, "fetching from broker %d has failed: %s", self.leader_id, error)

    def _backoff_s(self, failures: int) -> float:
        most = self._around.config.replica_fetch_backoff_ms
        return float(min(most, _BACKOFF_MS << min(failures - 1, 16))) / 1000

    async def _fetch_over_one_connection(self) -> None:
        await self._until_wanted()
        connection = await self._around.connect(self.leader_id)
        try:
            while True:
                await self._until_wanted()
                await self._take(connection, await self._ask(connection))
                self._failures = 0
        finally:
            connection.close()

    async def _until_wanted(self) -> None:
        """Return when there is something to fetch."""
        while True:
            self._has_news.clear()
            next_due_s = self._resume_those_due()
            if len(self._session):
                return
            try:
                async with asyncio.timeout(next_due_s):
                    await self._has_news.wait()
            except TimeoutError:
                continue

    def _ask(self, connection: BrokerConnection) -> asyncio.Future[FetchResponse]:
        request, config = self._session.next(), self._around.config
        body = self._encode(request)

        def build(shape: Shape) -> EncodedBody:
            if shape.version < follower_fetch.VERSION_MIN:
                raise KafkaError(
                    ErrorCode.unsupported_version,
                    f"broker {self.leader_id} is too old to be followed",
                )
            return body

        return connection.send(
            "fetch",
            build,
            version_max=follower_fetch.VERSION_MAX,
            timeout_ms=config.replica_socket_timeout_ms,
            parse=parse_fetch_response,
        )

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
            Replica(around.node_id, around.broker_epoch()),
            limits,
            (request.session_id, request.epoch),
            request.wanted,
            request.forgotten,
        )

    # -- answers -----------------------------------------------------------------------

    async def _take(self, connection: BrokerConnection, response: FetchResponse) -> None:
        if response.error_code in _OF_SESSIONS:
            self._session.restart()
            return
        if response.error_code is not ErrorCode.none:
            raise KafkaError(response.error_code, f"fetch from broker {self.leader_id}")
        self._session.answered(response.session_id)
        pace, out_of_range = Pace(), []
        for topic in response.topics:
            for answer in topic.partitions:
                key = topic.topic_id, answer.partition
                followed, asked = self._followed.get(key), self._session.asked(key)
                if followed is None or asked is None:
                    continue
                if answer.error_code is ErrorCode.offset_out_of_range:
                    out_of_range.append((key, followed, asked))
                else:
                    await self._take_one(key, followed, asked, answer, pace)
        records = response.topics[0].partitions[0].records if response.topics else None
        del response
        if records is not None:
            connection.give_back(records)
        if out_of_range:
            await self._reset(connection, out_of_range)

    async def _take_one(
        self, key: Key, followed: _Followed, asked: Position, answer: PartitionFetch, pace: Pace
    ) -> None:
        try:
            if answer.error_code is not ErrorCode.none:
                raise KafkaError(answer.error_code, f"broker {self.leader_id} refused")
            now_ms = self._around.clock.wall_ms()
            work = followed.partition.take(asked, answer, now_ms)
            truncation = await _in_turns(work, pace)
        except KafkaError as error:
            self._pause(key, followed, error)
        except Exception as error:
            _logger.exception("%s could not be followed", followed.partition.name)
            self._pause(key, followed, error)
        else:
            followed.failures = 0
            self._note(followed, answer)
            self._go_on(key, followed, truncation)

    def _note(self, followed: _Followed, answer: PartitionFetch) -> None:
        log = followed.partition.log
        followed.lacks_records = log.log_end_offset < answer.high_watermark
        if self._around.throttle is not None:
            self._around.throttle.used(log, len(answer.records))

    def _go_on(self, key: Key, followed: _Followed, truncation: Truncation | None) -> None:
        if truncation is not None:
            self._begin(key, followed, truncation)
        else:
            self._moved(key, followed)

    def _moved(self, key: Key, followed: _Followed) -> None:
        """Fetch it from where it stands now, unless it is not ours any more."""
        if (
            self._followed.get(key) is followed
            and followed.due_at is None
            and not followed.partition.is_busy
        ):
            self._want(key, followed)

    def _want(self, key: Key, followed: _Followed) -> None:
        """Fetch it, or let it pause while partitions that catch up have had enough for now."""
        around, wait_s = self._around, 0.0
        if around.throttle is not None and followed.lacks_records:
            wait_s = around.throttle.wait_s(followed.partition.log)
        if wait_s <= 0:
            self._session.want(key, followed.partition.position)
            return
        followed.due_at = around.clock.monotonic() + min(wait_s, _HELD_BACK_S)
        self._paused[key] = followed
        self._session.drop(key)

    async def _reset(
        self, connection: BrokerConnection, out_of_range: list[tuple[Key, _Followed, Position]]
    ) -> None:
        found = await leaders_offsets(
            connection,
            self._around.node_id,
            [followed.partition for _, followed, _ in out_of_range],
        )
        for key, followed, asked in out_of_range:
            offsets = found.get(followed.partition)
            if self._followed.get(key) is not followed or offsets is None:
                continue
            try:
                if offsets.error_code is not ErrorCode.none:
                    raise KafkaError(offsets.error_code, "its offsets were asked for")
                truncation = followed.partition.reset(asked, offsets.start, offsets.end)
            except KafkaError as error:
                self._pause(key, followed, error)
            else:
                self._go_on(key, followed, truncation)

    # -- truncations -------------------------------------------------------------------

    def _begin(self, key: Key, followed: _Followed, truncation: Truncation) -> None:
        """Carry out a truncation, by itself; meanwhile the leader must not send this partition."""
        self._session.drop(key)
        work = self._truncate(key, followed, truncation)
        task = asyncio.get_running_loop().create_task(work)
        self._truncating.add(task)
        task.add_done_callback(self._truncating.discard)

    async def _truncate(self, key: Key, followed: _Followed, truncation: Truncation) -> None:
        partition = followed.partition
        try:
            await self._carry_out(partition, truncation)
        except Exception as error:
            if not isinstance(error, KafkaError):
                _logger.exception("%s could not be truncated", partition.name)
            partition.give_up(truncation)
            self._pause(key, followed, error)
        else:
            if self._followed.get(key) is followed:
                self._resume(key, followed)
                self._has_news.set()

    async def _carry_out(self, partition: FollowedPartition, truncation: Truncation) -> None:
        blocking = self._around.blocking
        is_cut = False
        while not is_cut:
            await blocking(truncation.prepare)
            if not partition.is_to_do(truncation):
                truncation.abandon()
                return
            is_cut = partition.cut(truncation)
            if not is_cut:
                await asyncio.sleep(_BUSY_S)
        await blocking(truncation.rebuild)
        if partition.is_to_do(truncation):
            partition.finish(truncation)

    # -- pauses ------------------------------------------------------------------------

    def _pause(self, key: Key, followed: _Followed, error: Exception) -> None:
        """Try it again later; meanwhile the leader must not send it."""
        if self._followed.get(key) is not followed:
            return
        partition = followed.partition
        code = error.code if isinstance(error, KafkaError) else None
        if not followed.failures:
            level = logging.INFO if code in _USUAL else logging.WARNING
            _logger.log(level, "%s pauses: %s", partition.name, error)
        followed.failures += 1
        followed.due_at = self._around.clock.monotonic() + self._backoff_s(followed.failures)
        self._paused[key] = followed
        self._session.drop(key)
        if code is ErrorCode.fenced_leader_epoch:
            self._around.on_fenced(partition)

    def _resume_those_due(self) -> float | None:
        """Fetch those again whose pause is over; returns the seconds until the next one's is."""
        if not self._paused:
            return None
        now_s = self._around.clock.monotonic()
        due = [each for each in self._paused.items() if (each[1].due_at or 0.0) <= now_s]
        for key, followed in due:
            self._resume(key, followed)
        dues = [each.due_at or 0.0 for each in self._paused.values()]
        return min(dues) - now_s if dues else None

    def _resume(self, key: Key, followed: _Followed) -> None:
        self._paused.pop(key, None)
        followed.due_at = None
        if followed.partition.is_busy:
            return  # it will be resumed
        self._want(key, followed)


async def _in_turns(work: Work[T], pace: Pace) -> T:
    """Do all of it, others in between."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result
        await pace.give_way()


def _key(partition: Any) -> Key:
    return partition.topic_id.bytes, partition.index
