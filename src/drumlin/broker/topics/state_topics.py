"""The internal topics in which coordinators keep their state, in the form that coordinators use."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from drumlin.broker.parts.parts import BrokerData
from drumlin.broker.topics.topics import create_automatically
from drumlin.coordination.shards.state_topic import StateTopic


def state_topic(broker: BrokerData, name: str) -> StateTopic:
    """The topic of that name, which may not exist yet."""

    def read_batches(partition: int) -> Iterable[bytes]:
        return broker.partitions.get(name, partition).batches()

    def partition_count() -> int | None:
        topic = broker.metadata.image.topics.get(name)
        return None if topic is None else len(topic.partitions)

    async def create() -> None:
        await create_automatically(broker, name)

    find = partial(broker.partitions.get, name)  # called for each append: no wrapper
    return StateTopic(name, find, read_batches, partition_count, create)


class StateLogs:
    """The start and end offsets of an internal topic's logs, for a coordinator that deletes records
    itself.
    """

    def __init__(self, broker: BrokerData, name: str) -> None:
        self._broker = broker
        self._name = name

    def end_offset(self, partition: int) -> int:
        return self._broker.partitions.get(self._name, partition).log_end_offset

    def delete_before(self, partition: int, offset: int) -> None:
        self._broker.partitions.get(self._name, partition).delete_records_before(offset)
