"""A topic as a stream that begins where a result ends, whatever became of its checkpoint.

A result that is written together with its position needs no checkpoint to be exact: what it holds
is left out. The checkpoint only tells Spark where to begin.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame, SparkSession

import drumlin

#: The first offset of each partition that a result does not hold yet.
Position = Mapping[int, int]

_EARLIEST = -2


def source_options(
    brokers: str, topic: str, position: Position, columns: str, batch_offsets: int
) -> dict[str, str]:
    """Options for a stream that begins there, at the beginning of partitions without a position.

    Args:
        batch_offsets: how many offsets a micro-batch takes.
    """
    with drumlin.connect(brokers) as client:
        starts = dict.fromkeys(client.partitions(topic), _EARLIEST)
    return {
        "startingOffsets": json.dumps({topic: starts | dict(position)}),
        "maxOffsetsPerTrigger": str(batch_offsets),
        "kafka.isolation.level": "read_committed",
        "columns": columns,
    }


def read(spark: SparkSession, brokers: str, topic: str, options: Mapping[str, str]) -> DataFrame:
    """The stream."""
    where = {"kafka.bootstrap.servers": brokers, "subscribe": topic}
    return spark.readStream.format("drumlin").options(**where, **options).load()


def run(stream: DataFrame, checkpoint: str, add: Callable[[DataFrame], None]) -> None:
    """Hand over all that is in the log now, micro-batch by micro-batch, and return."""
    query = (
        stream.writeStream.foreachBatch(lambda batch, _: add(batch))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def beyond(batch: DataFrame, position: Position) -> DataFrame:
    """The records of a batch that a result at this position does not hold yet."""
    for partition, offset in position.items():
        batch = batch.where(f"partition <> {partition} OR offset >= {offset}")
    return batch
