"""A moment of a log, as users write it, and the end offsets that it stands for.

The state of that moment follows from the records below these offsets. A time means the log up to
its first later record.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, TypeAlias

from drumlin.client.places import Milliseconds, last_ms
from drumlin.spark.options.offsets import LATEST, WORDS, OffsetLimit, TopicPartition, parse_offsets
from drumlin.spark.options.option_values import OptionError, parsed, time_ms
from drumlin.spark.planning.cluster import Cluster
from drumlin.spark.planning.driver import within_logs

#: None: now. A map: offsets of one topic by partition,
#: or by topic and partition. Text: `earliest`, `latest`, milliseconds, or offsets in JSON.
Moment: TypeAlias = (
    "datetime | Milliseconds | str | Mapping[int, int] | Mapping[str, Mapping[int, int]] | None"
)


def limit_of(moment: Moment, topic: str, name: str) -> OffsetLimit:
    """The limit of the log at that moment, not yet resolved by a broker; `name` is the option's.

    Raises:
        OptionError: the value is not a moment, or is one of another topic.
    """
    if moment is None:
        return OffsetLimit(LATEST)
    if isinstance(moment, str):
        return _limit_of_text(moment.strip(), name)
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise OptionError(f"{name}: {moment} has no time zone, so its moment is unknown")
        return _after(last_ms(moment), name)
    if isinstance(moment, Mapping):
        return OffsetLimit(_offsets(moment, topic, name))
    if isinstance(moment, Milliseconds):
        return _after(moment.since_epoch, name)
    reason = "; an int is an offset, not a time" if isinstance(moment, int) else ""
    raise OptionError(
        f"{name} must be a datetime, Milliseconds or offsets by partition, not {moment!r}{reason}"
    )


def end_offsets(
    cluster: Cluster, limit: OffsetLimit, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """The end offset of each of the topic's partitions at the moment of `limit`.

    Raises:
        OptionError: the limit names other partitions.
        DataLoss: an offset lies beyond the end of the log.
    """
    if limit.is_timestamp:
        assert isinstance(limit.value, int)
        return cluster.ends_at(limit.value - 1, partitions)
    requested = cluster.resolve(limit, "ending", partitions)
    if not isinstance(limit.value, Mapping):
        return requested
    return within_logs(cluster, requested, fail_on_data_loss=True)


def _limit_of_text(text: str, name: str) -> OffsetLimit:
    if text.lower() in WORDS:
        return OffsetLimit(WORDS[text.lower()])
    if text.startswith("{"):
        return parsed(name, text, parse_offsets)
    return _after(parsed(name, text, time_ms), name)


def _after(milliseconds: int, name: str) -> OffsetLimit:
    """The first record after this time."""
    return OffsetLimit(parsed(name, str(milliseconds), time_ms) + 1, is_timestamp=True)


def _offsets(moment: Mapping[Any, Any], topic: str, name: str) -> dict[TopicPartition, int]:
    by_topic = moment if all(isinstance(key, str) for key in moment) else {topic: moment}
    try:
        found = {
            TopicPartition(each, int(partition)): offset
            for each, offsets in by_topic.items()
            for partition, offset in offsets.items()
        }
    except (AttributeError, TypeError, ValueError):
        found = {}
    if not found or not all(type(each) is int and each >= 0 for each in found.values()):
        raise OptionError(f"{name}: expected offsets such as {{0: 100, 1: 200}}, not {moment!r}")
    return found
