"""Runs a function for many share partitions, some at a time, and groups the outcomes by topic."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final
from uuid import UUID

from drumlin.coordination.groups.every_kind.group_context import Topic
from drumlin.coordination.groups.share.messages import Outcome, TopicOutcome, Topics
from drumlin.coordination.groups.share.records import TopicPartitions
from drumlin.turns import give_way, side_by_side
from drumlin.wire.error_codes import ErrorCode, KafkaError

#: The request by topic: name, topic if it exists, and the offsets of existing partitions.
Found = list[tuple[str, Topic | None, Mapping[int, int]]]
Starts = dict[UUID, dict[int, int]]

#: The share states written at the same time, which takes two milliseconds.
_STATES_AT_A_TIME: Final = 8


async def for_each(
    partitions: Mapping[UUID, Iterable[int]], do: Callable[[UUID, int], Awaitable[None]]
) -> dict[UUID, Outcome]:
    """Call a function for each partition, some at a time; returns the errors by partition."""

    async def one(place: tuple[UUID, int]) -> KafkaError | None:
        try:
            await do(*place)
        except KafkaError as error:
            return error
        return None

    places = [(each, partition) for each, these in partitions.items() for partition in these]
    results = await side_by_side(one, places, _STATES_AT_A_TIME)
    outcomes: dict[UUID, dict[int, KafkaError | None]] = {each: {} for each in partitions}
    for (topic_id, partition), result in zip(places, results, strict=True):
        outcomes[topic_id][partition] = result
    return dict(outcomes)


async def divided(topics: Topics, outcomes: Mapping[UUID, Outcome]) -> tuple[Topics, Topics]:
    """Partitions without an error, and the others."""
    good: dict[UUID, TopicPartitions] = {}
    bad: dict[UUID, TopicPartitions] = {}
    for topic_id, outcome in outcomes.items():
        failed = frozenset(each for each, error in outcome.items() if error is not None)
        name = topics[topic_id].name
        if failed:
            bad[topic_id] = TopicPartitions(name, failed)
        if len(failed) < len(outcome):
            good[topic_id] = TopicPartitions(name, frozenset(outcome.keys() - failed))
        await give_way()
    return good, bad


async def topic_outcomes(
    found: Found, starts: Starts, outcomes: Mapping[UUID, Outcome]
) -> list[TopicOutcome]:
    unknown = KafkaError(ErrorCode.unknown_topic_or_partition)
    answers = []
    for name, topic, offsets in found:
        topic_id = None if topic is None else topic.topic_id
        of_topic: dict[int, KafkaError | None] = {}
        begun = {} if topic_id is None else starts[topic_id]
        for each in offsets:
            of_topic[each] = outcomes[topic_id][each] if topic_id and each in begun else unknown
            await give_way()
        answers.append(TopicOutcome(name, topic_id, of_topic))
        await give_way()
    return answers
