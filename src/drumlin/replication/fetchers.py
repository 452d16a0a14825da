"""Which fetcher follows which partition: `num.replica.fetchers` for each leader.

Partitions are moved when their leader changes; a fetcher without partitions ends.
"""

from __future__ import annotations

import asyncio
from zlib import crc32

from drumlin.replication.fetcher import LeaderFetcher
from drumlin.replication.followed_partition import FollowedPartition
from drumlin.replication.followed_partitions import Surroundings


class Fetchers:
    """All fetchers of one broker. Lives in the loop."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._fetchers: dict[tuple[int, int], LeaderFetcher] = {}
        self._followed: dict[tuple[str, int], tuple[FollowedPartition, LeaderFetcher]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def follow(self, partition: FollowedPartition) -> None:
        """Follow it from its leader as it is now: to be called whenever that has changed.

        A leader must be known; where there is none, `forget` the partition.
        """
        key = partition.topic, partition.index
        number = crc32(f"{partition.topic}-{partition.index}".encode())
        place = partition.leader_id, number % self._around.config.num_replica_fetchers
        fetcher = self._fetchers.get(place)
        known = self._followed.get(key)
        if known is not None and known != (partition, fetcher):
            self.forget(*key)
            fetcher = self._fetchers.get(place)
        if fetcher is None:
            fetcher = self._fetchers[place] = LeaderFetcher(partition.leader_id, self._around)
            fetcher.start()
        self._followed[key] = partition, fetcher
        fetcher.add(partition)

    def forget(self, topic: str, index: int) -> None:
        """Follow it no more. When this returns, its log is not changed from here any more."""
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

    def name_again(self, topic: str, index: int) -> None:
        """Have its leader hear that this replica has all, though there is nothing new."""
        known = self._followed.get((topic, index))
        if known is not None:
            partition, fetcher = known
            fetcher.name_again(partition)

    def hold_back(self, topic: str, index: int) -> None:
        """Fetch nothing of it until its log dir, which is offline, works again."""
        known = self._followed.get((topic, index))
        if known is not None:
            partition, fetcher = known
            fetcher.hold_back(partition)

    def rearrange(self) -> None:
        """`num.replica.fetchers` has changed."""
        for partition, _ in list(self._followed.values()):
            self.follow(partition)

    async def close(self) -> None:
        """Follow nothing any more."""
        self._followed.clear()
        fetchers = list(self._fetchers.values())
        self._fetchers.clear()
        await asyncio.gather(*(each.close() for each in fetchers), *self._closing)
