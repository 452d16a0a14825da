"""The share coordinator: finds the state of a share partition, and writes decided changes to the
log.

All state changes run on the event loop without awaiting; only answers wait, for the log or for
a partition that is being loaded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol
from uuid import UUID

from drumlin.clock import Clock
from drumlin.coordination.shards.pending_answer import Written
from drumlin.coordination.shards.sharded_coordinator import ShardedCoordinator
from drumlin.coordination.shards.state_form import StateForm, StateLimits
from drumlin.coordination.shards.state_topic import Confirmation, StateTopic
from drumlin.coordination.share.state.log import load
from drumlin.coordination.share.state.records import Merged, ShareRecord, encode_record
from drumlin.coordination.share.state.shard import LoadedStates, ShareShard
from drumlin.coordination.share.state.state import SharePartitionKey, ShareState
from drumlin.turns import forget
from drumlin.wire.error_codes import ErrorCode, KafkaError

_log = logging.getLogger(__name__)

_NO_PARTITION: Final = -1
#: The number of batches that are combined in one turn; more batches take several turns.
_MERGED_AT_ONCE_MAX: Final = 500
#: The summary of a state that was never initialized.
_NOTHING_KNOWN: Final = ShareState(state_epoch=0, leader_epoch=0)


class ShareCoordinatorConfig(Protocol):
    """The coordinator's part of the broker's configuration; the names are Kafka's keys."""

    @property
    def share_coordinator_cold_partition_snapshot_interval_ms(self) -> int: ...
    @property
    def share_coordinator_snapshot_update_records_per_snapshot(self) -> int: ...
    @property
    def share_coordinator_state_topic_compression_codec(self) -> int: ...
    @property
    def share_coordinator_state_topic_num_partitions(self) -> int: ...
    @property
    def share_coordinator_state_topic_prune_interval_ms(self) -> int: ...
    @property
    def share_coordinator_write_timeout_ms(self) -> int: ...


class StateLogEnds(Protocol):
    """The start and end offsets of the state topic's logs, which are not compacted."""

    def end_offset(self, partition: int) -> int:
        """The offset of the next record.

        Raises:
            KafkaError: the partition is not led here.
        """

    def delete_before(self, partition: int, offset: int) -> None:
        """
        Raises:
            KafkaError: the partition is not led here, or its log dir fails.
        """


