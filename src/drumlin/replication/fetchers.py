"""Assignment of partitions to fetchers. There are `num.replica.fetchers` for each leader.

A partition moves to another fetcher when its leader changes; a fetcher without partitions closes.
"""

from __future__ import annotations

import asyncio
from zlib import crc32

from drumlin.replication.fetcher import LeaderFetcher
from drumlin.replication.followed_partition import FollowedPartition
from drumlin.replication.followed_partitions import FollowerContext


class Fetchers:
    """All fetchers of one broker. Used in the event loop only."""

    def __init__(self, context: FollowerContext) -> None:
        self._context = context
        self._fetchers: dict[tuple[int, int], LeaderFetcher] = {}
        self._followed: dict[tuple[str, int], tuple[FollowedPartition, LeaderFetcher]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def follow(self, partition: FollowedPartition) -> None:
        """Replicate a partition from its current leader. To be called whenever the leader has
        changed.

        If the partition has no leader, call `forget` instead.
        """
        key = partition.topic, partition.index
        number = crc32(f"{partition.topic}-{partition.index}".encode())
        place = partition.leader_id, number % self._context.config.num_replica_fetchers
        fetcher = self._fetchers.get(place)
        known = self._followed.get(key)
        if known is not None and known != (partition, fetcher):
            self.forget(*key)
            fetcher = self._fetchers.get(place)
        if fetcher is None:
            fetcher = self._fetchers[place] = LeaderFetcher(partition.leader_id, self._context)
            fetcher.start()
        self._followed[key] = partition, fetcher
        fetcher.add(partition)

    def forget(self, topic: str, index: int) -> None:
        """Stop following a partition. Once this returns, no fetcher changes its log."""
        known = self._followed.pop((topic, index), None)
        if known is None:
            return
        partition, fetcher = known
        fetcher.remove(partition)
        if not len(fetcher):
            place = next(place for place, each in self._fetchers.items() if each is fetcher)
            del self._fetchers[place]
            task = asyncio.get_running_loop().create_task(fetcher.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def report_again(self, topic: str, index: int) -> None:
        """Send the position of this replica to the leader, although it has not changed."""
        known = self._followed.get((topic, index))
        if known is not None:
            partition, fetcher = known
            fetcher.report_again(partition)

    def pause_while_offline(self, topic: str, index: int) -> None:
        """Pause a partition until its log dir, which is offline, works again."""
        known = self._followed.get((topic, index))
        if known is not None:
            partition, fetcher = known
            fetcher.pause_while_offline(partition)

    def rearrange(self) -> None:
        """Reassign all partitions after a change of `num.replica.fetchers`."""
        for partition, _ in list(self._followed.values()):
            self.follow(partition)

    async def close(self) -> None:
        """Stop following all partitions."""
        self._followed.clear()
        fetchers = list(self._fetchers.values())
        self._fetchers.clear()
        await asyncio.gather(*(each.close() for each in fetchers), *self._closing)
