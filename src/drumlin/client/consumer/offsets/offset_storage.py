"""The interface of an offset store, and its implementation by the brokers.

A store's calls are single attempts; its callers retry.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, Protocol

from drumlin.client.admin.committed_offsets import GroupMetadata, OffsetAndMetadata
from drumlin.client.consumer.coordinator_link import CoordinatorLink
from drumlin.client.consumer.offsets.offset_requests import commit_offsets, fetch_offsets
from drumlin.client.topic_partition import TopicPartition

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class StartOffsets(NamedTuple):
    """The start offsets of partitions, and those of them that need not be committed again."""

    offsets: Offsets
    settled: Offsets


class OffsetStorage(Protocol):
    """A store of committed offsets. All calls raise KafkaError, PeerError and OffsetStoreFailed."""

    async def fetch(self, who: GroupMetadata, places: Collection[TopicPartition], /) -> Offsets:
        """Committed offsets of `places`; partitions without one are left out."""

    async def take_over(
        self, who: GroupMetadata, places: Collection[TopicPartition], /
    ) -> StartOffsets:
        """Fetch for the new owner of `places`, and fence the earlier owners."""

    async def commit(
        self, who: GroupMetadata, offsets: Offsets, check_owned: Callable[[], None], /
    ) -> None:
        """Commit; `check_owned` raises if a partition is no longer this consumer's."""

    async def close(self) -> None:
        """Close the store's connections."""


class BrokerStorage:
    """The topic `__consumer_offsets`, whose coordinator fences former members."""

    def __init__(self, link: CoordinatorLink) -> None:
        self._link = link

    async def fetch(self, who: GroupMetadata, places: Collection[TopicPartition]) -> Offsets:
        return await fetch_offsets(self._link, who, places)

    async def take_over(
        self, who: GroupMetadata, places: Collection[TopicPartition]
    ) -> StartOffsets:
        found = await self.fetch(who, places)
        return StartOffsets(found, found)

    async def commit(
        self, who: GroupMetadata, offsets: Offsets, _check_owned: Callable[[], None]
    ) -> None:
        await commit_offsets(self._link, who, offsets)

    async def close(self) -> None:
        """Nothing to do: the link's connections belong to the client."""
