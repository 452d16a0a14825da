"""Following ZooKeeper: what others write is found by watches, and what was missed is looked for.

Watches end with the connection. So when it is back, and whenever something could not be looked at,
everything is looked at again. One thing is looked at after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

from drumlin.metadata.image import Resource, ResourceType, TopicState
from drumlin.metadata.store import UnusableMetadata
from drumlin.metadata.zookeeper import layout
from drumlin.metadata.zookeeper.config_news import ConfigNews
from drumlin.metadata.zookeeper.connection import ZooKeeperFailure
from drumlin.metadata.zookeeper.deletion import delete_topic
from drumlin.metadata.zookeeper.layout import UnreadableNode
from drumlin.metadata.zookeeper.operations import Delete
from drumlin.metadata.zookeeper.reading import read_cluster_id, read_deleted
from drumlin.metadata.zookeeper.session import Conflict
from drumlin.metadata.zookeeper.topic_news import TopicNews
from drumlin.wire.errors import KafkaError

if TYPE_CHECKING:
    from uuid import UUID

    from drumlin.clock import Clock
    from drumlin.config.broker import BrokerConfig
    from drumlin.metadata.zookeeper.parts import Parts
    from drumlin.metadata.zookeeper.session import Session

_log = logging.getLogger(__name__)

#: The path of everything.
_EVERYTHING: Final = "/"
#: Before what failed is tried again, at first and at most.
_RETRY_S: Final = 1.0
_RETRY_MAX_S: Final = 30.0


class Follower:
    """Follows ZooKeeper for one store."""

    def __init__(self, parts: Parts, config: BrokerConfig, clock: Clock) -> None:
        self._parts = parts
        self._config = config
        self._session = parts.commits.session
        self.topics = TopicNews(parts)
        self._configs = ConfigNews(parts, clock)
        self._news: dict[str, None] = {}
        self._arrived = asyncio.Event()
        self._is_away = False
        self._retry_s = _RETRY_S
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read everything, and follow it from now on.

        Raises:
            UnusableMetadata, ZooKeeperFailure: it cannot be read.
        """
        loop = asyncio.get_running_loop()

        def on_state(is_connected: bool) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._take_state, is_connected)

        def on_change(path: str) -> None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self.notice, path)

        self._session.tell(on_state, on_change)
        await self._catch_up(is_first=True)
        self._task = asyncio.create_task(self._follow())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def notice(self, path: str = _EVERYTHING) -> None:
        """Look at a node soon."""
        self._news[path] = None
        self._arrived.set()

    def _take_state(self, is_connected: bool) -> None:
        if is_connected:
            self.notice()
        elif not self._is_away:
            self._is_away = True
            _log.warning(
                "ZooKeeper on %s does not answer: what is there is served on, and topics and "
                "configurations cannot be changed until it is back",
                self._session.hosts,
            )

    async def _follow(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            news, self._news = self._news, {}
            try:
                await self._look_at(news)
                self._retry_s = _RETRY_S
            except Exception as error:  # noqa: BLE001  else nothing would be followed any more
                await self._try_again(error)

    async def _try_again(self, error: Exception) -> None:
        """What was not seen is not known: all is looked at, once there is a connection."""
        if isinstance(error, (UnusableMetadata, UnreadableNode, KafkaError, ZooKeeperFailure)):
            if self._session.is_connected:
                self._parts.say(str(error))
        elif not isinstance(error, Conflict):
            _log.exception("ZooKeeper was not followed", exc_info=error)
        self._news[_EVERYTHING] = None
        if self._session.is_connected:
            await asyncio.sleep(self._retry_s)
            self._retry_s = min(2 * self._retry_s, _RETRY_MAX_S)
            self._arrived.set()

    async def _look_at(self, paths: dict[str, None]) -> None:
        if _EVERYTHING in paths or await self._is_office_lost(paths):
            await self._catch_up()
            return
        topics = []
        for path in paths:
            if path == layout.TOPICS:
                await self.topics.look()
            elif path == layout.CONFIG_CHANGES:
                await self._configs.look()
                await self.topics.look()  # one that was not served as it was unreadable
            elif path == layout.TO_DELETE:
                await self._delete_marked()
            elif path == layout.BROKERS:
                await self._look_for_others()
            elif path.startswith(f"{layout.TOPICS}/"):
                topics.append(path.removeprefix(f"{layout.TOPICS}/"))
        await self.topics.look_at(topics)

    async def _is_office_lost(self, paths: dict[str, None]) -> bool:
        offices = (layout.CONTROLLER, layout.CONTROLLER_EPOCH)
        if not any(path in offices or path.startswith(f"{layout.BROKERS}/") for path in paths):
            return False
        return await self._parts.office.keep()

    async def _catch_up(self, *, is_first: bool = False) -> None:
        """Look at everything."""
        if not is_first:
            await self._parts.commits.run(_check_cluster, self._parts.image.cluster_id)
        if await self._parts.office.keep():
            _log.warning("ZooKeeper's session had ended: the broker has registered again")
        self.topics.forget_watches()
        deleted, problems = await self._parts.commits.run(read_deleted)
        for problem in problems:
            self._parts.say(problem)
        if is_first:
            for topic_id, folders in deleted.items():
                self._parts.deletions.add(topic_id, folders)
        # Tools write the configuration of a new topic first: of these it is found now.
        names = await self._parts.commits.run(_watched_children, layout.TOPICS)
        unreadable = await self._configs.look_at_all(is_first=is_first)
        await self.topics.look(unreadable, frozenset(names if is_first else ()))
        if self._parts.office.fence is not None:
            await self.settle()
        if self._is_away and not is_first:
            self._is_away = False
            _log.warning("ZooKeeper on %s answers again", self._session.hosts)

    async def settle(self) -> None:
        """Do what a controller has to do: give leaders, ids, and finish deletions.

        Raises:
            UnreadableNode, ZooKeeperFailure: something cannot be done.
        """
        await self.topics.look()
        await self.topics.settle_all()
        await self._delete_marked()
        await self._look_for_others()

    async def _look_for_others(self) -> None:
        names = set(await self._parts.commits.run(_watched_children, layout.BROKERS))
        others = names - {str(self._config.node_id)}
        if others:
            self._parts.say(
                f"broker {', '.join(sorted(others))} has registered in ZooKeeper on "
                f"{self._session.hosts} beside this one: in this version a cluster has one broker, "
                "so stop it"
            )

    # -- deletions -----------------------------------------------------------------------------

    async def _delete_marked(self) -> None:
        """Delete the topics that tools want to be deleted, or whose deletion broke off."""
        names = await self._parts.commits.run(_watched_children, layout.TO_DELETE)
        for name in names:
            try:
                await self._follow_wish(name)
            except UnreadableNode as error:
                self._parts.say(f"{error}; so topic {name} is not deleted")

    async def _follow_wish(self, name: str) -> None:
        """Delete a topic that somebody wants to be deleted, if that may be."""
        topic = self._parts.image.topics.get(name)
        if topic is None:
            topic = await self._parts.commits.run(_left_of, name)
        if topic is not None and (
            topic.topic_id in self._parts.deletions.ids or self._config.delete_topic_enable
        ):
            await self.delete(topic)
        elif topic is not None or not await self._parts.commits.run(_is_there, name):
            fence = self._parts.office.held()
            _log.warning("topic %s is not deleted: it must not be, or is not there", name)
            with contextlib.suppress(Conflict):
                await self._parts.commits.commit([Delete(layout.deletion_path(name))], fence)

    async def delete(self, topic: TopicState) -> None:
        """Delete a topic, whether or not it is known here.

        Raises:
            KafkaError: NOT_CONTROLLER.
            Conflict, ZooKeeperFailure: it may be deleted later.
        """
        async with self._parts.locks.of(Resource(ResourceType.TOPIC, topic.name)):
            await self.delete_held(topic)

    async def delete_held(self, topic: TopicState) -> None:
        """The same, by who holds its lock."""
        parts = self._parts
        fence = parts.office.held()
        await parts.commits.run(delete_topic, topic, fence, self._config.node_id)
        folders = {self._config.node_id: None}
        known = parts.image.topics_by_id.get(topic.topic_id)
        if known is None:
            parts.deletions.add(topic.topic_id, folders)
        else:
            await self.topics.follow_deletion(known, folders)


def _check_cluster(session: Session, cluster_id: str) -> None:
    stored = read_cluster_id(session)
    if stored != cluster_id:
        found = f"cluster {stored} now" if stored else "no cluster any more"
        raise ZooKeeperFailure(
            f"ZooKeeper on {session.hosts} has {found}, in place of cluster {cluster_id}: what is "
            "known of that is served on, and nothing can be changed"
        )


def _watched_children(session: Session, path: str) -> list[str]:
    return session.children(path, is_watched=True)


def _is_there(session: Session, name: str) -> bool:
    return session.read([layout.topic_path(name)])[0] is not None


def _left_of(session: Session, name: str) -> TopicState | None:
    """What is left of a topic whose deletion broke off; None if there is nothing, or no knowing."""
    path = layout.topic_path(name)
    (node,) = session.read([path])
    if node is None:
        return None
    topic_id: UUID | None = layout.decode_topic(path, node.data).topic_id
    return None if topic_id is None else TopicState(name, topic_id, ())
