"""Deletion of topics by the controller: at the request of tools, and after interruptions.

A client's request to delete a topic is handled in the same way, by any broker.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from drumlin.metadata.image import Resource, ResourceType, TopicState
from drumlin.metadata.zookeeper.deletion.topic_nodes import delete_topic
from drumlin.metadata.zookeeper.session.session import Conflict, Session
from drumlin.metadata.zookeeper.znodes import layout
from drumlin.metadata.zookeeper.znodes.operations import Delete
from drumlin.zookeeper.nodes import UnreadableNode

if TYPE_CHECKING:
    from uuid import UUID

    from drumlin.metadata.zookeeper.following.others_topics import TopicChanges
    from drumlin.metadata.zookeeper.parts import Parts

_log = logging.getLogger(__name__)


class RequestedDeletions:
    """Deletes topics, for tools and for clients."""

    def __init__(self, parts: Parts, topics: TopicChanges) -> None:
        self._parts = parts
        self._topics = topics

    async def follow(self) -> None:
        """As the controller, delete the requested topics.

        Raises:
            KafkaError, Conflict, ZooKeeperFailure: some topics remain to be deleted.
        """
        if self._parts.controllership.fence is None:
            return
        names = await self._parts.commits.run(_wanted)
        for name in names:
            try:
                await self._follow(name)
            except UnreadableNode as error:
                self._parts.report(f"{error}; so topic {name} is not deleted")

    async def _follow(self, name: str) -> None:
        """Delete a topic, if possible."""
        await self._topics.look_at([name])
        topic = self._parts.image.topics.get(name)
        if topic is None:
            topic = await self._parts.commits.run(_left_of, name)
        if topic is not None and (
            topic.topic_id in self._parts.deletions.ids or self._parts.config.delete_topic_enable
        ):
            async with self._parts.locks.of(Resource(ResourceType.TOPIC, name)):
                await self.delete_held(topic)
        elif topic is not None or not await self._parts.commits.run(_is_there, name):
            _log.warning("topic %s is not deleted: it must not be, or is not there", name)
            fence = self._parts.registration.held()
            with contextlib.suppress(Conflict):
                await self._parts.commits.commit([Delete(layout.deletion_path(name))], fence)

    async def delete_held(self, topic: TopicState) -> Awaitable[None] | None:
        """Delete a topic, which may be unknown here; the caller holds its lock.

        Raises:
            KafkaError: NOT_CONTROLLER.
            Conflict, ZooKeeperFailure: the topic may be deleted later.

        Returns:
            An awaitable that is done when listeners have handled the deletion.
        """
        parts, own_id = self._parts, self._parts.config.node_id
        await parts.commits.run(delete_topic, topic, parts.registration.held(), own_id)
        folders = {own_id: None}
        known = parts.image.topics_by_id.get(topic.topic_id)
        if known is not None:
            return self._topics.follow_deletion(known, folders)
        parts.deletions.add(topic.topic_id, folders)
        return None


def _wanted(session: Session) -> list[str]:
    return session.children(layout.TO_DELETE, is_watched=True)


def _is_there(session: Session, name: str) -> bool:
    return session.read([layout.topic_path(name)])[0] is not None


def _left_of(session: Session, name: str) -> TopicState | None:
    """The rest of a topic whose deletion was interrupted; None if nothing is left, or it is
    unreadable.
    """
    path = layout.topic_path(name)
    (node,) = session.read([path])
    if node is None:
        return None
    topic_id: UUID | None = layout.decode_topic(path, node.data).topic_id
    return None if topic_id is None else TopicState(name, topic_id, ())
