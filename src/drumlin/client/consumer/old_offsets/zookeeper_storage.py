"""Offsets in ZooKeeper, alone or also in the brokers, as in Kafka's old high-level consumer.

ZooKeeper does not know the group's members, so a commit takes three steps:

1. read the nodes' versions;
2. have the coordinator confirm the consumer's membership: by a commit there, or by a heartbeat;
3. write those nodes that still have these versions.

A new owner first rewrites each node unchanged, which gives the node a new version. So a fenced
member that reads after that fails in step 2, and one that has read before fails in step 3: it can
never overwrite its successor's progress. Without membership (`assign`) there is no step 2: the last
write wins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping

from drumlin.client.admin.committed_offsets import GroupMetadata, OffsetAndMetadata
from drumlin.client.consumer.offsets.offset_storage import Offsets, OffsetStorage, StartOffsets
from drumlin.client.consumer.old_offsets.zookeeper_nodes import Versioned, ZooKeeperNodes
from drumlin.client.errors import OffsetStoreFailed
from drumlin.client.topic_partition import TopicPartition
from drumlin.zookeeper.consumer_offsets import ABSENT, ZooKeeperOffset

#: Raises unless the coordinator still knows this member.
Confirm = Callable[[GroupMetadata, Collection[TopicPartition]], Awaitable[None]]
Nodes = Mapping[TopicPartition, ZooKeeperOffset]


def greater_of_both(brokers: Offsets, nodes: Offsets) -> StartOffsets:
    """The greater offset of each partition; offsets equal in both stores need no new commit.

    Of two equal offsets the broker's is taken, as it has metadata and a leader epoch.
    """
    ahead = {
        place: each
        for place, each in brokers.items()
        if place not in nodes or each.offset >= nodes[place].offset
    }
    settled = {
        place: each
        for place, each in brokers.items()
        if place in nodes and nodes[place].offset == each.offset
    }
    return StartOffsets({**nodes, **ahead}, settled)


def due_writes(offsets: Offsets, found: Nodes) -> Versioned:
    """The offsets that differ from those in `found`, each with the node version it replaces."""
    return {
        place: (each.offset, found[place].version if place in found else ABSENT)
        for place, each in offsets.items()
        if place not in found or found[place].offset != each.offset
    }


def _plain(found: Nodes) -> Offsets:
    return {place: OffsetAndMetadata(each.offset) for place, each in found.items()}


class ZooKeeperStorage:
    """ZooKeeper alone. `confirm` is None for a consumer that is not a member."""

    def __init__(self, nodes: ZooKeeperNodes, confirm: Confirm | None) -> None:
        self._nodes = nodes
        self._confirm = confirm

    async def fetch(self, _who: GroupMetadata, places: Collection[TopicPartition]) -> Offsets:
        return _plain(await self._nodes.read(places, is_exact=True))

    async def take_over(
        self, _who: GroupMetadata, places: Collection[TopicPartition]
    ) -> StartOffsets:
        found = await self._nodes.read(places, is_exact=True)
        if self._confirm is not None:
            await self._nodes.write({p: (each.offset, each.version) for p, each in found.items()})
        return StartOffsets(_plain(found), _plain(found))

    async def commit(
        self, who: GroupMetadata, offsets: Offsets, check_owned: Callable[[], None]
    ) -> None:
        check_owned()
        found = await self._nodes.read(offsets.keys(), is_exact=False)
        if self._confirm is not None:
            await self._confirm(who, offsets.keys())
        check_owned()
        await self._nodes.write(due_writes(offsets, found))

    async def close(self) -> None:
        await self._nodes.close()


class DualStorage:
    """Both stores. If a commit fails only in ZooKeeper, the broker's greater offset counts."""

    def __init__(
        self, brokers: OffsetStorage, in_zookeeper: ZooKeeperStorage, nodes: ZooKeeperNodes
    ) -> None:
        self._brokers = brokers
        self._in_zookeeper = in_zookeeper
        self._nodes = nodes

    async def fetch(self, who: GroupMetadata, places: Collection[TopicPartition]) -> Offsets:
        found = await asyncio.gather(
            self._brokers.fetch(who, places), self._in_zookeeper.fetch(who, places)
        )
        return greater_of_both(*found).offsets

    async def take_over(
        self, who: GroupMetadata, places: Collection[TopicPartition]
    ) -> StartOffsets:
        # ZooKeeper first: this fences earlier owners there. The brokers have fenced them since
        # this member got the partitions.
        found = await self._in_zookeeper.take_over(who, places)
        return greater_of_both(await self._brokers.fetch(who, places), found.offsets)

    async def commit(
        self, who: GroupMetadata, offsets: Offsets, check_owned: Callable[[], None]
    ) -> None:
        check_owned()
        failure = None
        found: Nodes = {}
        try:
            found = await self._nodes.read(offsets.keys(), is_exact=False)
        except OffsetStoreFailed as error:
            failure = error
        # Even if ZooKeeper fails: records committed in one store need not be read again.
        await self._brokers.commit(who, offsets, check_owned)
        if failure is not None:
            raise failure
        check_owned()
        await self._nodes.write(due_writes(offsets, found))

    async def close(self) -> None:
        await self._in_zookeeper.close()
