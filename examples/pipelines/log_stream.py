"""A topic as a stream that begins where a result ends, whatever became of its checkpoint.

A result that is written together with its position needs no checkpoint to be exact: what it holds
is left out. The checkpoint only tells Spark where to begin.

A position means something in one topic only. A name is not enough for that, as a topic may be
deleted and created again: so a result keeps the topic's id beside its position.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from session import Cluster

#: The first offset of each partition that a result does not hold yet.
Position = Mapping[int, int]

_EARLIEST = -2


class Source(NamedTuple):
    """A topic, and which one of that name; "" where brokers know no ids."""

    topic: str
    topic_id: str
    partitions: tuple[int, ...]


class OtherTopic(RuntimeError):
    """A result is of another topic than the one that is to be loaded."""


def look_up(cluster: Cluster, topic: str) -> Source:
    """The topic of that name, as it is now."""
    with cluster.connect() as client:
        found = client.describe_topics([topic])[topic]
    numbers = tuple(sorted(each.index for each in found.partitions))
    return Source(topic, found.topic_id or "", numbers)


def check(result: str, topic: str | None, topic_id: str | None, now: Source, advice: str) -> None:
    """
    Raises:
        OtherTopic: `result` has a position in a topic that is not the one of now.
    """
    if (topic, topic_id) != (now.topic, now.topic_id):
        raise OtherTopic(
            f"{result} is of topic {topic!r} with the id {topic_id!r}, and this is topic "
            f"{now.topic!r} with the id {now.topic_id!r}: it is another one, or was deleted and "
            f"created again. Nothing was loaded. {advice}"
        )


def source_options(
    source: Source, position: Position, columns: str, batch_offsets: int
) -> dict[str, str]:
    """Options for a stream that begins there, at the beginning of partitions without a position.

    Args:
        batch_offsets: how many offsets a micro-batch takes.
    """
    starts = dict.fromkeys(source.partitions, _EARLIEST)
    return {
        "startingOffsets": json.dumps({source.topic: starts | dict(position)}),
        "checkpointTopicIds": "true",
        "maxOffsetsPerTrigger": str(batch_offsets),
        "kafka.isolation.level": "read_committed",
        "columns": columns,
    }


def read(
    spark: SparkSession, cluster: Cluster, topic: str, options: Mapping[str, str]
) -> DataFrame:
    """The stream."""
    where = {"kafka.bootstrap.servers": cluster.brokers, "subscribe": topic}
    return spark.readStream.format("drumlin").options(**where, **cluster.options, **options).load()


def run(stream: DataFrame, checkpoint: str, add: Callable[[DataFrame], None]) -> None:
    """Hand over all that is in the log now, micro-batch by micro-batch, and return."""
    query = (
        stream.writeStream.foreachBatch(lambda batch, _: add(batch))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
