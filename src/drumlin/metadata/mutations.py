"""What mutations of every store have in common: how they take turns, end, and are reported.

Stores nothing, and knows no store.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ParamSpec, TypeVar
from uuid import UUID
from weakref import WeakValueDictionary

from drumlin.metadata.changes import Change
from drumlin.metadata.image import ClusterImage, PartitionState, TopicState
from drumlin.metadata.store import Assignment, Listener
from drumlin.turns import Pace
from drumlin.wire.errors import ErrorCode, KafkaError

_log = logging.getLogger(__name__)

T = TypeVar("T")
P = ParamSpec("P")


def uncancelled(mutation: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Awaitable[T]]:
    """Let a mutation end although its caller is cancelled: the image must show what is stored."""

    @functools.wraps(mutation)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.shield(asyncio.create_task(mutation(*args, **kwargs)))

    return run


class Locks:
    """A lock for each thing that is changed by one mutation at a time."""

    def __init__(self) -> None:
        # A lock lives as long as it is held or awaited.
        self._locks: WeakValueDictionary[object, asyncio.Lock] = WeakValueDictionary()

    def of(self, thing: object) -> asyncio.Lock:
        lock = self._locks.get(thing)
        if lock is None:
            lock = self._locks[thing] = asyncio.Lock()
        return lock


class Listeners:
    """Who follows the changes, one after the other."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def add(self, listener: Listener) -> None:
        self._listeners.append(listener)

    async def report(self, change: Change) -> None:
        for listener in self._listeners:
            try:
                following = listener(change)
                if following is not None:
                    await following
            except Exception:  # noqa: BLE001  the change is made; the next listener is to know
                _log.exception("%s was not followed", type(change).__name__)


def topic_with_id(image: ClusterImage, topic_id: UUID) -> TopicState:
    """
    Raises:
        KafkaError: UNKNOWN_TOPIC_ID.
    """
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        message = "no topic has this id"
        raise KafkaError(ErrorCode.unknown_topic_id, message)
    return topic


def check_is_new(image: ClusterImage, name: str) -> None:
    """
    Raises:
        KafkaError: TOPIC_ALREADY_EXISTS.
    """
    if name in image.topics:
        raise already_exists(name)


def already_exists(name: str) -> KafkaError:
    return KafkaError(ErrorCode.topic_already_exists, f"there is a topic {name} already")


def topic_to_widen(image: ClusterImage, name: str, first_index: int) -> TopicState:
    """The topic to which partitions from `first_index` on are to be added.

    Raises:
        KafkaError: UNKNOWN_TOPIC_OR_PARTITION, or INVALID_PARTITIONS.
    """
    topic = image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition)
    if len(topic.partitions) != first_index:
        message = f"{name} has {len(topic.partitions)} partitions already"
        raise KafkaError(ErrorCode.invalid_partitions, message)
    return topic


async def new_partitions(
    first_index: int, assignment: Assignment, leader_epoch: int = 0
) -> tuple[PartitionState, ...]:
    """Partitions, each led by its first replica."""
    pace = Pace()
    partitions = []
    for index, each in enumerate(assignment, first_index):
        replicas = tuple(each)
        partitions.append(PartitionState(index, replicas[0], leader_epoch, replicas, replicas))
        await pace.give_way()
    return tuple(partitions)
