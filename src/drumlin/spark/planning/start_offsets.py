"""The offsets at which a query starts: its start, resolved by the cluster.

A stream keeps the result in its checkpoint, and nothing is resolved again. So records that arrive
while it is resolved must not lie before it, unless they were asked to.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection

from drumlin.spark.options.offsets import EARLIEST, LATEST, OffsetLimit, TopicPartition
from drumlin.spark.options.option_values import OptionError
from drumlin.spark.options.starts import GroupStart, LastOffsets, Start, TimeAgo
from drumlin.spark.planning.cluster import Cluster

_logger = logging.getLogger(__name__)

Offsets = dict[TopicPartition, int]


def start_offsets(
    cluster: Cluster, start: Start, partitions: Collection[TopicPartition]
) -> Offsets:
    """The offsets at which `start` has these partitions begin, as the cluster is now.

    Raises:
        OptionError: the start names other partitions, or a group without offsets of these; or no
            record is at or after a timestamp.
    """
    match start:
        case GroupStart(group):
            return _committed(cluster, group, partitions)
        case TimeAgo(duration_ms):
            since_ms = max(0, time.time_ns() // 1_000_000 - duration_ms)
            limit = OffsetLimit(since_ms, is_timestamp=True)
            return cluster.resolve(limit, "starting", partitions, no_match_is_latest=True)
        case LastOffsets(count):
            ends = cluster.resolve(OffsetLimit(LATEST), "starting", partitions)
            first = cluster.earliest(partitions)
            return {key: max(ends[key] - count, first[key]) for key in partitions}
        case limit:
            return cluster.resolve(limit, "starting", partitions)


def depends_on_the_moment(start: Start, *, no_match_is_latest: bool) -> bool:
    """Whether a start that is resolved again may be another one."""
    if not isinstance(start, OffsetLimit):
        return True
    return no_match_is_latest if start.is_timestamp else LATEST in start.values()


def _committed(cluster: Cluster, group: str, partitions: Collection[TopicPartition]) -> Offsets:
    """A group's offsets; a partition without one begins with its first record.

    So nothing is left out that the group has not read.
    """
    committed = cluster.committed(group)
    found = {key: committed[key] for key in partitions if key in committed}
    missing = sorted(partitions - found.keys())
    if missing and not found:
        raise OptionError(
            f"option 'startingOffsets': group {group!r} has committed no offset of "
            f"{', '.join(map(str, missing))}"
        )
    if missing:
        _logger.warning(
            "group %r has committed no offset of %s: read from the first record on",
            group,
            ", ".join(map(str, missing)),
        )
    return found | cluster.resolve(OffsetLimit(EARLIEST), "starting", missing)
