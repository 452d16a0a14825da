"""The partitions of a group with share state, and those being initialized or deleted. Pure.

Each function returns the value of a new record; nothing is changed in place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from uuid import UUID

from drumlin.coordination.groups.share.records import StatePartitionMetadata, TopicPartitions

Topics = Mapping[UUID, TopicPartitions]


def with_all(some: Topics, others: Topics) -> dict[UUID, TopicPartitions]:
    """The partitions of both arguments; topic names are taken from `others`."""
    result = dict(some)
    for topic_id, topic in others.items():
        before = result.get(topic_id)
        known = frozenset() if before is None else before.partitions
        result[topic_id] = TopicPartitions(topic.name, known | topic.partitions)
    return result


def without(some: Topics, others: Topics) -> dict[UUID, TopicPartitions]:
    """The partitions of `some` that are not in `others`; topics without partitions are omitted."""
    result = {}
    for topic_id, topic in some.items():
        gone = others.get(topic_id)
        left = topic.partitions - gone.partitions if gone is not None else topic.partitions
        if left:
            result[topic_id] = TopicPartitions(topic.name, left)
    return result


def begun(known: StatePartitionMetadata, topics: Topics) -> StatePartitionMetadata:
    """The state when initialization begins, perhaps in topics that were being deleted."""
    deleting = {each: name for each, name in known.deleting.items() if each not in topics}
    return StatePartitionMetadata(with_all(known.initializing, topics), known.initialized, deleting)


def initialized(known: StatePartitionMetadata, topics: Topics) -> StatePartitionMetadata:
    return replace(
        known,
        initializing=without(known.initializing, topics),
        initialized=with_all(known.initialized, topics),
    )


def failed(known: StatePartitionMetadata, topics: Topics) -> StatePartitionMetadata:
    """The state after the initialization of partitions has failed; it will be retried."""
    return replace(known, initializing=without(known.initializing, topics))


def deletion_begun(
    known: StatePartitionMetadata, topics: Mapping[UUID, str]
) -> StatePartitionMetadata:
    initialized = {each: topic for each, topic in known.initialized.items() if each not in topics}
    return StatePartitionMetadata(known.initializing, initialized, {**known.deleting, **topics})


def deleted(known: StatePartitionMetadata, topic_ids: Collection[UUID]) -> StatePartitionMetadata:
    deleting = {each: name for each, name in known.deleting.items() if each not in topic_ids}
    return replace(known, deleting=deleting)


def forgotten(known: StatePartitionMetadata, topic_ids: Collection[UUID]) -> StatePartitionMetadata:
    """The state without deleted topics; `known` itself if it has no such topic."""
    left = StatePartitionMetadata(
        {each: topic for each, topic in known.initializing.items() if each not in topic_ids},
        {each: topic for each, topic in known.initialized.items() if each not in topic_ids},
        {each: name for each, name in known.deleting.items() if each not in topic_ids},
    )
    return known if left == known else left
