"""The states of share partitions in one partition of `__share_group_state`, in its leader's memory.

Plain synchronous code. Each change of a state is first written as a record; `apply` applies it once
it is in the log. So memory is never ahead of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from drumlin.coordination.share.state.batches import combine
from drumlin.coordination.share.state.records import Merged, ShareRecord, Snapshot, Update
from drumlin.coordination.share.state.state import (
    NO_EPOCH,
    UNINITIALIZED_OFFSET,
    UNKNOWN_COUNT,
    SharePartitionKey,
    ShareState,
)
from drumlin.turns import give_way, to_end
from drumlin.wire.error_codes import ErrorCode, KafkaError

#: The states loaded in one turn of the loop, which takes a few milliseconds.
_STATES_PER_STEP: Final = 1_000
#: The states that chores write in one turn, which takes a millisecond.
_WRITTEN_AT_ONCE: Final = 50
#: The maximum number of batches in one state; a snapshot of these takes less than 500 KB. A share
#: partition has fewer records in flight.
_BATCHES_MAX: Final = 20_000


@dataclass(slots=True)
class StoredState:
    """One share partition's state, and the place of its records in the log."""

    snapshot_epoch: int
    state: ShareState
    created_ms: int
    written_ms: int
    snapshot_offset: int
    """The offset of the latest snapshot; the state's earlier records are redundant."""
    updates: int = 0
    """Updates after that snapshot."""
    greatest_leader_epoch: int = NO_EPOCH
    greatest_state_epoch: int = NO_EPOCH


#: All states in a partition of the topic.
LoadedStates = dict[SharePartitionKey, StoredState]


class ShareShard:
    """One partition's states."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.states: LoadedStates = {}
        self.pruned_to = 0
        """The offset before which the log's records were last deleted."""

    async def take_over(self, loaded: LoadedStates) -> None:
        """Fill the shard from the log, over several turns of the loop."""
        for count, (key, stored) in enumerate(loaded.items(), 1):
            self.states[key] = stored
            if count % _STATES_PER_STEP == 0:
                await give_way()

    # -- requests: checks, and records to write ----------------------------------------------

    def check_read(self, key: SharePartitionKey, leader_epoch: int | None) -> StoredState:
        """The state, for a leader with this epoch; None is a reader that is not the leader.

        Raises:
            KafkaError: INVALID_REQUEST, FENCED_LEADER_EPOCH.
        """
        stored = self.states.get(key)
        if stored is None:
            message = "the share partition's state was never initialised, so it cannot be read"
            raise KafkaError(ErrorCode.invalid_request, message)
        if leader_epoch is not None and stored.greatest_leader_epoch > leader_epoch:
            raise KafkaError(ErrorCode.fenced_leader_epoch)
        return stored

    def note_leader(
        self, key: SharePartitionKey, leader_epoch: int, limit: int, now_ms: int
    ) -> list[ShareRecord]:
        """The record that stores the epoch of a new leader that has read the state."""
        stored = self.states[key]
        if leader_epoch in (NO_EPOCH, stored.greatest_leader_epoch):
            return []
        change = stored.state._replace(leader_epoch=leader_epoch, batches=())
        return [self._next_record(key, to_end(merging(stored.state, change)), limit, now_ms)]

    def check_write(self, key: SharePartitionKey, change: ShareState) -> ShareState:
        """The state that a write will change.

        Raises:
            KafkaError: INVALID_REQUEST, FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH.
        """
        stored = self.states.get(key)
        if stored is None:
            message = "the share partition's state was never initialised, so it cannot be written"
            raise KafkaError(ErrorCode.invalid_request, message)
        if NO_EPOCH != change.leader_epoch < stored.greatest_leader_epoch:
            raise KafkaError(ErrorCode.fenced_leader_epoch)
        if NO_EPOCH != change.state_epoch < stored.greatest_state_epoch:
            raise KafkaError(ErrorCode.fenced_state_epoch)
        return stored.state

    def merging(self, key: SharePartitionKey, change: ShareState) -> Coroutine[Any, Any, Merged]:
        """The state with a write applied.

        Raises:
            KafkaError: as `check_write`.
        """
        state = self.check_write(key, change)
        # A new leader's epoch is stored when it reads the state, which it must do before it writes.
        return merging(state, change._replace(leader_epoch=state.leader_epoch))

    def write(
        self,
        key: SharePartitionKey,
        change: ShareState,
        limit: int,
        now_ms: int,
        merged: Merged | None = None,
    ) -> ShareRecord:
        """The record that changes the state; a snapshot after `limit` updates.

        merged: the result of `merging`, used if the state has not changed since.

        Raises:
            KafkaError: as `check_write`; UNKNOWN_SERVER_ERROR if the state would no longer fit into
                a record.
        """
        state = self.check_write(key, change)
        if merged is None or merged.before is not state:
            merged = to_end(self.merging(key, change))
        if len(merged.after.batches) > _BATCHES_MAX:
            message = f"a state has no more than {_BATCHES_MAX} batches"
            raise KafkaError(ErrorCode.unknown_server_error, message)
        return self._next_record(key, merged, limit, now_ms)

    def _next_record(
        self, key: SharePartitionKey, merged: Merged, limit: int, now_ms: int
    ) -> ShareRecord:
        stored = self.states[key]
        if stored.updates < limit:
            return key, Update(stored.snapshot_epoch, merged.change, merged)
        return key, Snapshot(stored.snapshot_epoch + 1, merged.after, now_ms, now_ms)

    def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, now_ms: int
    ) -> ShareRecord:
        """The record that initializes a state.

        Raises:
            KafkaError: FENCED_STATE_EPOCH.
        """
        stored = self.states.get(key)
        if stored is not None and NO_EPOCH != state_epoch < stored.greatest_state_epoch:
            raise KafkaError(ErrorCode.fenced_state_epoch)
        snapshot_epoch = 0 if stored is None else stored.snapshot_epoch + 1
        count = UNKNOWN_COUNT if start_offset == UNINITIALIZED_OFFSET else 0
        state = ShareState(state_epoch, 0, start_offset, count)
        return key, Snapshot(snapshot_epoch, state, now_ms, now_ms)

    def delete(self, key: SharePartitionKey) -> list[ShareRecord]:
        """The tombstone of a state, if there is one."""
        return [(key, None)] if key in self.states else []

    def orphans(self, was_deleted: Callable[[UUID], bool]) -> Iterator[list[ShareRecord]]:
        """Tombstones of all states in deleted topics, some at a time.

        Each list must be written before the next one is requested.
        """
        for some in self._some_at_a_time():
            yield [(key, None) for key in some if was_deleted(key.topic_id)]

    # -- records that were written -----------------------------------------------------------

    def apply(self, records: Iterable[ShareRecord], first_offset: int) -> None:
        """Apply records that are in the log from `first_offset` on."""
        for offset, (key, value) in enumerate(records, first_offset):
            replay(self.states, key, value, offset)

    # -- the log -----------------------------------------------------------------------------

    def redundant_before(self, end_offset: int) -> int:
        """The offset before which every record is redundant."""
        return min((each.snapshot_offset for each in self.states.values()), default=end_offset)

    def cold_snapshots(self, older_than_ms: int, now_ms: int) -> Iterator[list[ShareRecord]]:
        """New snapshots of states that have not changed for long, so that the log can be shortened.

        Yields a few at a time, like `orphans`. Yields none if the last record of every state is
        such a snapshot already, as rewriting these would free nothing.
        """
        for some in self._some_at_a_time():
            if not all(_is_cold(self.states[key]) for key in some):
                break
            yield []
        else:
            return
        for some in self._some_at_a_time():
            yield [
                (key, Snapshot(each.snapshot_epoch + 1, each.state, each.created_ms, now_ms))
                for key in some
                if now_ms - (each := self.states[key]).written_ms >= older_than_ms
            ]

    def _some_at_a_time(self) -> Iterator[list[SharePartitionKey]]:
        """The current states, a few at a time, without states deleted meanwhile."""
        keys = list(self.states)
        for first in range(0, len(keys), _WRITTEN_AT_ONCE):
            yield [key for key in keys[first : first + _WRITTEN_AT_ONCE] if key in self.states]


