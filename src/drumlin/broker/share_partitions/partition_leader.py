"""A share partition on its leader: its state machine, its stored state, and locks that time out.

Owns the writes of the state. Writes happen one after the other, as later writes supersede earlier
ones; there are none after `close`, as another leader may own the state then. The state machine is
only changed on the event loop, without an await; only writes may wait. A write is usually done
immediately, within the caller's turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from drumlin.background import Background
from drumlin.broker.parts.parts import Coordinators
from drumlin.broker.share_partitions.group_settings import GroupSettings
from drumlin.broker.share_partitions.room import ShareRoom
from drumlin.broker.share_partitions.start_offset import first_start_offset
from drumlin.coordination.shards.pending_answer import Written
from drumlin.coordination.share.delivery.acknowledgement import Acknowledgement
from drumlin.coordination.share.delivery.fetched_batches import Acquired, Fetched, Limits
from drumlin.coordination.share.delivery.in_flight import Change
from drumlin.coordination.share.delivery.share_partition import SharePartition
from drumlin.coordination.share.state.state import (
    UNINITIALIZED_OFFSET,
    SharePartitionKey,
    ShareState,
    StateBatch,
)
from drumlin.replication.partition import Partition
from drumlin.turns import Rounds
from drumlin.wire.error_codes import ErrorCode, KafkaError

_log = logging.getLogger(__name__)

#: Error code for the stored state -> the code that members get instead.
_TOLD: Final = {
    ErrorCode.not_coordinator: ErrorCode.coordinator_not_available,
    ErrorCode.coordinator_not_available: ErrorCode.coordinator_not_available,
    ErrorCode.coordinator_load_in_progress: ErrorCode.coordinator_not_available,
    ErrorCode.group_id_not_found: ErrorCode.group_id_not_found,
    ErrorCode.unknown_topic_or_partition: ErrorCode.unknown_topic_or_partition,
    ErrorCode.fenced_leader_epoch: ErrorCode.not_leader_or_follower,
    ErrorCode.fenced_state_epoch: ErrorCode.not_leader_or_follower,
}
#: The most runs whose lock timeouts are handled in one turn, which takes a millisecond.
_EXPIRED_AT_ONCE: Final = 500
#: The most runs of records that are changed in one turn; more take several turns.
_CHANGED_AT_ONCE: Final = 500
#: The code if another broker leads the share partition, or its state was initialized again.
FENCED: Final = ErrorCode.not_leader_or_follower


class SharePartitionLeader:
    """One share partition; use it once `loaded` is done.

    Lock timeouts are handled in `rounds`, in which share partitions take turns. `on_lost` is called
    when this object is no longer valid or could not be loaded; `on_acquired` with the id of a
    member that has acquired records.
    """

    def __init__(
        self,
        broker: Coordinators,
        key: SharePartitionKey,
        partition: Partition,
        settings: GroupSettings,
        rounds: Rounds,
        on_lost: Callable[[SharePartitionLeader], None],
        on_acquired: Callable[[SharePartitionLeader, str], None],
    ) -> None:
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.settings = settings
        self.room = ShareRoom(partition.waiting)
        self.is_closed = False
        self._broker = broker
        self._rounds = rounds
        self._on_lost, self._on_acquired = on_lost, on_acquired
        self._state_epoch = 0
        self._records = SharePartition(settings.delivery, 0)
        self._write_turn = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_deadline = 0.0
        self._writes = Background()
        self.loaded: asyncio.Task[None] = asyncio.get_running_loop().create_task(self._load())
        self.loaded.add_done_callback(self._on_loaded)

    # -- loading -----------------------------------------------------------------------

    async def _load(self) -> None:
        """
        Raises:
            KafkaError: the error that members get.
        """
        try:
            state = await self._broker.share_states.read(*self.key, self.leader_epoch)
        except KafkaError as error:
            raise _told(error) from error
        start_offset = state.start_offset
        is_first = start_offset == UNINITIALIZED_OFFSET
        if is_first:
            start_offset = await first_start_offset(
                self._broker, self.partition, self.settings.auto_offset_reset
            )
        self._state_epoch = state.state_epoch
        log_end_offset = self.partition.log_end_offset
        loading = SharePartition.loading(
            self.settings.delivery, start_offset, state.batches, log_end_offset
        )
        # Usually done immediately. Then members can rely on the group's start offset.
        self._records = await loading
        self._records.move_start(self.partition.log_start_offset)
        if is_first:
            # Store it now. Otherwise, if this is loaded again before the first acknowledgement,
            # `latest` would be resolved again, and the records in between never delivered.
            try:
                await self._write_state(())
            except KafkaError as error:
                raise _told(error) from error

    def _on_loaded(self, task: asyncio.Task[None]) -> None:
        """Retrieve the error; asyncio would warn if no one did."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._on_lost(self)
            if not isinstance(error, KafkaError):
                _log.error("a share partition could not be loaded", exc_info=error)

    @property
    def is_ready(self) -> bool:
        return self.loaded.done() and self.error is None

    @property
    def error(self) -> ErrorCode | None:
        """The error that prevented loading, if any."""
        if not self.loaded.done() or self.loaded.cancelled():
            return None
        error = self.loaded.exception()
        if error is None:
            return None
        return error.code if isinstance(error, KafkaError) else ErrorCode.unknown_server_error

    @property
    def is_current(self) -> bool:
        """Whether this broker still leads the partition, in the leader epoch at the time of
        loading.
        """
        current = self._broker.partitions.find(self.partition.topic, self.partition.index)
        return (
            not self.is_closed
            and current is self.partition
            and current.leader_epoch == self.leader_epoch
        )

    # -- acquiring ---------------------------------------------------------------------

    @property
    def records(self) -> SharePartition:
        """The state machine, which callers must not change."""
        return self._records

    def next_fetch_offset(self) -> int | None:
        """The offset from which to read for a member; None if nothing may be acquired now."""
        self._records.move_start(self.partition.log_start_offset)
        return self._records.next_fetch_offset if self._records.can_acquire else None

    def acquire(self, member_id: str, fetched: Fetched, limits: Limits) -> list[Acquired]:
        acquired = self._records.acquire(member_id, fetched, limits, self._now())
        self._schedule()
        if acquired:
            self._on_acquired(self, member_id)
        return acquired

    # -- acknowledging -----------------------------------------------------------------

    async def acknowledging(self, member_id: str, batches: Sequence[Acknowledgement]) -> Change:
        """Check a member's acknowledgements; they take effect once `write` is done. Yields to the
        event loop in between.

        Raises:
            KafkaError: INVALID_RECORD_STATE, INVALID_REQUEST.
        """
        self._records.move_start(self.partition.log_start_offset)
        try:
            return await self._records.acknowledging(member_id, batches, self._now)
        finally:
            self._schedule()

    def write(self, change: Change) -> asyncio.Task[KafkaError | None] | None:
        """Write a change, then commit it, or roll it back if the write fails.

        Returns None if the write is done immediately, as usual; else an awaitable, whose error goes
        to the member.

        Raises:
            KafkaError: the error that the member gets.
        """
        if len(change.runs) > _CHANGED_AT_ONCE:
            return self._writes.spawn(self._write_much(change))
        batches = self._records.state(change)
        try:
            written = self._begin_to_write(batches)
        except BaseException as error:
            self._take_back(change)
            if isinstance(error, KafkaError):
                raise self._refused(error) from error
            raise
        if written is None or not written.done():
            return self._writes.spawn(self._write_change(change, written))
        self._hold(change)
        return None

    async def _write_change(self, change: Change, begun: Written[None] | None) -> KafkaError | None:
        try:
            await self._write(self._records.state(change), begun)
        except BaseException as error:
            self._take_back(change)
            if isinstance(error, KafkaError):
                return self._refused(error)
            raise
        self._hold(change)
        return None

    async def _write_much(self, change: Change) -> KafkaError | None:
        """Like `_write_change`, but yields to the event loop in between."""
        records = self._records
        try:
            await self._write(await records.stating(change), None)
        except KafkaError as error:
            await records.rolling_back(change, self._now())
            self._changed()
            return self._refused(error)
        except BaseException:
            self._take_back(change)
            raise
        await records.committing(change)
        self._changed()
        return None

    def _hold(self, change: Change) -> None:
        self._records.commit(change)
        self._changed()

    def _take_back(self, change: Change) -> None:
        self._records.roll_back(change, self._now())
        self._changed()

    async def releasing(self, member_id: str) -> None:
        """Release the records of a member that has left. Other members can get them once the
        release is written.
        """
        if self.is_ready and (change := await self._records.releasing(member_id, self._now())):
            try:
                writing = self.write(change)
            except KafkaError as error:
                self._stay_locked(error)
            else:
                if writing is not None:
                    self._writes.spawn(self._follow(writing))
        self.room.disturb()  # a fetch of the member may be waiting for more records

    async def _follow(self, writing: asyncio.Task[KafkaError | None]) -> None:
        error = await writing
        if error is not None:
            self._stay_locked(error)

    def _stay_locked(self, error: KafkaError) -> None:
        _log.warning("%s: records of a member that has left stay locked: %s", self.key, error)

    # -- writing -----------------------------------------------------------------------

    def _begin_to_write(self, batches: Sequence[StateBatch]) -> Written[None] | None:
        """Write now if the change is small and nothing else is being written; else None."""
        if not self.is_settled:
            return None
        if not batches:
            return Written(None)
        return self._broker.share_states.write_at_once(self.key, self._state(batches))

    async def _write(self, batches: Sequence[StateBatch], begun: Written[None] | None) -> None:
        if begun is not None:
            async with self._write_turn:
                await begun
        elif batches:
            await self._write_state(batches)

    async def _write_state(self, batches: Sequence[StateBatch]) -> None:
        async with self._write_turn:
            await self._broker.share_states.write(*self.key, self._state(batches))

    def _state(self, batches: Sequence[StateBatch]) -> ShareState:
        """The state to write: the group's start offset, and the batches that have changed."""
        if self.is_closed:
            raise KafkaError(ErrorCode.fenced_state_epoch)
        records = self._records
        return ShareState(
            self._state_epoch,
            self.leader_epoch,
            records.start_offset,
            records.delivery_complete_count,
            tuple(batches),
        )

    def _refused(self, error: KafkaError) -> KafkaError:
        told = _told(error)
        if told.code is FENCED:
            self._on_lost(self)
        return told

    # -- time --------------------------------------------------------------------------

    def _now(self) -> float:
        return self._broker.clock.monotonic()

    def _changed(self) -> None:
        """Wake waiting fetches, as records may have become available."""
        self._schedule()
        self.room.disturb()

    def _schedule(self) -> None:
        """Set the timer for the next lock that times out."""
        deadline = None if self.is_closed else self._records.next_deadline()
        if self._timer is not None:
            if deadline is not None and self._timer_deadline <= deadline:
                return  # the present timer does not fire later than that
            self._timer.cancel()
            self._timer = None
        if deadline is not None:
            self._timer_deadline = deadline
            delay = max(0.0, deadline - self._now())
            self._timer = asyncio.get_running_loop().call_later(delay, self._fall_due)

    def _fall_due(self) -> None:
        """Queue for a separate turn, as locks of many share partitions may time out together."""
        self._rounds.add(self._expire)

    def _expire(self) -> None:
        self._timer = None
        batches = () if self.is_closed else self._records.expire(self._now(), _EXPIRED_AT_ONCE)
        if batches:
            self._write_expired(batches)
            self._changed()
        else:  # all locked records were acknowledged in time: no fetch to wake
            self._schedule()

    def _write_expired(self, batches: Sequence[StateBatch]) -> None:
        try:
            written = self._begin_to_write(batches)
        except KafkaError as error:
            self._not_written(error)
        else:
            if written is None or not written.done():
                self._writes.spawn(self._go_on_writing(batches, written))

    async def _go_on_writing(
        self, batches: Sequence[StateBatch], begun: Written[None] | None
    ) -> None:
        try:
            await self._write(batches, begun)
        except KafkaError as error:
            self._not_written(error)

    def _not_written(self, error: KafkaError) -> None:
        told = self._refused(error)
        _log.warning("%s: locks that timed out are not written: %s", self.key, told)

    @property
    def is_settled(self) -> bool:
        """Whether everything is written."""
        return not len(self._writes)

    async def settle(self) -> None:
        """Wait until everything is written."""
        await self._writes.settle()

    def close(self) -> None:
        """Stop delivery. Wakes waiting fetches, which then find the share partition closed."""
        self.is_closed = True
        self.loaded.cancel()
        self._schedule()
        self.room.disturb()


def _told(error: KafkaError) -> KafkaError:
    code = _TOLD.get(error.code)
    if code is None:
        _log.warning("a member gets an unknown error, as a state was refused: %s", error)
        code = ErrorCode.unknown_server_error
    return KafkaError(code, error.message)
