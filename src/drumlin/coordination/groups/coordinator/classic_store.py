"""Writes the records of classic groups. With very many members, that takes several turns.

One record has all members of a group. The record's content is gathered over several turns of the
loop, then encoded in a thread. Other requests run meanwhile. If the group no longer awaits the
record at the end, or was removed or moved, nothing is written. The group handles the outcome.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from drumlin.background import Background
from drumlin.clock import Clock
from drumlin.coordination.groups.classic.group import Group
from drumlin.coordination.groups.classic.records import GroupKey, GroupMetadata
from drumlin.coordination.groups.coordinator.effects import Effects
from drumlin.coordination.groups.every_kind.group_record import GroupRecord
from drumlin.coordination.groups.every_kind.messages import StaticMemberReplaced, Store
from drumlin.coordination.groups.every_kind.states import GroupState
from drumlin.coordination.groups.shard.log import encode_batches
from drumlin.coordination.groups.shard.shard import GroupShard
from drumlin.coordination.shards.shard_writer import ShardWriter
from drumlin.coordination.shards.state_batches import record_bytes_max
from drumlin.coordination.shards.state_log import StateLog
from drumlin.coordination.shards.state_topic import Confirmation
from drumlin.turns import give_way, to_end
from drumlin.wire.error_codes import ErrorCode, KafkaError

_log: Final = logging.getLogger(__name__)

#: Limits of a record that is encoded in one turn, which takes a millisecond at most.
_MEMBERS_AT_ONCE: Final = 200
_BYTES_AT_ONCE: Final = 64 * 1024


class ClassicStore:
    """Writes the records of the classic groups that this broker coordinates.

    Args:
        writer, log, effects, background: those of the coordinator.
        clock: wall time, for records.
        codec(): the compression of batches, as a number of `CODECS`.
    """

    def __init__(
        self,
        writer: ShardWriter[GroupShard, GroupRecord],
        log: StateLog,
        effects: Effects,
        background: Background,
        clock: Clock,
        codec: Callable[[], int],
    ) -> None:
        self._writer, self._log, self._effects = writer, log, effects
        self._background = background
        self._clock, self._codec = clock, codec
        self._storing = asyncio.Lock()

    def store(self, shard: GroupShard, group: Group, store: Store) -> None:
        """Write the group's decision, and report the outcome to the group."""
        is_replacement = isinstance(store.purpose, StaticMemberReplaced)
        if is_replacement and group.replacements:
            group.replacements.append(store)  # one record has all replacements
            return
        stores, count = [store], len(group.membership.members)
        # A group's records are written in order; an empty group's record need not wait.
        if group.stores_under_way and count:
            if is_replacement:
                group.replacements = stores
        elif count <= _MEMBERS_AT_ONCE:
            metadata = to_end(group.to_store(store.purpose))
            if metadata is None:
                return
            if not _is_large(metadata):
                self._store_now(shard, group, store, metadata)
                return
        group.stores_under_way += 1
        self._background.spawn(self._store_in_turns(shard, group, stores))

    def _store_now(
        self, shard: GroupShard, group: Group, store: Store, metadata: GroupMetadata
    ) -> None:
        try:
            confirmation = self._writer.write(shard, [(GroupKey(group.group_id), metadata)])
            group.in_log(metadata)
        except KafkaError as error:
            self._stored(shard, group, store, error.code)
            return
        if confirmation is None:
            self._stored(shard, group, store, None)
        else:
            self._background.spawn(self._tell_confirmed(shard, group, [store], confirmation))

    async def _store_in_turns(
        self,
        shard: GroupShard,
        group: Group,
        stores: list[Store],
    ) -> None:
        """Write one record for all of `stores`."""
        confirmation = None
        try:
            async with self._storing:  # one record at a time, in order
                if group.replacements is stores:
                    group.replacements = []  # later members are in the next record
                try:
                    made = await self._batch_of(shard, group, stores)
                    if made is None:
                        return
                    confirmation = self._writer.append(shard, made[0])
                    group.in_log(made[1])
                except Exception as failure:  # noqa: BLE001  or members would wait for ever
                    # Undo the changes before the next record is created, which must not include
                    # them.
                    await self._tell_stored(shard, group, stores, _code_of(group, failure))
                    return
            await asyncio.sleep(0)  # run the rest in a separate turn
        finally:
            group.stores_under_way -= 1
        if confirmation is None:
            await self._tell_stored(shard, group, stores, None)
        else:
            self._background.spawn(self._tell_confirmed(shard, group, stores, confirmation))

    async def _batch_of(
        self,
        shard: GroupShard,
        group: Group,
        stores: Sequence[Store],
    ) -> tuple[bytearray, GroupMetadata] | None:
        """A batch with the record; None if the group no longer awaits any of `stores`."""
        while True:
            purpose = next((each.purpose for each in stores if group.awaits(each.purpose)), None)
            if purpose is None:
                return None
            metadata = await group.to_store(purpose)
            if metadata is not None:
                batch = await self._encoded(shard, group, metadata)
                # A member that waits now has waited all along, as a rebalance would have answered
                # it.
                if any(group.awaits(each.purpose) for each in stores):
                    return batch, metadata

    async def _encoded(self, shard: GroupShard, group: Group, metadata: GroupMetadata) -> bytearray:
        record: GroupRecord = (GroupKey(group.group_id), metadata)
        bytes_max = record_bytes_max(self._writer.led(shard).batch_bytes_max)
        now_ms = self._clock.wall_ms()
        ((batch, _),) = await asyncio.to_thread(
            encode_batches, [record], now_ms, self._codec(), bytes_max=bytes_max
        )
        return batch

    async def _tell_confirmed(
        self, shard: GroupShard, group: Group, stores: Sequence[Store], confirmation: Confirmation
    ) -> None:
        error = None
        try:
            await self._log.confirmed(confirmation)
        except KafkaError as refusal:
            error = refusal.code
        await self._tell_stored(shard, group, stores, error)

    async def _tell_stored(
        self, shard: GroupShard, group: Group, stores: Sequence[Store], error: ErrorCode | None
    ) -> None:
        for each in stores:
            self._stored(shard, group, each, error)
            await give_way()

    def _stored(
        self, shard: GroupShard, group: Group, store: Store, error: ErrorCode | None
    ) -> None:
        if error is not None:
            _log.warning("metadata of group %r was not stored: %s", group.group_id, error.name)
        self._effects.carry_out(shard, group, group.stored(store, error))
        if group.state is GroupState.DEAD and shard.groups.get(group.group_id) is group:
            del shard.groups[group.group_id]


def _code_of(group: Group, failure: Exception) -> ErrorCode:
    if isinstance(failure, KafkaError):
        return failure.code
    _log.error("metadata of group %r cannot be stored", group.group_id, exc_info=failure)
    return ErrorCode.unknown_server_error


def _is_large(metadata: GroupMetadata) -> bool:
    members = metadata.members
    if len(members) > _MEMBERS_AT_ONCE:
        return True
    return sum(len(each.subscription) + len(each.assignment) for each in members) > _BYTES_AT_ONCE
