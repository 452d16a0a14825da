"""Removes offsets that have expired, or whose topic was deleted.

A group without members is removed with its last offset. The shard chooses the records, some at a
time. Offsets whose tombstones cannot be written are removed later. Answers no requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol
from uuid import UUID

from drumlin.coordination.groups.every_kind.config import CoordinatorConfig
from drumlin.coordination.groups.every_kind.group_record import GroupRecord
from drumlin.coordination.groups.shard.log import LoadedPartition
from drumlin.coordination.groups.shard.shard import GroupShard
from drumlin.coordination.shards.shard_writer import ShardWriter
from drumlin.coordination.shards.sharded_coordinator import Found
from drumlin.coordination.shards.state_partitions import StatePartitions
from drumlin.turns import give_way
from drumlin.wire.error_codes import KafkaError

_log: Final = logging.getLogger(__name__)


class WriteFound(Protocol):
    """See `ShardedCoordinator._write_found`."""

    async def __call__(
        self,
        partition: int,
        find: Callable[[GroupShard], Iterable[Found[GroupRecord]]],
    ) -> None: ...


class Removals:
    """Removes offsets in the partitions of `__consumer_offsets` that this broker leads.

    Args:
        writer, partitions, write_found: those of the coordinator.
        config: the retention time of offsets, and the interval of checks.
    """

    def __init__(
        self,
        writer: ShardWriter[GroupShard, GroupRecord],
        partitions: StatePartitions[GroupShard, LoadedPartition],
        write_found: WriteFound,
        config: CoordinatorConfig,
    ) -> None:
        self._writer, self._partitions = writer, partitions
        self._write_found, self._config = write_found, config

    async def topic_deleted(self, topic: str, topic_id: UUID) -> None:
        """Delete the committed offsets of a deleted topic."""
        left = self._partitions.partitions()
        while True:
            left = [each for each in left if not await self._forget(each, topic, topic_id)]
            if not left:
                return
            await asyncio.sleep(self._config.offsets_retention_check_interval_ms / 1000)

    async def _forget(self, partition: int, topic: str, topic_id: UUID) -> bool:
        """Remove a deleted topic's offsets in one partition; returns whether all are removed."""
        shard = await self._partitions.when_ready(partition)
        if shard is None:
            return True
        what, count = f"offsets of the deleted topic {topic}", 0
        for records in shard.topic_deleted(topic, topic_id):
            try:
                if records:
                    self._writer.write(shard, records)
            except KafkaError as error:
                _log.warning("partition %d: not removed: %s: %s", partition, what, error)
                return False
            count += len(records)
            if await give_way() and await self._partitions.when_ready(partition) is not shard:
                return False  # another broker has led the partition meanwhile: start over
        if count:
            _log.info("partition %d: %d records removed: %s", partition, count, what)
        return True

    async def expire(self) -> None:
        """Delete expired offsets, and empty groups without offsets."""
        retention_ms = self._config.offsets_retention_minutes * 60_000
        for partition in self._partitions.partitions():
            await self._remove(
                partition,
                lambda shard, group_id: shard.expired(group_id, retention_ms),
                "expired",
            )

    async def remove_orphans(self, partition: int) -> None:
        """Delete offsets of deleted topics whose tombstones could not be written before."""
        what = "what is known of deleted topics"
        await self._remove(partition, GroupShard.orphans, what)

    async def _remove(
        self,
        partition: int,
        removable: Callable[[GroupShard, str], Iterator[list[GroupRecord]]],
        what: str,
    ) -> None:
        """For each group of a partition, write the records of a partial removal."""

        def find(shard: GroupShard) -> Iterator[Found[GroupRecord]]:
            for group_id in list(shard.groups):
                for records in removable(shard, group_id):
                    yield f"group {group_id!r}: {what}", records

        await self._write_found(partition, find)
