"""The partitions of one fetcher: fetched, paused, or being truncated.

If a partition pauses after an error, or is truncated, the others continue to be fetched.
`FollowedPartition` decides what an answer changes, `FollowerSession` what a request contains.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

from drumlin.clock import Clock
from drumlin.config.broker import BrokerConfig
from drumlin.peer.connection import BrokerConnection
from drumlin.peer.follower_fetch import Key, Position
from drumlin.replication.followed_partition import FollowedPartition
from drumlin.replication.follower_session import FollowerSession
from drumlin.replication.leaders_offsets import LeadersOffsets
from drumlin.replication.repeated_lines import RepeatedLines
from drumlin.replication.throttle import Throttle
from drumlin.storage.replacement.log_copy import LogChange
from drumlin.wire.by_hand.fetch_response import PartitionFetch
from drumlin.wire.error_codes import ErrorCode, KafkaError

T = TypeVar("T")

_logger = logging.getLogger(__name__)

#: The first pause after an error; it doubles up to `replica.fetch.backoff.ms`.
_BACKOFF_MS: Final = 50
_BACKOFF_MIN_MS: Final = 5
#: The pause before another attempt to truncate while other work uses the files of the log.
_BUSY_S: Final = 0.005
#: The longest pause of a throttled partition, as the rate may change during the pause.
_THROTTLED_S: Final = 1.0
#: Errors that are not worth a warning: expected for a moment when a leader changes, or logged by
#: the leader.
_EXPECTED: Final = frozenset(
    {
        ErrorCode.kafka_storage_error,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.not_leader_or_follower,
        ErrorCode.eligible_leaders_not_available,
        ErrorCode.unknown_topic_id,
    }
)


class FollowerContext(NamedTuple):
    """A fetcher's dependencies on its broker."""

    #: Opens a connection to a broker; the fetcher closes it.
    connect: Callable[[int], Awaitable[BrokerConnection]]
    node_id: int
    #: The broker epoch of this process (KIP-903).
    broker_epoch: Callable[[], int]
    clock: Clock
    config: BrokerConfig
    #: Runs a blocking function in a thread.
    blocking: Callable[..., Awaitable[Any]]
    #: Called when the leader knows a later leader epoch of a partition than this broker.
    on_fenced: Callable[[FollowedPartition], object]
    #: The throttle for partitions that lack records (KIP-73).
    throttle: Throttle | None = None

    def backoff_s(self, failures: int) -> float:
        """The pause after this many consecutive failures."""
        most = max(_BACKOFF_MIN_MS, self.config.replica_fetch_backoff_ms)
        return float(min(most, _BACKOFF_MS << min(failures - 1, 16))) / 1000


class Followed:
    """One partition, and its pause: after an error, or while it is throttled."""

    __slots__ = ("failures", "key", "lacks_records", "partition", "pause")

    def __init__(self, partition: FollowedPartition) -> None:
        self.partition = partition
        self.key: Key = partition.topic_id.bytes, partition.index
        self.failures = 0  # consecutive failures
        self.lacks_records = True  # until an answer shows that the replica has caught up
        self.pause: asyncio.TimerHandle | None = None

    def end_pause(self) -> None:
        if self.pause is not None:
            self.pause.cancel()
            self.pause = None


