"""Topic-partitions and their offsets, as values and as the JSON that Spark's Kafka source uses.

The JSON form `{"topic": {"0": 123}}` is what users write in options and what a streaming query
keeps in its checkpoint; Spark calls one such object an offset. The form must never change: old
checkpoints must stay readable. If a query asks for it (`checkpointTopicIds`), the ids of the topics
are stored with the offsets, under a name that no topic can have.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from drumlin.client.topic_partition import TopicPartition as TopicPartition
from drumlin.spark.options.portable import Portable

LATEST: Final = -1
EARLIEST: Final = -2
#: The words that users may write for these offsets.
WORDS: Final = {"earliest": EARLIEST, "latest": LATEST}

#: The largest values of the protocol. No log reaches them: a larger number is a typing error.
_INT64_MAX: Final = 2**63 - 1
_INT32_MAX: Final = 2**31 - 1


#: The key in a checkpoint, next to the names of topics.
_TOPIC_IDS: Final = "topic ids"


@dataclass(frozen=True, slots=True)
class OffsetLimit(Portable):
    """The start or end of a read: one value for all partitions, or one for each.

    A value is an offset (`EARLIEST` and `LATEST` included) or, if `is_timestamp`, milliseconds
    since the Unix epoch, which stand for the first record that is not older. `topics` holds
    values for whole topics.
    """

    value: int | Mapping[TopicPartition, int]
    is_timestamp: bool = False
    topics: Mapping[str, int] = field(default_factory=dict)

    def values(self) -> list[int]:
        if isinstance(self.value, int):
            return [self.value]
        return [*self.value.values(), *self.topics.values()]

    def for_partitions(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int] | None:
        """The value for each partition; None if the limit names others, or too few."""
        if isinstance(self.value, int):
            return dict.fromkeys(partitions, self.value)
        named = {key: self.topics[key.topic] for key in partitions if key.topic in self.topics}
        known_topics = {key.topic for key in named}
        named |= self.value
        return (
            named
            if named.keys() == set(partitions) and known_topics >= self.topics.keys()
            else None
        )

    def names(self) -> list[str]:
        """The topics and partitions that the limit names, for messages."""
        keys = () if isinstance(self.value, int) else self.value
        return sorted([*self.topics, *map(str, keys)])


def to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """The checkpoint's form, sorted, so that equal offsets give equal text."""
    form: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(offsets):
        form.setdefault(topic, {})[str(partition)] = offsets[TopicPartition(topic, partition)]
    return form


def from_json(form: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    """The inverse of `to_json`.

    Raises:
        ValueError: the value has another form.
    """
    if not isinstance(form, Mapping):
        raise ValueError(f"not a map of topics: {form!r}")
    return {
        TopicPartition(topic, int(partition)): _integer(value)
        for topic, partitions in form.items()
        for partition, value in dict(partitions).items()
    }


def with_topic_ids(form: Mapping[str, Any], topic_ids: Mapping[str, str | None]) -> dict[str, Any]:
    """The checkpoint's form, with the ids of its topics if brokers have them."""
    known = {topic: found for topic in form if (found := topic_ids.get(topic)) is not None}
    return {**form, _TOPIC_IDS: known} if known else dict(form)


def without_topic_ids(form: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The inverse of `with_topic_ids`: the checkpoint's offsets, and its topic ids."""
    offsets = dict(form)
    return offsets, offsets.pop(_TOPIC_IDS, {})


def parse_offsets(text: str) -> OffsetLimit:
    """Offsets that a user wrote as JSON; for a whole topic, a word may replace them.

    Raises:
        ValueError: the text has another form.
    """
    example = '{"topicA":{"0":23,"1":-1},"topicB":"earliest"}'
    form = _json_object(text, example)
    topics = {key: WORDS[word] for key, word in form.items() if word in ("earliest", "latest")}
    offsets = _by_partition({key: form[key] for key in form.keys() - topics.keys()}, text, example)
    for key, offset in offsets.items():
        if offset < EARLIEST:
            raise ValueError(
                f"{key}: {offset} is not an offset; the only negative ones are {LATEST}, the "
                f"latest, and {EARLIEST}, the earliest"
            )
        if offset > _INT64_MAX:
            raise ValueError(f"{key}: {offset} is not an offset; the largest is {_INT64_MAX}")
    return OffsetLimit(offsets, topics=topics)


def parse_times(text: str) -> dict[TopicPartition, int]:
    """Timestamps that a user wrote as JSON.

    Raises:
        ValueError: the text has another form, or a time is before 1970.
    """
    example = '{"topicA":{"0":1357020000000,"1":1357020000000}}'
    times = _by_partition(_json_object(text, example), text, example)
    for key, milliseconds in times.items():
        if milliseconds < 0:
            raise ValueError(f"{key}: milliseconds since 1970 must not be negative: {milliseconds}")
        if milliseconds > _INT64_MAX:
            raise ValueError(f"{key}: {milliseconds} milliseconds are more than {_INT64_MAX}")
    return times


def parse_partitions(text: str) -> tuple[TopicPartition, ...]:
    """Topic-partitions that a user wrote as JSON: `{"topicA": [0, 1]}`.

    Raises:
        ValueError: the text has another form, or a number that no partition can have.
    """
    try:
        assigned = tuple(
            TopicPartition(topic, _integer(partition))
            for topic, partitions in json.loads(text).items()
            for partition in partitions
        )
    except (AttributeError, TypeError, ValueError):
        raise ValueError(f'expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {text}') from None
    for topic, partition in assigned:
        if not 0 <= partition <= _INT32_MAX:
            raise ValueError(f"{topic!r} has no partition {partition}: numbers begin at 0")
    return assigned


def _json_object(text: str, example: str) -> dict[str, Any]:
    try:
        form = json.loads(text)
    except ValueError:
        form = None
    if not isinstance(form, dict):
        raise ValueError(f"expected e.g. {example}, got {text}")
    return form


def _by_partition(form: Mapping[str, Any], text: str, example: str) -> dict[TopicPartition, int]:
    try:
        return from_json(form)
    except (TypeError, ValueError):
        raise ValueError(f"expected e.g. {example}, got {text}") from None


def _integer(value: Any) -> int:
    if type(value) is not int:  # a bool is an int, but no offset
        raise ValueError(f"not an integer: {value!r}")
    return value
