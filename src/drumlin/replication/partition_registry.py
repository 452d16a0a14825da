"""The partitions that a broker leads or follows, found by topic name, topic id and index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from uuid import UUID

from drumlin.replication.followed_partition import FollowedPartition
from drumlin.replication.partition import Partition
from drumlin.replication.replica import NO_LEADER_EPOCH
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

_NOTHING: Mapping[int, Partition] = {}


class PartitionRegistry:
    """The partitions that this broker leads or follows, and offline ones, which have no log here.

    Iteration yields the led partitions. `exists` tells whether the cluster has a partition.
    """

    def __init__(self, exists: Callable[[str, int], bool]) -> None:
        self._exists = exists
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._followed: dict[tuple[str, int], FollowedPartition] = {}
        # The led partitions by a topic's name or id, as bytes, as in requests.
        self._by_name: dict[bytes, dict[int, Partition]] = {}
        self._by_id: dict[bytes, dict[int, Partition]] = {}
        self._offline: set[tuple[str, int]] = set()
        #: A number that grows whenever a partition goes offline or comes back.
        self.offline_changes = 0

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._partitions.values()))

    def add(self, partition: Partition) -> None:
        self._forget_offline(partition.topic, partition.index)
        self._partitions[partition.topic, partition.index] = partition
        self._by_name.setdefault(partition.topic.encode(), {})[partition.index] = partition
        self._by_id.setdefault(partition.topic_id.bytes, {})[partition.index] = partition

    def add_followed(self, partition: FollowedPartition) -> None:
        self._forget_offline(partition.topic, partition.index)
        self._followed[partition.topic, partition.index] = partition

    def remove_followed(self, topic: str, index: int) -> None:
        self._followed.pop((topic, index), None)

    def find_followed(self, topic: str, index: int) -> FollowedPartition | None:
        return self._followed.get((topic, index))

    def followed(self) -> list[FollowedPartition]:
        """The partitions whose leader is another broker."""
        return list(self._followed.values())

    @property
    def followed_count(self) -> int:
        return len(self._followed)

    def has_log_of(self, topic: str, index: int) -> bool:
        """Whether this broker leads or follows the partition."""
        return (topic, index) in self._partitions or (topic, index) in self._followed

    def topic_ids(self) -> set[UUID]:
        """The topics of the partitions that this broker leads or follows."""
        led = {each.topic_id for each in self._partitions.values()}
        return led.union(each.topic_id for each in self._followed.values())

    def add_offline(self, topic: str, index: int) -> None:
        """Note a partition whose replica here has no available log."""
        self._offline.add((topic, index))
        self.offline_changes += 1

    def _forget_offline(self, topic: str, index: int) -> None:
        if (topic, index) in self._offline:
            self._offline.remove((topic, index))
            self.offline_changes += 1

    def without_log(self) -> set[tuple[str, int]]:
        """Topic and index of each partition with a replica but no log here."""
        return set(self._offline)

    @property
    def has_offline(self) -> bool:
        return bool(self._offline)

    def is_offline(self, topic: str, index: int) -> bool:
        """Whether the partition has a replica here, but no readable log."""
        partition = self._partitions.get((topic, index)) or self._followed.get((topic, index))
        if partition is None:
            return (topic, index) in self._offline
        return not partition.log.log_directory.is_readable

    def remove(self, topic: str, index: int) -> None:
        self._forget_offline(topic, index)
        partition = self._partitions.pop((topic, index), None)
        if partition is not None:
            _forget(self._by_name, topic.encode(), index)
            _forget(self._by_id, partition.topic_id.bytes, index)
            partition.close()

    async def clear(self) -> None:
        """Remove all led partitions, as the broker is stopping; after the first step it
        leads none.
        """
        partitions, self._partitions = self._partitions, {}
        by_name, self._by_name = self._by_name, {}
        by_id, self._by_id = self._by_id, {}
        while partitions:
            _, partition = partitions.popitem()
            _forget(by_name, partition.topic.encode(), partition.index)
            _forget(by_id, partition.topic_id.bytes, partition.index)
            partition.close()
            await give_way()

    def find(self, topic: str, index: int) -> Partition | None:
        return self._partitions.get((topic, index))

    def of_name(self, topic: bytes) -> Mapping[int, Partition]:
        """The led partitions of the topic with this name, by index."""
        return self._by_name.get(topic, _NOTHING)

    def of_id(self, topic_id: bytes) -> Mapping[int, Partition]:
        """The led partitions of the topic with this id (16 bytes), by index."""
        return self._by_id.get(topic_id, _NOTHING)

    def get(self, topic: str, index: int, leader_epoch: int = NO_LEADER_EPOCH) -> Partition:
        """The led partition, for a request with this leader epoch or without one.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION; NOT_LEADER_OR_FOLLOWER, another broker leads it;
                KAFKA_STORAGE_ERROR while it is offline; FENCED_LEADER_EPOCH or
                UNKNOWN_LEADER_EPOCH, the replica here is in another epoch.
        """
        partition = self._partitions.get((topic, index))
        if partition is None:
            if (topic, index) in self._offline:
                raise KafkaError(ErrorCode.kafka_storage_error)
            followed = self._followed.get((topic, index))
            if followed is not None:
                followed.check_leader_epoch(leader_epoch)
            if self._exists(topic, index):
                raise KafkaError(ErrorCode.not_leader_or_follower)
            raise KafkaError(ErrorCode.unknown_topic_or_partition)
        partition.check_leader_epoch(leader_epoch)
        return partition


def _forget(topics: dict[bytes, dict[int, Partition]], topic: bytes, index: int) -> None:
    partitions = topics[topic]
    del partitions[index]
    if not partitions:
        del topics[topic]