class FollowedPartitions:
    """The partitions of a fetcher. Used in the event loop only. `on_update` is called when the
    session has changes to send.
    """

    def __init__(self, context: FollowerContext, on_update: Callable[[], object]) -> None:
        self.session = FollowerSession()
        self._context = context
        self._on_update = on_update
        self._followed: dict[Key, Followed] = {}
        self._truncating: set[asyncio.Task[None]] = set()
        self._lines = RepeatedLines(_logger)

    def __len__(self) -> int:
        return len(self._followed)

    def __iter__(self) -> Iterator[FollowedPartition]:
        return iter([each.partition for each in self._followed.values()])

    def add(self, partition: FollowedPartition) -> None:
        """Start to fetch a partition, or continue at once in its new leader epoch."""
        followed = Followed(partition)
        known = self._followed.get(followed.key)
        if known is not None:
            known.end_pause()
            if known.partition is not partition:
                known.partition.interrupt()
        self._followed[followed.key] = followed
        self._continue(followed, None if partition.is_busy else partition.begin())

    def remove(self, partition: FollowedPartition) -> None:
        """Stop fetching a partition. Answers and truncations in progress for it are discarded."""
        followed = self._followed.pop((partition.topic_id.bytes, partition.index), None)
        if followed is not None:
            followed.end_pause()
            self.session.drop(followed.key)
        partition.interrupt()

    def report_again(self, partition: FollowedPartition) -> None:
        """Send the position of a partition to the leader once more."""
        followed = self._followed.get((partition.topic_id.bytes, partition.index))
        if followed is not None:
            self.session.report_again(followed.key)
            self._on_update()

    def pause_while_offline(self, partition: FollowedPartition) -> None:
        """Pause a partition until its log dir, which is offline, works again."""
        followed = self._followed.get((partition.topic_id.bytes, partition.index))
        if followed is not None and followed.pause is None:
            self._resume(followed)

    async def close(self) -> None:
        """Stop fetching all partitions."""
        for partition in self:
            self.remove(partition)
        if self._truncating:  # each truncation ends after its current step
            await asyncio.wait(self._truncating)

    def find(self, key: Key) -> Followed | None:
        return self._followed.get(key)

    # -- answers -----------------------------------------------------------------------

    async def take(self, followed: Followed, asked: Position, answer: PartitionFetch) -> None:
        """Apply the leader's answer for one partition."""
        try:
            if answer.error_code is not ErrorCode.none:
                raise KafkaError(answer.error_code, _refusal(answer))
            now_ms = self._context.clock.wall_ms()
            truncation = await followed.partition.take(asked, answer, now_ms)
        except Exception as error:  # noqa: BLE001  the other partitions must not stop
            self._pause(followed, error)
        else:
            followed.failures = 0
            self._note(followed, answer)
            self._continue(followed, truncation)

    def _note(self, followed: Followed, answer: PartitionFetch) -> None:
        partition, throttle = followed.partition, self._context.throttle
        followed.lacks_records = partition.position.offset < answer.high_watermark
        if throttle is not None:
            throttle.used(partition.log, len(answer.records))

    def reset(
        self, followed: Followed, asked: Position, offsets: LeadersOffsets, committed: int
    ) -> None:
        """Handle OFFSET_OUT_OF_RANGE, given the offsets of the leader's log."""
        try:
            if offsets.error_code is not ErrorCode.none:
                raise KafkaError(offsets.error_code, "the leader refuses to list its offsets")
            truncation = followed.partition.reset(asked, offsets.start, offsets.end, committed)
        except KafkaError as error:
            self._pause(followed, error)
        else:
            self._continue(followed, truncation)

    def _is_ours(self, followed: Followed) -> bool:
        return self._followed.get(followed.key) is followed

    def _continue(self, followed: Followed, truncation: LogChange | None = None) -> None:
        """Continue to fetch from the current position, after a truncation if necessary."""
        if truncation is not None:
            self.session.drop(followed.key)  # the leader must not send records meanwhile
            work = self._truncate(followed, truncation)
            task = asyncio.get_running_loop().create_task(work)
            self._truncating.add(task)
            task.add_done_callback(self._truncating.discard)
        elif self._is_ours(followed) and followed.pause is None and not followed.partition.is_busy:
            if not self._pause_if_throttled(followed):
                self.session.want(followed.key, followed.partition.position)
            self._on_update()

    def _pause_if_throttled(self, followed: Followed) -> bool:
        """Pause a partition that catches up faster than the throttle allows (KIP-73)."""
        throttle = self._context.throttle
        if throttle is None or not followed.lacks_records:
            return False
        wait_s = throttle.wait_s(followed.partition.log)
        if wait_s <= 0:
            return False
        loop = asyncio.get_running_loop()
        followed.pause = loop.call_later(min(wait_s, _THROTTLED_S), self._resume, followed)
        self.session.drop(followed.key)
        return True

    # -- truncations -------------------------------------------------------------------

    async def _truncate(self, followed: Followed, truncation: LogChange) -> None:
        partition = followed.partition
        try:
            await self._carry_out(partition, truncation)
        except Exception as error:  # noqa: BLE001  `_pause` logs it
            if not truncation.is_cut:
                truncation.abandon()
            partition.give_up(truncation)
            self._pause(followed, error)
        else:
            current = self._followed.get(followed.key)  # it may have been added again
            if current is not None and current.partition is partition:
                self._continue(current)

    async def _carry_out(self, partition: FollowedPartition, truncation: LogChange) -> None:
        blocking = self._context.blocking
        is_cut = False
        while not is_cut:
            await blocking(truncation.prepare)
            if not partition.is_wanted(truncation):
                truncation.abandon()
                return
            is_cut = partition.cut(truncation)
            if not is_cut:
                await asyncio.sleep(_BUSY_S)
        await blocking(truncation.rebuild)
        if partition.is_wanted(truncation):
            partition.finish(truncation)

    # -- pauses ------------------------------------------------------------------------

    def _pause(self, followed: Followed, error: Exception) -> None:
        """Pause a partition; until it is resumed, the leader must not send its records."""
        partition = followed.partition
        code = error.code if isinstance(error, KafkaError) else None
        if code is None and not followed.failures:  # a bug of ours, logged once
            _logger.error("%s cannot be replicated", partition.name, exc_info=error)
        elif not followed.failures:
            text = f"replication from broker {partition.leader_id} pauses: {error}"
            self._lines.write(_level(partition, code), partition.name, text)
        if not self._is_ours(followed):
            return
        followed.failures += 1
        followed.end_pause()
        delay_s = self._context.backoff_s(followed.failures)
        loop = asyncio.get_running_loop()
        followed.pause = loop.call_later(delay_s, self._resume, followed)
        self.session.drop(followed.key)
        if code is ErrorCode.fenced_leader_epoch:
            self._context.on_fenced(partition)

    def _resume(self, followed: Followed) -> None:
        """End a pause if the log dir works: a replica that fetches may be added to the ISR."""
        followed.pause = None
        try:
            followed.partition.log.log_directory.check_writable()
        except KafkaError as error:
            self._pause(followed, error)
        else:
            self._continue(followed)


def _level(partition: FollowedPartition, code: ErrorCode | None) -> int:
    """The log level for a pause; when a log dir fails, all of its partitions pause."""
    if not partition.log.log_directory.is_online:
        return logging.DEBUG  # the failure of the log dir was logged already
    return logging.INFO if code in _EXPECTED else logging.WARNING


def _refusal(answer: PartitionFetch) -> str:
    if answer.error_code is ErrorCode.topic_authorization_failed:
        return "there this broker is no super user, and has no right to CLUSTER_ACTION"
    leader = answer.current_leader
    if leader is None:
        return "the leader refuses the fetch"
    return (
        f"the leader refuses the fetch, and names broker {leader.node_id} as leader in epoch "
        f"{leader.epoch}"
    )
