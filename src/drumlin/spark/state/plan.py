"""Plans on the driver how a state is read: its tasks, and the number of reducers.

Nothing may need the whole state in one place: the number of reducers grows with the log.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from drumlin.spark.connection import client_of
from drumlin.spark.options.offsets import LATEST, OffsetLimit, TopicPartition
from drumlin.spark.options.option_values import OptionError
from drumlin.spark.options.portable import Portable
from drumlin.spark.options.ranges import PlannedRange
from drumlin.spark.planning.cluster import Cluster
from drumlin.spark.planning.data_loss import DataLoss
from drumlin.spark.planning.driver import plan_tasks
from drumlin.spark.state.moment import end_offsets
from drumlin.spark.state.options import StateOptions

if TYPE_CHECKING:  # too costly for a session that only looks for data sources
    from drumlin.lowlevel import Claims

#: How much of the log one reducer gets, before tasks have reduced it.
_REDUCER_BYTES: Final = 48 << 20
#: Spark's shuffle keeps figures for each pair of a task and a reducer.
_REDUCERS_MAX: Final = 20_000
#: The size of a record if no broker reports it.
_UNKNOWN_BYTES_PER_OFFSET: Final = 200.0


@dataclass(frozen=True, slots=True)
class StatePlan(Portable):
    """The log up to a moment, divided among tasks."""

    tasks: tuple[tuple[PlannedRange, ...], ...]
    end: Mapping[TopicPartition, int]
    claims: Claims  # why the state of that moment, or of the changes' start, is exact
    since: Mapping[int, int]  # for changes, where they begin in each partition; else empty
    size_bytes: float
    refusal: str | None = None  # why the state must not be used after all


def plan_state(
    options: StateOptions, moment: OffsetLimit, since: OffsetLimit | None = None
) -> StatePlan:
    """Plan the state at a moment, or the changes from `since` to that moment.

    Raises:
        OptionError: the moments do not fit the topic, or each other.
        DataLoss: a moment lies outside of the log.
        StateNotExact: the log no longer gives the state of the first moment.
    """
    from drumlin import lowlevel

    cluster = Cluster(options.source)
    logs = cluster.partitions()
    # In this order: a log that advances in between never seems to start after its end.
    start = cluster.earliest(logs)
    begin = {} if since is None else end_offsets(cluster, since, logs)
    end = end_offsets(cluster, moment, logs)
    _check_since(begin, start, end)
    claims = lowlevel.claim_states(
        client_of(options.source),
        begin or end,
        is_now=since is None and moment.value == LATEST,
        allow_inexact=options.allow_inexact,
    )
    topic_ids = {key.topic: log.topic_id for key, log in logs.items()}
    planned = plan_tasks(cluster, options.source, start, end, topic_ids)
    tasks = tuple(each.value for each in planned)
    size_bytes = _size_bytes(cluster, [each for task in tasks for each in task])
    since_offsets = {key.partition: offset for key, offset in begin.items()}
    return StatePlan(tasks, end, claims, since_offsets, size_bytes)


def plan_refusal(options: StateOptions, moment: OffsetLimit, why: str) -> StatePlan:
    """A plan of that moment that reads nothing: an attempt to read its rows raises `why`.

    Raises:
        OptionError, DataLoss: as `plan_state`, except for a moment before the log's start.
    """
    cluster = Cluster(options.source)
    end = end_offsets(cluster, moment, cluster.partitions())
    return StatePlan((), end, {}, {}, 0.0, why)


def _check_since(
    since: Mapping[TopicPartition, int],
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
) -> None:
    for key, offset in since.items():
        if offset > end[key]:
            raise OptionError(f"{key}: changes would start at {offset}, after their end {end[key]}")
        if offset < start[key]:
            raise DataLoss(
                f"the log of {key} starts at {start[key]}: changes from {offset} on are gone"
            )


def reducer_count(options: StateOptions, size_bytes: float, cores: int) -> int:
    """The number of reducers for a log of this size."""
    if options.reducers is not None:
        return options.reducers
    return max(1, cores, min(_REDUCERS_MAX, math.ceil(size_bytes / _REDUCER_BYTES)))


def _size_bytes(cluster: Cluster, ranges: Sequence[PlannedRange]) -> float:
    means = cluster.density(_unsized(ranges))
    return sum(
        each.size * means.get(each.key, _UNKNOWN_BYTES_PER_OFFSET)
        if each.size_bytes is None
        else each.size_bytes
        for each in ranges
    )


def _unsized(ranges: Iterable[PlannedRange]) -> set[TopicPartition]:
    return {each.key for each in ranges if each.size_bytes is None}
