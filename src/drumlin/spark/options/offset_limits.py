"""The start and end of a query, from its options: words, offsets or timestamps.

Each of these can be given for all partitions, for a topic or for a partition. This module never
resolves words and timestamps to offsets: only the cluster can.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from drumlin.spark.options import source_rows as rows
from drumlin.spark.options.offsets import EARLIEST, OffsetLimit, TopicPartition
from drumlin.spark.options.option_values import OptionError

Side = Literal["starting", "ending"]


def limit_of(options: Mapping[str, str], side: Side) -> OffsetLimit | None:
    """The limit on this side. A timestamp for all overrides single ones, which override offsets."""
    is_start = side == "starting"
    one = (rows.STARTING_TIMESTAMP if is_start else rows.ENDING_TIMESTAMP).find(options)
    if one is not None:
        return OffsetLimit(one, is_timestamp=True)
    each = (
        rows.STARTING_OFFSETS_BY_TIMESTAMP if is_start else rows.ENDING_OFFSETS_BY_TIMESTAMP
    ).find(options)
    if each is not None:
        return OffsetLimit(each, is_timestamp=True)
    return (rows.STARTING_OFFSETS if is_start else rows.ENDING_OFFSETS).find(options)


def check_order(starting: OffsetLimit, ending: OffsetLimit) -> None:
    """Check that a batch does not start after its end, as far as the options alone show that.

    Raises:
        OptionError: the start is after the end in any log; or both name different partitions.
    """
    if starting.is_timestamp != ending.is_timestamp:
        return
    if isinstance(starting.value, int) or isinstance(ending.value, int):
        return  # cannot be known before the cluster has been asked
    if starting.topics or ending.topics:
        _check_pairs(starting.value, ending.value)
        return
    if starting.value.keys() != ending.value.keys():
        raise OptionError("starting and ending offsets name different topic-partitions")
    _check_pairs(starting.value, ending.value)


def _check_pairs(
    starting: Mapping[TopicPartition, int], ending: Mapping[TopicPartition, int]
) -> None:
    for key, start in starting.items():
        end = ending.get(key, EARLIEST)
        if start >= 0 and 0 <= end < start:
            raise OptionError(f"{key} starts at {start}, after its end {end}")
