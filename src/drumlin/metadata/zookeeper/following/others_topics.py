"""Changes of topics by others: applied to the image and reported.

A topic whose node is gone counts as deleted only if its deletion was noted. Otherwise it is still
served, as its records must not be removed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final
from uuid import UUID, uuid4

from drumlin.metadata.image import PartitionId, Resource, ResourceType, TopicState
from drumlin.metadata.store.changes import PartitionsAdded, TopicCreated, TopicDeleted
from drumlin.metadata.zookeeper.leadership.leaders import Leaders
from drumlin.metadata.zookeeper.parts import Parts
from drumlin.metadata.zookeeper.session.session import Conflict, Session
from drumlin.metadata.zookeeper.states.reading import (
    SeenTopic,
    read_configs,
    read_deleted,
    read_topics,
)
from drumlin.metadata.zookeeper.znodes import layout
from drumlin.metadata.zookeeper.znodes.layout import Folders
from drumlin.metadata.zookeeper.znodes.operations import Replace
from drumlin.storage.directory.partition_metadata import encode_uuid
from drumlin.turns import give_way
from drumlin.zookeeper.connection import ZooKeeperFailure

_TOGETHER: Final = 500


class TopicChanges:
    """Reads topics; called only by the `Follower`."""

    def __init__(
        self, parts: Parts, leaders: Leaders, interrupt: Callable[[], Awaitable[None]]
    ) -> None:
        """`interrupt` is called between the parts of long operations."""
        self._parts = parts
        self._leaders = leaders
        self._interrupt = interrupt
        self._image = parts.image
        self._run = parts.commits.run
        self._watched: set[str] = set()

    def forget_watches(self) -> None:
        """Forget all watches, which have ended with the connection."""
        self._watched.clear()

    async def look(
        self,
        unreadable: Iterable[str] = (),
        configured: frozenset[str] = frozenset(),
        *,
        is_all: bool = False,
    ) -> None:
        """Find new and missing topics, and read all states of partitions if `is_all`.

        Topics in `unreadable`, whose configuration is unreadable, wait. The image already has the
        configurations of `configured` topics.
        """
        known = list(self._image.topics)
        names, there = await self._run(_listed)
        passed_over, wanted = frozenset(unreadable), []
        for name in names:
            if not layout.is_topic_name(name):
                path = layout.topic_path(name)
                self._parts.report(f"ZooKeeper's {path} cannot be used: no topic can be called so")
            elif (is_all or name not in self._watched) and name not in passed_over:
                wanted.append(name)
            await give_way()
        await self.look_at(wanted, configured, is_all=is_all)
        for name in known:
            if name not in there:
                await self._miss(name)
            await give_way()

    async def look_at(
        self,
        names: Sequence[str],
        configured: frozenset[str] = frozenset(),
        *,
        is_all: bool = False,
    ) -> None:
        """Read these new or changed topics."""
        for start in range(0, len(names), _TOGETHER):
            some = names[start : start + _TOGETHER]
            topics = self._image.topics
            known = {name: topics[name] for name in some if name in topics}
            seen = await self._run(partial(read_topics, is_all=is_all), some, known)
            self._watched.update(some)
            self._watched.difference_update(seen.missing)
            for problem in seen.problems:
                self._parts.report(problem)
            for each in seen.found:
                await self._take(each, has_configs=each.name in configured)
                await give_way()
            for name in seen.missing:
                await self._miss(name)
            # This includes topics that this broker has created, as brokers may have died meanwhile.
            there = [topics[name].topic_id for name in some if name in topics]
            await self._leaders.settle(there)
            if len(names) > _TOGETHER:
                await self._interrupt()

    async def _take(self, seen: SeenTopic, *, has_configs: bool) -> None:
        resource = Resource(ResourceType.TOPIC, seen.name)
        async with self._parts.locks.of(resource):
            if seen.topic_id in self._parts.deletions.ids:
                return  # the deletion was completed meanwhile, or will be soon
            known = self._image.topics.get(seen.name)
            if known is not None and known.topic_id != seen.topic_id:
                if not await self._has_gone(known, seen):
                    return
                known = None
            if known is not None:
                await self._take_partitions(known, seen)
                return
            if self._is_of_another(seen):
                return
            if not has_configs and not await self._read_configs(resource):
                return
            topic_id = seen.topic_id or await self._give_id(seen)
            if topic_id is None:
                return
            partitions = await self._leaders.of_new(topic_id, seen.name, seen.partitions)
            topic = TopicState(seen.name, topic_id, partitions)
            self._image.put_topic(topic)
            configs = self._image.configs(resource)
            self._parts.listeners.tell(TopicCreated(topic, configs))

    def _is_of_another(self, seen: SeenTopic) -> bool:
        """Whether another topic has this id; deleting one of the topics would then delete both."""
        other = self._image.topic_name(seen.topic_id)
        if other is None:
            return False
        self._watched.discard(seen.name)  # read again later, as the other may go
        self._parts.report(
            f"ZooKeeper's {layout.topic_path(seen.name)} has the id of topic {other}; the topic is "
            "not served"
        )
        return True

    async def _take_partitions(self, known: TopicState, seen: SeenTopic) -> None:
        count = len(known.partitions)
        before = {PartitionId(known.topic_id, each.index): each for each in seen.partitions[:count]}
        await self._parts.states.take(before)
        await self._leaders.put_right(before)
        added = seen.partitions[count:]
        if not added:
            return  # or this broker has added some since the topic was read
        added = await self._leaders.of_new(known.topic_id, seen.name, added)
        current = self._image.topics[seen.name]  # states may have changed meanwhile
        topic = replace(current, partitions=current.partitions + added)
        self._image.put_topic(topic)
        self._parts.listeners.tell(PartitionsAdded(topic, added))

    async def _read_configs(self, resource: Resource) -> bool:
        found, problems = await self._run(read_configs, [resource])
        for problem in problems:
            self._parts.report(f"{problem}; the topic is not served")
            self._watched.discard(resource.name)
        self._image.put_configs(resource, found.get(resource, {}))
        return not problems

    async def _give_id(self, seen: SeenTopic) -> UUID | None:
        """As the controller, give an id to a topic that an old tool has created without an id."""
        fence = self._parts.controllership.fence
        self._watched.discard(seen.name)
        if fence is None:
            return None  # read again when it has an id, or this broker is the controller
        topic_id = uuid4()
        data = layout.encode_assignments(topic_id, [each.assignment for each in seen.partitions])
        try:
            await self._parts.commits.commit(
                [Replace(layout.topic_path(seen.name), data, seen.version)], fence
            )
        except Conflict:
            return None
        return topic_id

    async def _miss(self, name: str) -> None:
        """Handle the disappearance of a topic's node."""
        async with self._parts.locks.of(Resource(ResourceType.TOPIC, name)):
            topic = self._image.topics.get(name)
            if topic is None:
                return
            (node,) = await self._run(_read_one, layout.topic_path(name))
            if node is None and not await self._was_deleted(topic):
                self._say_it_stays(topic)

    async def _has_gone(self, topic: TopicState, seen: SeenTopic) -> bool:
        """Whether a known topic was replaced by another topic, which its node now has.

        Another id means another topic; the deletion of the known one may be forgotten already, if
        this broker was away. A node without an id may be the same topic, written by an old tool.
        """
        if await self._was_deleted(topic):
            return True
        if seen.topic_id is None:
            self._say_it_stays(topic)
            return False
        path = layout.topic_path(topic.name)
        if await self._run(_stored_id, path) != seen.topic_id:
            self._watched.discard(topic.name)  # changed again, or an older one was seen
            return False
        self._parts.report(
            f"ZooKeeper's {path} is of another topic now, with the id {encode_uuid(seen.topic_id)}"
            f": the one with the id {encode_uuid(topic.topic_id)} is not served any more. What "
            "there is of its records here is kept under other names, as nothing says that it was "
            "deleted"
        )
        self._forget(topic, keeps_records=True)
        return True

    async def _was_deleted(self, topic: TopicState) -> bool:
        """Apply the deletion, if noted, of a topic whose node is gone or belongs to another
        topic.
        """
        deleted, _ = await self._run(read_deleted, [encode_uuid(topic.topic_id)])
        if topic.topic_id not in deleted:
            return False
        self.follow_deletion(topic, deleted[topic.topic_id])
        return True

    def _say_it_stays(self, topic: TopicState) -> None:
        self._parts.report(
            f"ZooKeeper's {layout.topic_path(topic.name)} is gone, or has no id, and topic "
            f"{topic.name} was not deleted: it is served as it was until the next start, and its "
            "records stay"
        )

    def follow_deletion(self, topic: TopicState, folders: Folders) -> Awaitable[None]:
        """Remove a deleted topic from the image. The caller holds its lock.

        Returns:
            An awaitable that is done when listeners have handled the deletion.
        """
        self._parts.deletions.add(topic.topic_id, folders)
        return self._forget(topic)

    def _forget(self, topic: TopicState, *, keeps_records: bool = False) -> Awaitable[None]:
        self._watched.discard(topic.name)
        topic = self._image.topics[topic.name]
        self._image.remove_topic(topic)
        return self._parts.listeners.tell(TopicDeleted(topic, keeps_records=keeps_records))


def _read_one(session: Session, path: str) -> list[object]:
    return list(session.read([path]))


def _stored_id(session: Session, path: str) -> UUID | None:
    """The topic's current id, even if this broker's ZooKeeper server lags behind."""
    session.sync()
    (node,) = session.read([path])
    return None if node is None else layout.decode_topic(path, node.data).topic_id


def _listed(session: Session) -> tuple[list[str], frozenset[str]]:
    """The names of the topics that have nodes, as a list and as a set."""
    names = session.children(layout.TOPICS, is_watched=True)
    if not names and session.read([layout.TOPICS]) == [None]:
        raise ZooKeeperFailure(f"ZooKeeper on {session.hosts} has no {layout.TOPICS} any more")
    return sorted(names), frozenset(names)
