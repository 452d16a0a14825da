"""What a batch query and a micro-batch plan alike on the driver: two sets of offsets become tasks.

Plans are small values that Spark pickles for each task: topics, partitions, offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql.datasource import InputPartition

from drumlin.spark.cluster import Cluster
from drumlin.spark.data_loss import report_data_loss
from drumlin.spark.offsets import TopicPartition
from drumlin.spark.options import SourceOptions
from drumlin.spark.packing import pack_ranges
from drumlin.spark.planning import OffsetRange, split_ranges

#: Ranges this small are not worth a question about the sizes of partitions.
_SMALL_RANGE: Final = 10_000


def plan_tasks(
    cluster: Cluster,
    options: SourceOptions,
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    topic_ids: Mapping[str, str | None],
) -> list[InputPartition]:
    """One `InputPartition` for each task, its value a tuple of the `OffsetRange`s to read.

    Raises:
        DataLoss: a partition ends before it starts, so it has lost records, and the query is to
            fail then.
    """
    ranges = []
    for key, end_offset in sorted(end.items()):
        if end_offset < start[key]:
            report_data_loss(
                f"{key} ends at offset {end_offset} and was to be read from {start[key]} on",
                fail=options.fail_on_data_loss,
            )
        topic_id = topic_ids.get(key.topic)
        ranges.append(OffsetRange(key.topic, key.partition, start[key], end_offset, topic_id))
    rule = options.split_rule
    large = [
        TopicPartition(each.topic, each.partition) for each in ranges if each.size > _SMALL_RANGE
    ]
    density = cluster.density(large) if rule.by_size and large else {}
    pieces = split_ranges(ranges, rule, density)
    tasks = pack_ranges(pieces) if rule.by_size else [(each,) for each in pieces]
    return [InputPartition(each) for each in tasks]