def _is_cold(stored: StoredState) -> bool:
    return stored.created_ms != stored.written_ms


async def merging(state: ShareState, change: ShareState) -> Merged:
    """A state with a change applied. The state epoch is kept, as updates have none."""
    batches = await combine((), change.batches, change.start_offset)
    change = change._replace(batches=batches)
    is_moved = change.start_offset != UNINITIALIZED_OFFSET
    start_offset = change.start_offset if is_moved else state.start_offset
    leads = change.leader_epoch != NO_EPOCH
    after = ShareState(
        state.state_epoch,
        change.leader_epoch if leads else state.leader_epoch,
        start_offset,
        change.delivery_complete_count,
        (await combine(state.batches, batches, start_offset)),
    )
    return Merged(state, change, after)


def replay(
    states: LoadedStates, key: SharePartitionKey, value: Snapshot | Update | None, offset: int
) -> None:
    """Apply one record to the states."""
    before = states.get(key)
    if value is None:
        states.pop(key, None)
    elif isinstance(value, Snapshot):
        leader_epoch, state_epoch = value.state.leader_epoch, value.state.state_epoch
        if before is not None:
            leader_epoch = max(leader_epoch, before.greatest_leader_epoch)
            state_epoch = max(state_epoch, before.greatest_state_epoch)
        states[key] = StoredState(
            value.snapshot_epoch,
            value.state,
            value.created_ms,
            value.written_ms,
            snapshot_offset=offset,
            greatest_leader_epoch=leader_epoch,
            greatest_state_epoch=state_epoch,
        )
    elif before is not None:
        merged = value.merged
        if merged is None or merged.before is not before.state:
            merged = to_end(merging(before.state, value.state))
        before.state = merged.after
        before.updates += 1
        before.greatest_leader_epoch = max(before.greatest_leader_epoch, value.state.leader_epoch)
