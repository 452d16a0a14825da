"""Commits offsets: on request, and periodically those of records that are processed.

One commit is under way at a time, so that none overtakes an older one that is being repeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from drumlin.client.committed_offsets import GroupMetadata, OffsetAndMetadata
from drumlin.client.consumer.coordinator_link import CoordinatorLink
from drumlin.client.consumer.offset_storage import Offsets, OffsetStorage
from drumlin.client.consumer.positions import Positions
from drumlin.client.consumer.tasks import Tasks
from drumlin.client.errors import ClientError, CommitFailed, OffsetStoreFailed
from drumlin.client.offsets import TopicPartition
from drumlin.peer.errors import PeerError
from drumlin.peer.retry import Deadline, backoff_s, is_retriable
from drumlin.wire.errors import ErrorCode, KafkaError

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


class Committer:
    """Lives in the loop."""

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
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._losses = 0  # how often partitions were lost or revoked
        self._lost_at: dict[TopicPartition, int] = {}
        self.is_automatic = interval_ms is not None
        if interval_ms is not None:
            tasks.spawn(self._commit_periodically(interval_ms / 1000))

    def forget(self, places: Iterable[TopicPartition]) -> None:
        """These partitions go; nothing may be committed for them from now on.

        A commit that is still being repeated fails: it would undo the progress of other members.
        """
        self._losses += 1
        for place in places:
            self._committed.pop(place, None)
            self._lost_at[place] = self._losses

    async def commit(self, offsets: Offsets) -> None:
        """
        Raises:
            CommitFailed: this consumer is no member of the group any more, or has lost one of
                these partitions since.
            KafkaError, PeerError, OffsetStoreFailed: refused, or not answered, until the
                request's time was up.
        """
        deadline = Deadline(self._timeout_ms)
        losses = self._losses
        async with self._in_turn:
            for pause_s in backoff_s(self._link.options):
                if not offsets:
                    return
                credentials = self._credentials()
                if credentials is None:
                    raise CommitFailed("not committed: this consumer is no member of its group now")
                self._check_kept(offsets, losses)
                try:
                    await self._storage.commit(
                        credentials,
                        offsets,
                        partial(self._check_owned, credentials, offsets, losses),
                    )
                    break
                except (KafkaError, PeerError, OffsetStoreFailed) as error:
                    self._judge(error, credentials)
                    if deadline.is_over:
                        raise
                await asyncio.sleep(min(pause_s, deadline.remaining_s))
            self._committed.update(self._kept(offsets, losses))

    def _check_kept(self, offsets: Offsets, losses: int) -> None:
        for topic, partition in offsets.keys() - self._kept(offsets, losses).keys():
            where = f"topic {topic!r} partition {partition}"
            raise CommitFailed(f"not committed: {where} went to others meanwhile")

    def _check_owned(self, who: GroupMetadata, offsets: Offsets, losses: int) -> None:
        """For a store that knows nothing of members."""
        self._check_kept(offsets, losses)
        if not who.member_id:
            return
        for topic, partition in offsets.keys() - self._positions.places:
            where = f"topic {topic!r} partition {partition}"
            raise CommitFailed(f"not committed: {where} is not assigned to this consumer")

    def _kept(self, offsets: Offsets, losses: int) -> Offsets:
        """`offsets` without partitions that were lost after that many losses."""
        lost_at = self._lost_at
        return {place: each for place, each in offsets.items() if lost_at.get(place, 0) <= losses}

    def _judge(
        self, error: KafkaError | PeerError | OffsetStoreFailed, credentials: GroupMetadata
    ) -> None:
        """Return if the commit may be tried again; raise otherwise."""
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

    async def commit_progress(self, places: Iterable[TopicPartition] | None = None) -> None:
        """Commit the offsets of processed records, where they are new. Raises as `commit`."""
        known = self._committed
        due = self._positions.committable(places)
        news = {
            place: each
            for place, each in due.items()
            if place not in known or known[place].offset != each.offset
        }
        await self.commit(news)

    def start_known(self, offsets: Offsets) -> None:
        """Note what was committed when these partitions began."""
        self._committed.update(offsets)

    async def _commit_periodically(self, interval_s: float) -> None:
        while True:
            await asyncio.sleep(interval_s)
            if self._credentials() is None:
                continue  # the next poll raises it
            try:
                await self.commit_progress()
            except CommitFailed as error:
                _log.info("periodic commit of group %r: %s", self._link.group_id, error)
            except (KafkaError, PeerError, ClientError) as error:
                _log.warning("periodic commit of group %r: %s", self._link.group_id, error)
