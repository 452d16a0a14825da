"""Common parts of mutations in all stores: locks, group commit, and reports to listeners.

This file does not store anything itself.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar
from uuid import UUID
from weakref import WeakValueDictionary

from drumlin.metadata.image import ClusterImage, PartitionId, PartitionState, TopicState
from drumlin.metadata.store.changes import Change
from drumlin.metadata.store.store import Assignment, Listener
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

_log = logging.getLogger(__name__)

T = TypeVar("T")
P = ParamSpec("P")


def uncancelled(mutation: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Awaitable[T]]:
    """Complete a mutation even if its caller is cancelled, as the image must match the store."""

    @functools.wraps(mutation)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        task = asyncio.create_task(mutation(*args, **kwargs))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_ended_alone)
            raise
        finally:
            del task  # its exception refers to this frame, and this frame to the task

    return run


def _ended_alone(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.warning("a change whose caller was cancelled has failed: %r", error)


class Locks:
    """A lock for each resource, so that mutations of the same resource happen one after the
    other.
    """

    def __init__(self) -> None:
        # Weak: a lock lives as long as it is held or awaited.
        self._locks: WeakValueDictionary[object, asyncio.Lock] = WeakValueDictionary()

    def of(self, thing: object) -> asyncio.Lock:
        lock = self._locks.get(thing)
        if lock is None:
            lock = self._locks[thing] = asyncio.Lock()
        return lock


class Listeners:
    """The listeners to changes, which are called one after the other, in the order of changes."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._waiting: deque[tuple[Change, asyncio.Future[None]]] = deque()
        self._telling: asyncio.Task[None] | None = None

    def add(self, listener: Listener) -> None:
        self._listeners.append(listener)

    async def report(self, change: Change) -> None:
        """Report a change; returns when all listeners have handled it."""
        await self.tell(change)

    def tell(self, change: Change) -> asyncio.Future[None]:
        """Like `report`, without waiting; to be called in the turn in which the image changes."""
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((change, done))
        if self._telling is None:
            self._telling = asyncio.create_task(self._tell_all())
        return done

    async def close(self) -> None:
        """Report no more changes."""
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.gather(self._telling, return_exceptions=True)
        for _, done in self._waiting:
            done.cancel()
        self._waiting.clear()

    async def _tell_all(self) -> None:
        try:
            while self._waiting:
                change, done = self._waiting[0]
                for listener in self._listeners:
                    await _follow(listener, change)
                self._waiting.popleft()
                if not done.done():
                    done.set_result(None)
        finally:
            self._telling = None


class ImmediateListeners(Listeners):
    """Listeners that are called in the turn in which the image changes, so they cannot await."""

    def tell(self, change: Change) -> asyncio.Future[None]:
        for listener in self._listeners:
            listener(change)
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done


async def _follow(listener: Listener, change: Change) -> None:
    try:
        following = listener(change)
        if following is not None:
            await following
    except Exception:  # noqa: BLE001  the next listener must still be called
        _log.exception("%s was not followed", type(change).__name__)


async def find_partitions(
    image: ClusterImage,
    is_wanted: Callable[[PartitionState], bool],
    topics: Iterable[UUID] | None = None,
) -> list[PartitionId]:
    """The partitions of these topics, or of all, whose state satisfies `is_wanted`."""
    found: list[PartitionId] = []
    known = image.topics_by_id
    for topic_id in list(known) if topics is None else topics:
        topic = known.get(topic_id)
        if topic is not None:
            states = topic.partitions
            found += [PartitionId(topic_id, each.index) for each in states if is_wanted(each)]
        await give_way()
    return found


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
    """The topic to which partitions will be added, beginning with `first_index`.

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


def with_changes(configs: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """The configuration with these changes; None removes a key."""
    merged = {**configs, **changes}
    return {key: value for key, value in merged.items() if value is not None}


async def new_partitions(
    first_index: int,
    assignment: Assignment,
    alive: Collection[int],
    leader_epoch: int = 0,
) -> tuple[PartitionState, ...]:
    """New partitions, in which the live replicas are in sync and the first of these leads."""
    partitions = []
    for index, each in enumerate(assignment, first_index):
        replicas = tuple(each)
        isr = tuple(replica for replica in replicas if replica in alive) or replicas
        partitions.append(PartitionState(index, isr[0], leader_epoch, replicas, isr))
        await give_way()
    return tuple(partitions)
