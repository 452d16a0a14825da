"""The first start offset of a share group in a partition.

`share.auto.offset.reset` is `earliest`, `latest`, or `by_duration:` with an ISO 8601 duration: the
first record that is not older than the duration.
"""

from __future__ import annotations

from typing import Final

from drumlin.broker.parts.parts import BrokerData
from drumlin.config.durations import duration_ms
from drumlin.replication.partition import Partition

_BY_DURATION: Final = "by_duration:"


async def first_start_offset(broker: BrokerData, partition: Partition, reset: str) -> int:
    """The current offset for a value of `share.auto.offset.reset`.

    Raises:
        KafkaError: KAFKA_STORAGE_ERROR.
    """
    if reset == "earliest":
        return partition.log_start_offset
    if reset.startswith(_BY_DURATION):
        since_ms = broker.clock.wall_ms() - duration_ms(reset.removeprefix(_BY_DURATION))
        found = await broker.threads.reading(partition.offset_for_timestamp, since_ms)
        if found is not None:
            return int(found.offset)
    return partition.high_watermark