class ShareCoordinator(ShardedCoordinator[ShareShard, LoadedStates, ShareRecord]):
    """The states of all share partitions that this broker coordinates.

    Args:
        config: the broker's configuration.
        clock: wall time.
        topic: `__share_group_state`.
        ends: the start and end offsets of that topic's logs.
        has_partition(topic_id, partition): whether the partition exists now.
        was_deleted(topic_id): whether the topic is known to be deleted.

    A component that caches states registers a callback with `when_renewed`, for states that are
    initialized again or deleted.

    Requests raise `KafkaError` with the error code for the client.
    """

    def __init__(
        self,
        config: ShareCoordinatorConfig,
        clock: Clock,
        topic: StateTopic,
        ends: StateLogEnds,
        has_partition: Callable[[UUID, int], bool],
        was_deleted: Callable[[UUID], bool],
    ) -> None:
        form = StateForm(
            ShareShard,
            load,
            ShareShard.take_over,
            lambda shard: forget(shard.states),
            encode_record,
            ShareShard.apply,
        )
        limits = StateLimits(
            lambda: config.share_coordinator_state_topic_num_partitions,
            lambda: config.share_coordinator_write_timeout_ms,
            lambda: config.share_coordinator_state_topic_compression_codec,
        )
        super().__init__(topic, form, limits, clock, self._on_loaded)
        self._config = config
        self._ends = ends
        self._has_partition = has_partition
        self._was_deleted = was_deleted
        self._renewed: list[Callable[[SharePartitionKey], None]] = []

    def when_renewed(self, tell: Callable[[SharePartitionKey], None]) -> None:
        """From now on, call `tell` for each state that is initialized again or deleted."""
        self._renewed.append(tell)

    # -- life ------------------------------------------------------------------------------

    def start(self) -> None:
        super().start()
        config = self._config
        self._background.repeat(
            lambda: config.share_coordinator_state_topic_prune_interval_ms, self.prune
        )
        self._background.repeat(
            lambda: config.share_coordinator_cold_partition_snapshot_interval_ms,
            self.snapshot_cold_states,
        )

    def topic_deleted(self, topic: str, topic_id: UUID) -> None:  # noqa: ARG002
        """Delete the states in a deleted topic."""
        self._background.spawn(self._delete_orphans())

    def _on_loaded(self, partition: int) -> None:
        self._background.spawn(self._delete_orphans_in(partition))

    async def _delete_orphans(self) -> None:
        for partition in self._partitions.partitions():
            await self._delete_orphans_in(partition)

    async def _delete_orphans_in(self, partition: int) -> None:
        """Delete the states in deleted topics, no matter when these were deleted."""
        what = "states in deleted topics"
        await self._write_found(
            partition,
            lambda shard: ((what, records) for records in shard.orphans(self._was_deleted)),
        )

    # -- finding -----------------------------------------------------------------------------

    async def _shard_of(self, key: SharePartitionKey) -> ShareShard:
        """The shard of a state; the topic is created if it does not exist."""
        self._check(key)
        return await self._shard(await self.find_partition(key.coordinator_key))

    async def _shard_if_any(self, key: SharePartitionKey) -> ShareShard:
        """Like `_shard_of`, but returns an empty shard if the topic does not exist: there is no
        state then.
        """
        self._check(key)
        if self._topic.partition_count() is None:
            return ShareShard(_NO_PARTITION)
        return await self._shard(self._partition_for(key.coordinator_key))

    def _check(self, key: SharePartitionKey) -> None:
        if not key.group_id:
            raise KafkaError(ErrorCode.invalid_group_id)
        if key.partition < 0:
            message = f"{key.partition} cannot be the number of a partition"
            raise KafkaError(ErrorCode.invalid_request, message)
        self._check_active()

    async def _shard(self, partition: int) -> ShareShard:
        """The shard. Does not suspend if it is loaded, so a writer's earlier check stays valid."""
        with suppress(KafkaError):
            return self._partitions.shard(partition)
        # Loading is quick; waiting for it is cheaper than a retry of the request.
        timeout = self._config.share_coordinator_write_timeout_ms / 1000
        ready = asyncio.ensure_future(self._partitions.when_ready(partition))
        try:
            await asyncio.wait([ready], timeout=timeout)
            if not ready.done():
                raise KafkaError(ErrorCode.coordinator_load_in_progress)
        finally:
            ready.cancel()
        return self._partitions.shard(partition)

    def _check_there(self, key: SharePartitionKey) -> None:
        if not self._has_partition(key.topic_id, key.partition):
            raise KafkaError(ErrorCode.unknown_topic_or_partition)

    # -- requests ------------------------------------------------------------------------------

    async def initialize(
        self, group_id: str, topic_id: UUID, partition: int, state_epoch: int, start_offset: int
    ) -> None:
        """InitializeShareGroupState, one partition: a new state replaces the old one.

        Raises:
            KafkaError: FENCED_STATE_EPOCH, UNKNOWN_TOPIC_OR_PARTITION.
        """
        key = SharePartitionKey(group_id, topic_id, partition)
        shard = await self._shard_of(key)
        now_ms = self._clock.wall_ms()
        record = shard.initialize(key, state_epoch, start_offset, now_ms)
        self._check_there(key)
        confirmation = self._writer.write(shard, [record])
        self._tell_renewed(key)
        await self._log.confirmed(confirmation)

    async def read(
        self, group_id: str, topic_id: UUID, partition: int, leader_epoch: int | None = None
    ) -> ShareState:
        """ReadShareGroupState, one partition; a later leader epoch is stored, an older one is
        fenced.

        Raises:
            KafkaError: INVALID_REQUEST if there is no state, FENCED_LEADER_EPOCH,
                UNKNOWN_TOPIC_OR_PARTITION.
        """
        key = SharePartitionKey(group_id, topic_id, partition)
        shard = await self._shard_if_any(key)
        stored = shard.check_read(key, leader_epoch)
        self._check_there(key)
        if leader_epoch is not None:
            limit = self._config.share_coordinator_snapshot_update_records_per_snapshot
            records = shard.note_leader(key, leader_epoch, limit, self._clock.wall_ms())
            if records:
                confirmation = self._writer.write(shard, records)
                stored = shard.states[key]
                await self._log.confirmed(confirmation)
        return stored.state

    async def write(self, group_id: str, topic_id: UUID, partition: int, state: ShareState) -> None:
        """WriteShareGroupState, one partition: `state` has the changes.

        The batches are combined with the stored ones; a start offset of -1 keeps the stored offset.

        Raises:
            KafkaError: INVALID_REQUEST if there is no state, FENCED_LEADER_EPOCH,
                FENCED_STATE_EPOCH, UNKNOWN_TOPIC_OR_PARTITION.
        """
        key = SharePartitionKey(group_id, topic_id, partition)
        shard, merged = await self._merged(key, state)
        await self._log.confirmed(self._write_checked(shard, key, state, merged))

    def write_at_once(self, key: SharePartitionKey, change: ShareState) -> Written[None] | None:
        """Like `write`, without awaiting; the result is done once all in-sync replicas have the
        change. None if the write takes more than a turn, and nothing is written.

        Raises:
            KafkaError: as `write`.
        """
        self._check(key)
        try:
            shard = self._partitions.shard(self._partition_for(key.coordinator_key))
        except KafkaError:
            return None  # `write` can wait
        before = shard.check_write(key, change)
        if len(before.batches) + len(change.batches) > _MERGED_AT_ONCE_MAX:
            return None
        confirmation = self._write_checked(shard, key, change, None)
        return self._log.written(None, confirmation)

    def _write_checked(
        self, shard: ShareShard, key: SharePartitionKey, change: ShareState, merged: Merged | None
    ) -> Confirmation | None:
        limit = self._config.share_coordinator_snapshot_update_records_per_snapshot
        record = shard.write(key, change, limit, self._clock.wall_ms(), merged)
        self._check_there(key)
        return self._writer.write(shard, [record])

    async def _merged(
        self, key: SharePartitionKey, change: ShareState
    ) -> tuple[ShareShard, Merged | None]:
        """The state's shard, and, if there are very many batches, the state after the change."""
        while True:
            shard = await self._shard_if_any(key)
            state = shard.check_write(key, change)
            if len(state.batches) + len(change.batches) <= _MERGED_AT_ONCE_MAX:
                return shard, None
            merged = await shard.merging(key, change)
            shard = await self._shard_if_any(key)
            if shard.check_write(key, change) is merged.before:
                return shard, merged  # the state has not changed meanwhile

    async def delete(self, group_id: str, topic_id: UUID, partition: int) -> None:
        """DeleteShareGroupState, one partition; succeeds if there is no state.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION.
        """
        key = SharePartitionKey(group_id, topic_id, partition)
        shard = await self._shard_if_any(key)
        self._check_there(key)
        if records := shard.delete(key):
            confirmation = self._writer.write(shard, records)
            self._tell_renewed(key)
            await self._log.confirmed(confirmation)

    def _tell_renewed(self, key: SharePartitionKey) -> None:
        for tell in self._renewed:
            tell(key)

    async def summary(self, group_id: str, topic_id: UUID, partition: int) -> ShareState:
        """ReadShareGroupStateSummary, one partition: the state without the batches.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION.
        """
        key = SharePartitionKey(group_id, topic_id, partition)
        shard = await self._shard_if_any(key)
        self._check_there(key)
        stored = shard.states.get(key)
        return _NOTHING_KNOWN if stored is None else stored.state._replace(batches=())

    # -- the log -------------------------------------------------------------------------------

    async def prune(self) -> None:
        """Delete records at the start of the logs that later snapshots have made redundant.

        First deletes the states in deleted topics, as that may have failed before.
        """
        await self._delete_orphans()
        for partition in self._partitions.partitions():
            shard = await self._partitions.when_ready(partition)
            if shard is None:
                continue
            try:
                offset = shard.redundant_before(self._ends.end_offset(partition))
                if offset > shard.pruned_to:
                    self._ends.delete_before(partition, offset)
                    shard.pruned_to = offset
            except KafkaError as error:
                _log.warning("partition %d: redundant records stay: %s", partition, error)

    async def snapshot_cold_states(self) -> None:
        """Write new snapshots of unchanged states, so that earlier records of the log can be
        deleted.
        """
        interval_ms = self._config.share_coordinator_cold_partition_snapshot_interval_ms
        now_ms = self._clock.wall_ms()
        for partition in self._partitions.partitions():
            await self._write_found(
                partition,
                lambda shard: (
                    ("new snapshots", records)
                    for records in shard.cold_snapshots(interval_ms, now_ms)
                ),
            )
