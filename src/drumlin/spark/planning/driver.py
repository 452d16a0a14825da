"""Turns start and end offsets into tasks on the driver, for batch queries and micro-batches.

Plans are small values that Spark pickles for each task: topics, partitions, offsets.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.datasource import InputPartition

from drumlin.spark.options.offsets import TopicPartition
from drumlin.spark.options.options import SourceOptions
from drumlin.spark.options.ranges import PlannedRange, limit_rows, split_by_rule
from drumlin.spark.planning.cluster import Cluster
from drumlin.spark.planning.data_loss import report_data_loss
from drumlin.spark.planning.density import Density, limit_bytes, split_by_bytes
from drumlin.spark.planning.packed_ranges import pack_ranges


def plan_tasks(
    cluster: Cluster,
    options: SourceOptions,
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    topic_ids: Mapping[str, str | None],
) -> list[InputPartition]:
    """One `InputPartition` for each task, its value a tuple of the `PlannedRange`s to read.

    Raises:
        DataLoss: a partition ends before its start, so records were lost, and `failOnDataLoss` is
            set.
    """
    ranges = []
    for key, end_offset in sorted(end.items()):
        if end_offset < start[key]:
            report_data_loss(
                f"{key} ends at offset {end_offset}, but was to be read from {start[key]} on",
                fail=options.fail_on_data_loss,
            )
        topic_id = topic_ids.get(key.topic)
        ranges.append(PlannedRange(key.topic, key.partition, start[key], end_offset, topic_id))
    rule = options.split_rule
    if not rule.by_size:
        return [InputPartition((each,)) for each in split_by_rule(ranges, rule)]
    pieces = split_by_bytes(ranges, cluster.densities(ranges))
    return [InputPartition(each) for each in pack_ranges(pieces)]


def within_logs(
    cluster: Cluster, requested: Mapping[TopicPartition, int], *, fail_on_data_loss: bool
) -> dict[TopicPartition, int]:
    """Report at once that a log is too short, before every task waits in vain.

    Raises:
        DataLoss: a log is too short, and `fail_on_data_loss` is set.
    """
    there = cluster.high_watermarks(at_least=requested)
    for key, end_offset in requested.items():
        if end_offset > there[key]:
            report_data_loss(
                f"{key} ends at offset {there[key]}, before {end_offset}", fail=fail_on_data_loss
            )
    return {key: min(end_offset, there[key]) for key, end_offset in requested.items()}


def limit_trigger(
    cluster: Cluster,
    options: SourceOptions,
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
) -> Mapping[TopicPartition, int]:
    """The end offsets of a micro-batch, within every limit that the options set.

    The limit of bytes holds approximately: the mean density of a log says how far to sample, and
    the samples say how far to go. Spark journals the result, so that a batch is repeated unchanged.
    """
    if options.max_offsets_per_trigger is not None:
        end = limit_rows(start, end, options.max_offsets_per_trigger)
    max_bytes = options.max_bytes_per_trigger
    if max_bytes is None:
        return end
    waiting = [key for key, offset in end.items() if offset > start[key]]
    means = cluster.density(waiting)
    end = limit_bytes(start, end, max_bytes, {key: Density.mean(means[key]) for key in means})
    ranges = [PlannedRange(key.topic, key.partition, start[key], end[key]) for key in waiting]
    return limit_bytes(start, end, max_bytes, cluster.densities_now(ranges))
