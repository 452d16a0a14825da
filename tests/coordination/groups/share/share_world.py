"""Share groups with both of their coordinators, over logs in memory; time moves when it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

from coordination.memory_log import KnownTopics, MemoryLog, lead_all, new_coordinator, wake
from coordination.settings import Settings
from drumlin.clock import ManualClock
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.coordinator.share_groups import ShareGroupMembership
from drumlin.coordination.groups.every_kind.group_context import Topic
from drumlin.coordination.groups.share.messages import ShareHeartbeat, ShareHeartbeatAnswer
from drumlin.coordination.shards.state_topic import StateTopic
from drumlin.coordination.share.state.coordinator import ShareCoordinator
from drumlin.coordination.share.state.log import load
from drumlin.coordination.share.state.state import SharePartitionKey
from drumlin.metadata.names import SHARE_GROUP_STATE
from drumlin.records.batch.batch import assign_offsets, parse_header
from drumlin.storage.producers.verification import NOT_REQUIRED, Verification
from rig.waiting import eventually


@dataclass
class ShareSettings(Settings):
    group_share_initialize_retry_interval_ms: int = 30_000
    group_share_max_size: int = 200
    share_coordinator_cold_partition_snapshot_interval_ms: int = 300_000
    share_coordinator_snapshot_update_records_per_snapshot: int = 500
    share_coordinator_state_topic_compression_codec: int = 0
    share_coordinator_state_topic_num_partitions: int = 4
    share_coordinator_state_topic_prune_interval_ms: int = 300_000
    share_coordinator_write_timeout_ms: int = 5_000


class StateLog(MemoryLog):
    """A log that assigns offsets, and can be cut at its start."""

    def __init__(self) -> None:
        super().__init__()
        self._end_offsets: dict[int, int] = {}

    def append(
        self,
        partition: int,
        batch: bytearray,
        verification: Verification | None = NOT_REQUIRED,
        reserve_bytes: int = 0,
    ) -> None:
        assign_offsets(batch, 0, self.end_offset(partition), 0)
        super().append(partition, batch)
        self._end_offsets[partition] = parse_header(batch).end_offset

    def end_offset(self, partition: int) -> int:
        return self._end_offsets.get(partition, 0)

    def delete_before(self, partition: int, offset: int) -> None:
        batches = self.batches.get(partition, [])
        self.batches[partition] = [
            each for each in batches if parse_header(each).end_offset > offset
        ]


class WatchedTopics(KnownTopics):
    """Topics of which `tell` hears when they change; `asked`: how often one was looked for."""

    def __init__(self, tell: Callable[[str, bool], None]) -> None:
        super().__init__()
        self._tell = tell
        self.asked = 0

    def by_name(self, name: str) -> Topic | None:
        self.asked += 1
        return super().by_name(name)

    def put(self, name: str, partition_count: int) -> Topic:
        is_new = self.by_name(name) is None
        topic = super().put(name, partition_count)
        self._tell(name, is_new)
        return topic

    def remove(self, name: str) -> Topic:
        topic = super().remove(name)
        self._tell(name, False)
        return topic


class ShareWorld:
    """What outlives a coordinator, and the coordinators of the moment."""

    groups: GroupCoordinator
    states: ShareCoordinator
    share: ShareGroupMembership

    def __init__(self) -> None:
        self.settings = ShareSettings()
        self.clock = ManualClock()
        self.topics = WatchedTopics(self._topic_changed)
        self.offsets_log = MemoryLog()
        self.state_log = StateLog()

    async def start(self) -> None:
        """New coordinators, which load what the logs say."""
        log = self.state_log

        async def nothing() -> None:
            return

        self.groups = new_coordinator(self.offsets_log, self.settings, self.clock, self.topics)
        topic = StateTopic(
            SHARE_GROUP_STATE,
            log.find,
            log.read,
            lambda: log.partition_count,
            nothing,
        )
        was_deleted = self.topics.was_deleted
        self.states = ShareCoordinator(
            self.settings, self.clock, topic, log, self._has_partition, was_deleted
        )
        self.share = ShareGroupMembership(self.settings, self.groups, self.states, self.topics)
        lead_all(self.groups, self.offsets_log)
        for partition in range(log.partition_count or 0):
            self.states.become_leader(partition, 0)
        self.groups.start()
        self.states.start()
        await self._loaded()

    async def _loaded(self) -> None:
        while True:
            try:
                self.groups.groups()
            except Exception:
                await asyncio.sleep(0.001)
            else:
                return

    async def stop(self) -> None:
        await self.groups.close()
        await self.states.close()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    def _topic_changed(self, name: str, is_new: bool) -> None:
        self.groups.topic_changed(name, is_new=is_new)

    def _has_partition(self, topic_id: UUID, partition: int) -> bool:
        topic = self.topics.by_id(topic_id)
        return topic is not None and 0 <= partition < topic.partition_count

    async def beat(
        self, member: str, epoch: int, *topics: str, group: str = "g", rack: str | None = None
    ) -> ShareHeartbeatAnswer:
        request = ShareHeartbeat(member, epoch, rack, "client", "/host", topics or None)
        return await self.share.heartbeat(group, request)

    def states_now(self) -> set[SharePartitionKey]:
        """The share partitions of which the log has a state."""
        log = self.state_log
        return {
            key
            for partition in range(log.partition_count or 0)
            for key in load(log.read(partition))
        }

    async def until(self, condition: Callable[[], bool]) -> None:
        await eventually(condition)

    def pass_time(self, ms: int) -> None:
        """Deadlines that come by then are met."""
        self.clock.advance_ms(ms)
        wake(self.groups)

    def assigned(self, group: str = "g") -> dict[str, dict[UUID, tuple[int, ...]]]:
        return {
            each.member_id: dict(each.assignment) for each in self.share.group(group).describe()
        }


@asynccontextmanager
async def _running() -> AsyncIterator[ShareWorld]:
    world = ShareWorld()
    await world.start()
    try:
        yield world
    finally:
        await world.stop()


def run(scenario: Callable[[ShareWorld], Awaitable[None]]) -> None:
    """Play a scenario in a world of its own."""

    async def main() -> None:
        async with _running() as world:
            await scenario(world)

    asyncio.run(main())
