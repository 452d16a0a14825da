"""A cluster in memory: one topic that comes and goes, and answers that are not always true."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from drumlin.client.errors import UnknownTopic
from drumlin.spark.options.offsets import EARLIEST, LATEST, OffsetLimit, TopicPartition
from drumlin.spark.options.ranges import PlannedRange
from drumlin.spark.planning.data_loss import DataLoss, ReadFailed
from drumlin.spark.planning.density import Density
from drumlin.spark.planning.known_logs import LogIdentity, LogView
from drumlin.wire.error_codes import ErrorCode

Record = tuple[int, int, int]  # which topic of that name, partition, offset


@dataclass
class Incarnation:
    """A topic of the name, from its creation to its end."""

    number: int
    ends: list[int] = field(default_factory=lambda: [0])
    epoch: int = 0

    @property
    def topic_id(self) -> str:
        return f"id-{self.number}"


class LyingCluster:
    """Stands in for `Cluster`: one topic, and lies that are told for some looks."""

    def __init__(self, *, has_ids: bool) -> None:
        self._has_ids = has_ids
        self.incarnations = [Incarnation(0)]
        self.topic: Incarnation | None = self.incarnations[0]
        self.hidden: dict[int, int] = {}  # partition: for how many looks
        self.lower: dict[int, list[int]] = {}  # partition: for how many looks, by how much

    # -- what happens to it --------------------------------------------------------------

    def grow(self, partition: int, count: int) -> None:
        if self.topic is not None:
            self.topic.ends[partition % len(self.topic.ends)] += count

    def add_partition(self) -> None:
        if self.topic is not None:
            self.topic.ends.append(0)

    def delete(self) -> None:
        self.topic = None
        self.heal()

    def make_anew(self, count: int) -> None:
        self.heal()
        self.topic = Incarnation(len(self.incarnations), [count])
        self.incarnations.append(self.topic)

    def hide(self, partition: int, looks: int) -> None:
        self.hidden[partition] = looks

    def lie(self, partition: int, looks: int, by: int) -> None:
        """A leader that was just elected, or thinks that it still is one, knows less."""
        if self.topic is not None:
            self.topic.epoch += 1
            self.lower[partition] = [looks, by]

    def heal(self) -> None:
        self.hidden.clear()
        self.lower.clear()

    # -- what the reader asks ------------------------------------------------------------

    def partitions(self) -> dict[TopicPartition, LogIdentity]:
        if self.topic is None:
            raise UnknownTopic("t", ErrorCode.unknown_topic_or_partition)
        topic_id = self.topic.topic_id if self._has_ids else None
        return {
            TopicPartition("t", each): LogIdentity(topic_id, self.topic.epoch)
            for each in range(len(self.topic.ends))
        }

    def logs(
        self, *, expected: Collection[TopicPartition], may_be_missing: bool = False
    ) -> dict[TopicPartition, LogView]:
        if self.topic is None:
            return {}
        shown = {
            key: LogView(*identity, self._end_of(key.partition))
            for key, identity in self.partitions().items()
            if not self.hidden.get(key.partition)
        }
        self.hidden = {key: looks - 1 for key, looks in self.hidden.items() if looks > 1}
        self.lower = {key: [each - 1, by] for key, (each, by) in self.lower.items() if each > 1}
        return shown

    def high_watermarks(self, at_least: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        assert self.topic is not None
        return {key: self.topic.ends[key.partition] for key in at_least}

    def _end_of(self, partition: int) -> int:
        assert self.topic is not None
        _, by = self.lower.get(partition, (0, 0))
        return max(0, self.topic.ends[partition] - by)

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def density(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, float]:
        return dict.fromkeys(partitions, 10.0)

    def densities(self, ranges: Collection[PlannedRange]) -> dict[TopicPartition, Density]:
        return {each.key: Density.mean(10.0) for each in ranges}

    densities_now = densities

    def reads(self, key: TopicPartition) -> bool:
        return True

    def is_deleted(self, topic_id: str) -> bool:
        return self.topic is None or topic_id != self.topic.topic_id

    def missing(
        self, requested: Collection[TopicPartition], topic_ids: Mapping[str, str | None]
    ) -> set[TopicPartition]:
        return set(requested) - (self.partitions().keys() if self.topic else set())

    def resolve(
        self, limit: OffsetLimit, side: str, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        assert limit.value in (EARLIEST, LATEST)
        starts_at_end = limit.value == LATEST
        return {key: self._end_of(key.partition) if starts_at_end else 0 for key in partitions}

    # -- what tasks read -----------------------------------------------------------------

    def read(self, requested: PlannedRange, *, fail: bool) -> list[Record]:
        topic = self.topic
        ends = [] if topic is None else topic.ends
        if requested.partition < len(ends) and requested.end_offset <= ends[requested.partition]:
            offsets = range(requested.start_offset, requested.end_offset)
            return [(topic.number, requested.partition, offset) for offset in offsets]
        if requested.topic_id is None or not self.is_deleted(requested.topic_id):
            raise ReadFailed("not there, and not proven gone")
        if fail:
            raise DataLoss("the topic was deleted")
        return []


def there(cluster: LyingCluster) -> list[Record]:
    """The records of the topic that is there."""
    if cluster.topic is None:
        return []
    return [
        (cluster.topic.number, partition, offset)
        for partition, end in enumerate(cluster.topic.ends)
        for offset in range(end)
    ]
