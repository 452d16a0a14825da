"""The start and end of a query, from its options: words, offsets, timestamps and others.

Each of these can be given for all partitions, for a topic or for a partition. This module never
resolves words and timestamps to offsets: only the cluster can.
"""

from __future__ import annotations

from collections.abc import Mapping

from drumlin.spark.options import source_rows as rows
from drumlin.spark.options.offsets import EARLIEST, OffsetLimit, TopicPartition
from drumlin.spark.options.option import Option
from drumlin.spark.options.option_values import OptionError
from drumlin.spark.options.starts import Start


def start_of(options: Mapping[str, str]) -> Start | None:
    """The start. A timestamp for all overrides single ones, which override offsets."""
    by_time = _time_of(options, rows.STARTING_TIMESTAMP, rows.STARTING_OFFSETS_BY_TIMESTAMP)
    return by_time or rows.STARTING_OFFSETS.find(options)


def end_of(options: Mapping[str, str]) -> OffsetLimit | None:
    """The end, by the same rule."""
    by_time = _time_of(options, rows.ENDING_TIMESTAMP, rows.ENDING_OFFSETS_BY_TIMESTAMP)
    return by_time or rows.ENDING_OFFSETS.find(options)


def _time_of(
    options: Mapping[str, str],
    of_all: Option[int],
    of_each: Option[dict[TopicPartition, int]],
) -> OffsetLimit | None:
    found = of_all.find(options)
    times = of_each.find(options) if found is None else found
    return None if times is None else OffsetLimit(times, is_timestamp=True)


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
