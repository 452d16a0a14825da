"""The internal topics in which coordinators keep their state, as the coordinators see them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from drumlin.broker.topics import create_automatically
from drumlin.coordination.state_topic import Confirmation, StateTopic
from drumlin.records.errors import CorruptRecord
from drumlin.records.walk import end_of_batches

if TYPE_CHECKING:
    from drumlin.broker.parts import BrokerData
    from drumlin.storage.partition_log import PartitionLog

_READ_BYTES: Final = 1 << 20


def state_topic(broker: BrokerData, name: str) -> StateTopic:
    """The topic of that name, there or to be created."""

    def flush(partition: int) -> Confirmation:
        """A decision must be durable before it is answered, or written to other logs."""
        return broker.flushes.flush(broker.partitions.get(name, partition))

    def read_batches(partition: int) -> Iterable[bytes]:
        return batches_of(broker.partitions.get(name, partition).log)

    def batch_bytes_max(partition: int) -> int:
        config = broker.partitions.get(name, partition).config
        return min(config.max_message_bytes, config.segment_bytes)

    def partition_count() -> int | None:
        topic = broker.metadata.image.topics.get(name)
        return None if topic is None else len(topic.partitions)

    async def create() -> None:
        await create_automatically(broker, name)

    find = partial(broker.partitions.get, name)  # for each append: no function around it
    return StateTopic(name, find, flush, read_batches, batch_bytes_max, partition_count, create)


class StateLogs:
    """The ends of an internal topic's logs, for a coordinator that deletes records itself."""

    def __init__(self, broker: BrokerData, name: str) -> None:
        self._broker = broker
        self._name = name

    def end_offset(self, partition: int) -> int:
        return self._broker.partitions.get(self._name, partition).log_end_offset

    def delete_before(self, partition: int, offset: int) -> None:
        self._broker.partitions.get(self._name, partition).delete_records_before(offset)


def batches_of(log: PartitionLog) -> Iterator[bytes]:
    """All whole batches of a log, in pieces. Blocks.

    Raises:
        CorruptRecord: no whole batch is where one should be, or one does not follow the one before
            it: there would be no end.
        KafkaError: the log cannot be read, or not as batches.
    """
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        result = log.read(offset, _READ_BYTES, log.log_end_offset, minimum_one_batch=True)
        if not result.slices:
            return
        piece = result.slices[0]
        try:
            data = piece.read()
        except OSError as error:
            raise log.log_directory.fail_log(error, f"read {log.name}") from error
        finally:
            piece.release()
        beginning = offset
        offset, is_behind = end_of_batches(data, offset)
        if not is_behind:
            raise CorruptRecord(f"{log.name}: after {offset}, a batch that ends before it")
        if offset == beginning:
            raise CorruptRecord(f"{log.name}: no batch begins at offset {offset}")
        yield data
