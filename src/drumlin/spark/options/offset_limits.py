"""Where a query starts and ends, from its options: a word, an offset or a timestamp.

Each can be given for all partitions, for a topic or for a partition. This module never resolves
words and timestamps to offsets: only the cluster can.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from drumlin.spark.options.offsets import (
    EARLIEST,
    WORDS,
    OffsetLimit,
    TopicPartition,
    parse_offsets,
    parse_times,
)
from drumlin.spark.options.option_values import OptionError, parsed, whole_number

Side = Literal["starting", "ending"]


def limit_of(options: Mapping[str, str], side: Side) -> OffsetLimit | None:
    """The limit on this side. One timestamp for all comes first, then timestamps, then offsets."""
    text = options.get(f"{side}timestamp")
    if text is not None:
        return OffsetLimit(parsed(f"{side}Timestamp", text, time_ms), is_timestamp=True)
    text = options.get(f"{side}offsetsbytimestamp")
    if text is not None:
        times = parsed(f"{side}OffsetsByTimestamp", text, parse_times)
        return OffsetLimit(times, is_timestamp=True)
    text = options.get(f"{side}offsets")
    if text is None:
        return None
    word = WORDS.get(text.strip().lower())
    return OffsetLimit(word) if word is not None else parsed(f"{side}Offsets", text, parse_offsets)


def check_order(starting: OffsetLimit, ending: OffsetLimit) -> None:
    """Check that a batch does not start after its end, as far as the options alone show that.

    Raises:
        OptionError: it does, whatever the topics hold; or start and end name different partitions.
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


def time_ms(text: str) -> int:
    """Milliseconds since 1970, as a user wrote them.

    Raises:
        ValueError: it is no such number.
    """
    milliseconds = whole_number(text)
    if milliseconds < 0:
        raise ValueError(f"milliseconds since 1970 are not negative: {milliseconds}")
    return milliseconds
