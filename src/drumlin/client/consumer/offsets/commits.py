"""Commits offsets: on request, and periodically those of processed records.

One commit is in flight at a time, so that it never overtakes an older one that is being retried.
Progress never moves back: an auto-committed offset is greater than this consumer's last committed
one, unless the user or `out_of_range` has moved the position since.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple

from drumlin.client.admin.committed_offsets import GroupMetadata
from drumlin.client.consumer.coordinator_link import CoordinatorLink
from drumlin.client.consumer.offsets.offset_storage import Offsets, OffsetStorage
from drumlin.client.consumer.positions import Positions
from drumlin.client.consumer.tasks import Tasks
from drumlin.client.errors import ClientError, CommitFailed, OffsetStoreFailed
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.peer_error import PeerError
from drumlin.peer.retry import Deadline, backoff_s, is_retriable
from drumlin.wire.error_codes import ErrorCode, KafkaError

_log = logging.getLogger(__name__)

#: The group has moved on, or is about to: other members may have the partitions.
_NOT_OURS: Final = frozenset(
    {
        ErrorCode.unknown_member_id,
        ErrorCode.illegal_generation,
        ErrorCode.rebalance_in_progress,
        ErrorCode.fenced_instance_id,
        ErrorCode.fenced_member_epoch,
    }
)


class _Known(NamedTuple):
    """The last offset that this consumer has committed, or fetched at its start."""

    offset: int
    moved: int  # of the partition's state, when the offset was committed


class Committer:
    """The commits of one consumer. Used in the loop only."""

    def __init__(
        self,
        link: CoordinatorLink,
        storage: OffsetStorage,
        positions: Positions,
        credentials: Callable[[], GroupMetadata | None],
        disowned: Callable[[ErrorCode], None],
        interval_ms: int | None,
        timeout_ms: int,
        tasks: Tasks,
    ) -> None:
        self._link = link
        self._storage = storage
        self._positions = positions
        self._credentials = credentials
        self._disowned = disowned
        self._timeout_ms = timeout_ms
        self._in_turn = asyncio.Lock()
        self._committed: dict[TopicPartition, _Known] = {}
        self._losses = 0  # how often partitions were lost or revoked
        self._lost_at: dict[TopicPartition, int] = {}
        self.is_automatic = interval_ms is not None
        if interval_ms is not None:
            tasks.spawn(self._commit_periodically(interval_ms / 1000))

    def forget(self, places: Iterable[TopicPartition]) -> None:
        """Note that these partitions are lost: their offsets may no longer be committed.

        A commit that is still being retried fails: it would undo the progress of other members.
        """
        self._losses += 1
        for place in places:
            self._committed.pop(place, None)
            self._lost_at[place] = self._losses

    async def commit(self, offsets: Offsets) -> None:
        """Commit the offsets that the user passes, even if they move back.

        Raises:
            CommitFailed: this consumer is no longer a member of the group, or has lost one of
                these partitions since.
            KafkaError, PeerError, OffsetStoreFailed: refused, or not answered before the
                request timeout.
        """
        await self._in_order(lambda: offsets)

    async def commit_returned(self) -> None:
        """Commit the offsets after the records returned so far. Raises as `commit`."""
        returned = self._positions.current()
        await self._in_order(lambda: self._not_behind(returned))

    async def commit_progress(self, places: Iterable[TopicPartition] | None = None) -> None:
        """Commit the offsets of records processed since the last commit. Raises as `commit`."""
        await self._in_order(lambda: self._news(places))

    async def _in_order(self, due: Callable[[], Offsets]) -> None:
        """Commit the offsets that `due` returns once all earlier commits are done."""
        deadline = Deadline(self._timeout_ms)
        losses = self._losses
        async with self._in_turn:
            offsets = due()
            if not offsets:
                return
            moved = {state.place: state.moved for state in self._positions}
            await self._insist(offsets, losses, deadline)
            for place, each in self._kept(offsets, losses).items():
                if place in moved:
                    self._committed[place] = _Known(each.offset, moved[place])

    async def _insist(self, offsets: Offsets, losses: int, deadline: Deadline) -> None:
        """Commit, with retries until the deadline."""
        for pause_s in backoff_s(self._link.options):
            credentials = self._credentials()
            if credentials is None:
                raise CommitFailed("not committed: this consumer is not a member of its group now")
            self._check_kept(offsets, losses)
            try:
                await self._storage.commit(
                    credentials,
                    offsets,
                    partial(self._check_owned, credentials, offsets, losses),
                )
                return
            except (KafkaError, PeerError, OffsetStoreFailed) as error:
                self._judge(error, credentials)
                if deadline.is_over:
                    raise
            await asyncio.sleep(min(pause_s, deadline.remaining_s))

    def _not_behind(self, offsets: Offsets) -> Offsets:
        """`offsets` without those before the committed offset."""
        return {
            place: each
            for place, each in offsets.items()
            if (known := self._known(place)) is None or each.offset >= known
        }

    def _news(self, places: Iterable[TopicPartition] | None) -> Offsets:
        """The positions to commit: those past the committed offset."""
        committed = self._committed
        return {
            place: each
            for place, each in self._not_behind(self._positions.committable(places)).items()
            if place not in committed or each.offset != committed[place].offset
        }

    def _known(self, place: TopicPartition) -> int | None:
        """The committed offset; None if it is unknown, or the position was moved since."""
        known = self._committed.get(place)
        state = self._positions.get(place)
        if known is None or state is None or state.moved != known.moved:
            return None
        return known.offset

    def _check_kept(self, offsets: Offsets, losses: int) -> None:
        for topic, partition in offsets.keys() - self._kept(offsets, losses).keys():
            where = f"topic {topic!r} partition {partition}"
            raise CommitFailed(f"not committed: {where} was revoked meanwhile")

    def _check_owned(self, who: GroupMetadata, offsets: Offsets, losses: int) -> None:
        """Refuse partitions that are not assigned, for a store that does not know the members."""
        self._check_kept(offsets, losses)
        if not who.member_id:
            return
        for topic, partition in offsets.keys() - self._positions.places:
            where = f"topic {topic!r} partition {partition}"
            raise CommitFailed(f"not committed: {where} is not assigned to this consumer")

    def _kept(self, offsets: Offsets, losses: int) -> Offsets:
        """`offsets` without partitions that were lost since the count of losses was `losses`."""
        lost_at = self._lost_at
        return {place: each for place, each in offsets.items() if lost_at.get(place, 0) <= losses}

    def _judge(
        self, error: KafkaError | PeerError | OffsetStoreFailed, credentials: GroupMetadata
    ) -> None:
        """Return if the commit may be retried; raise otherwise."""
        if isinstance(error, OffsetStoreFailed):
            if not error.may_pass:
                raise error
            return
        if isinstance(error, KafkaError):
            if error.code is ErrorCode.stale_member_epoch:
                self._disowned(error.code)  # the next heartbeat brings the epoch
                return
            if error.code in _NOT_OURS:
                if credentials == self._credentials():
                    self._disowned(error.code)
                raise CommitFailed(f"not committed: {error}", error.code) from error
        if not is_retriable(error):
            raise error

    def start_known(self, offsets: Offsets) -> None:
        """Note the committed offsets at which these partitions start."""
        for place, each in offsets.items():
            state = self._positions.get(place)
            if state is not None:
                self._committed[place] = _Known(each.offset, state.moved)

    async def _commit_periodically(self, interval_s: float) -> None:
        while True:
            await asyncio.sleep(interval_s)
            if self._credentials() is None:
                continue  # not a member now
            try:
                await self.commit_progress()
            except CommitFailed as error:
                _log.info("periodic commit of group %r: %s", self._link.group_id, error)
            except (KafkaError, PeerError, ClientError) as error:
                _log.warning("periodic commit of group %r: %s", self._link.group_id, error)
