"""The partitions that one fetcher follows: which are fetched, which pause, which are truncated.

A partition with an error pauses by itself, and is truncated by itself: others are fetched
meanwhile. What an answer changes is decided by `FollowedPartition`, what the leader is told by
`FollowerSession`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from drumlin.replication.follower_session import FollowerSession
from drumlin.replication.repeated_lines import RepeatedLines
from drumlin.wire.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from drumlin.clock import Clock
    from drumlin.config.broker import BrokerConfig
    from drumlin.peer.connection import BrokerConnection
    from drumlin.peer.follower_fetch import Key, Position
    from drumlin.replication.followed_partition import FollowedPartition
    from drumlin.replication.leaders_offsets import LeadersOffsets
    from drumlin.replication.throttle import Throttle
    from drumlin.storage.replacement.log_copy import LogChange
    from drumlin.wire.by_hand.fetch_response import PartitionFetch

T = TypeVar("T")

_logger = logging.getLogger(__name__)

#: The first pause after an error; it doubles up to `replica.fetch.backoff.ms`.
_BACKOFF_MS: Final = 50
_BACKOFF_MIN_MS: Final = 5
#: Something else is being done with the files of a log: until it is tried again.
_BUSY_S: Final = 0.005
#: The rate of a throttle may have been changed after so long.
_HELD_BACK_S: Final = 1.0
#: Usual for a moment whenever a leader changes, or said by the leader: not worth a warning.
_USUAL: Final = frozenset(
    {
        ErrorCode.kafka_storage_error,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.not_leader_or_follower,
        ErrorCode.eligible_leaders_not_available,
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

    def backoff_s(self, failures: int) -> float:
        """The pause after so many failures in a row."""
        most = max(_BACKOFF_MIN_MS, self.config.replica_fetch_backoff_ms)
        return float(min(most, _BACKOFF_MS << min(failures - 1, 16))) / 1000


class Followed:
    """One partition, and its pause: after an error, or as it has had enough for now."""

    __slots__ = ("failures", "key", "lacks_records", "partition", "pause")

    def __init__(self, partition: FollowedPartition) -> None:
        self.partition = partition
        self.key: Key = partition.topic_id.bytes, partition.index
        self.failures = 0  # in a row
        self.lacks_records = True  # as far as is known: it is not in sync
        self.pause: asyncio.TimerHandle | None = None

    def end_pause(self) -> None:
        if self.pause is not None:
            self.pause.cancel()
            self.pause = None


class FollowedPartitions:
    """Lives in the loop. `on_news` is called when there is more to tell the leader."""

    def __init__(self, around: Surroundings, on_news: Callable[[], object]) -> None:
        self.session = FollowerSession()
        self._around = around
        self._on_news = on_news
        self._followed: dict[Key, Followed] = {}
        self._truncating: set[asyncio.Task[None]] = set()
        self._lines = RepeatedLines(_logger)

    def __len__(self) -> int:
        return len(self._followed)

    def __iter__(self) -> Iterator[FollowedPartition]:
        return iter([each.partition for each in self._followed.values()])

    def add(self, partition: FollowedPartition) -> None:
        """Fetch a partition from now on, or at once in its new leader epoch."""
        followed = Followed(partition)
        known = self._followed.get(followed.key)
        if known is not None:
            known.end_pause()
            if known.partition is not partition:
                known.partition.interrupt()
        self._followed[followed.key] = followed
        self._go_on(followed, None if partition.is_busy else partition.begin())

    def remove(self, partition: FollowedPartition) -> None:
        """Fetch a partition no more. What is under way for it changes nothing any more."""
        followed = self._followed.pop((partition.topic_id.bytes, partition.index), None)
        if followed is not None:
            followed.end_pause()
            self.session.drop(followed.key)
        partition.interrupt()

    def name_again(self, partition: FollowedPartition) -> None:
        """Tell the leader once more where it stands."""
        followed = self._followed.get((partition.topic_id.bytes, partition.index))
        if followed is not None:
            self.session.say_again(followed.key)
            self._on_news()

    def hold_back(self, partition: FollowedPartition) -> None:
        """Fetch a partition only once its log dir, which is offline, works again."""
        followed = self._followed.get((partition.topic_id.bytes, partition.index))
        if followed is not None and followed.pause is None:
            self._resume(followed)

    async def close(self) -> None:
        """Fetch none any more."""
        for partition in self:
            self.remove(partition)
        if self._truncating:  # which end with the step that they are at
            await asyncio.wait(self._truncating)

    def find(self, key: Key) -> Followed | None:
        return self._followed.get(key)

    # -- answers -----------------------------------------------------------------------

    async def take(self, followed: Followed, asked: Position, answer: PartitionFetch) -> None:
        """Take over what the leader says of one partition."""
        try:
            if answer.error_code is not ErrorCode.none:
                raise KafkaError(answer.error_code, _refusal(answer))
            now_ms = self._around.clock.wall_ms()
            truncation = await followed.partition.take(asked, answer, now_ms)
        except Exception as error:  # noqa: BLE001  the others are to be followed on
            self._pause(followed, error)
        else:
            followed.failures = 0
            self._note(followed, answer)
            self._go_on(followed, truncation)

    def _note(self, followed: Followed, answer: PartitionFetch) -> None:
        partition, throttle = followed.partition, self._around.throttle
        followed.lacks_records = partition.position.offset < answer.high_watermark
        if throttle is not None:
            throttle.used(partition.log, len(answer.records))

    def reset(
        self, followed: Followed, asked: Position, offsets: LeadersOffsets, committed: int
    ) -> None:
        """The leader did not have the next offset; its log has these."""
        try:
            if offsets.error_code is not ErrorCode.none:
                raise KafkaError(offsets.error_code, "the leader refuses to tell its offsets")
            truncation = followed.partition.reset(asked, offsets.start, offsets.end, committed)
        except KafkaError as error:
            self._pause(followed, error)
        else:
            self._go_on(followed, truncation)

    def _is_ours(self, followed: Followed) -> bool:
        return self._followed.get(followed.key) is followed

    def _go_on(self, followed: Followed, truncation: LogChange | None = None) -> None:
        """Fetch from where it stands now, after the truncation if there is one."""
        if truncation is not None:
            self.session.drop(followed.key)  # the leader must not send it meanwhile
            work = self._truncate(followed, truncation)
            task = asyncio.get_running_loop().create_task(work)
            self._truncating.add(task)
            task.add_done_callback(self._truncating.discard)
        elif self._is_ours(followed) and followed.pause is None and not followed.partition.is_busy:
            if not self._is_held_back(followed):
                self.session.want(followed.key, followed.partition.position)
            self._on_news()

    def _is_held_back(self, followed: Followed) -> bool:
        """Let a partition that catches up pause while it has had enough for now (KIP-73)."""
        throttle = self._around.throttle
        if throttle is None or not followed.lacks_records:
            return False
        wait_s = throttle.wait_s(followed.partition.log)
        if wait_s <= 0:
            return False
        loop = asyncio.get_running_loop()
        followed.pause = loop.call_later(min(wait_s, _HELD_BACK_S), self._resume, followed)
        self.session.drop(followed.key)
        return True

    # -- truncations -------------------------------------------------------------------

    async def _truncate(self, followed: Followed, truncation: LogChange) -> None:
        partition = followed.partition
        try:
            await self._carry_out(partition, truncation)
        except Exception as error:  # noqa: BLE001  it is said
            if not truncation.is_cut:
                truncation.abandon()
            partition.give_up(truncation)
            self._pause(followed, error)
        else:
            current = self._followed.get(followed.key)  # it may have been added anew meanwhile
            if current is not None and current.partition is partition:
                self._go_on(current)

    async def _carry_out(self, partition: FollowedPartition, truncation: LogChange) -> None:
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

    def _pause(self, followed: Followed, error: Exception) -> None:
        """Try it again later; meanwhile the leader must not send it."""
        partition = followed.partition
        code = error.code if isinstance(error, KafkaError) else None
        if code is None and not followed.failures:  # once
            _logger.error("%s cannot be followed", partition.name, exc_info=error)
        elif not followed.failures:
            text = f"following broker {partition.leader_id} pauses: {error}"
            self._lines.say(_level(partition, code), partition.name, text)
        if not self._is_ours(followed):
            return
        followed.failures += 1
        followed.end_pause()
        delay_s = self._around.backoff_s(followed.failures)
        loop = asyncio.get_running_loop()
        followed.pause = loop.call_later(delay_s, self._resume, followed)
        self.session.drop(followed.key)
        if code is ErrorCode.fenced_leader_epoch:
            self._around.on_fenced(partition)

    def _resume(self, followed: Followed) -> None:
        """A leader takes whoever fetches for one that can be in sync."""
        followed.pause = None
        try:
            followed.partition.log.log_directory.check_writable()
        except KafkaError as error:
            self._pause(followed, error)
        else:
            self._go_on(followed)


def _level(partition: FollowedPartition, code: ErrorCode | None) -> int:
    """How loudly to say that a partition pauses: all of a log dir do so when that fails."""
    if not partition.log.log_directory.is_online:
        return logging.DEBUG  # which was said
    return logging.INFO if code in _USUAL else logging.WARNING


def _refusal(answer: PartitionFetch) -> str:
    leader = answer.current_leader
    if leader is None:
        return "the leader refuses"
    return f"the leader refuses; it says that broker {leader.node_id} leads in epoch {leader.epoch}"
