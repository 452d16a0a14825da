"""Following ZooKeeper: changes by others are found by watches, and applied to the image.

Watches end with the connection. So everything is read again after a reconnection, and whenever a
read has failed. Paths are read one after the other, without waiting for listeners. Urgent changes,
above all of leaders, interrupt long operations.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection
from typing import Final

from drumlin.clock import Clock
from drumlin.metadata.store.store import UnusableMetadata
from drumlin.metadata.zookeeper.brokers.controller_node import NO_CONTROLLER
from drumlin.metadata.zookeeper.deletion.forgotten_topics import forget_deletions
from drumlin.metadata.zookeeper.following.others_brokers import BrokerChanges
from drumlin.metadata.zookeeper.following.others_configs import ConfigChanges
from drumlin.metadata.zookeeper.following.others_states import StateChanges
from drumlin.metadata.zookeeper.following.others_topics import TopicChanges
from drumlin.metadata.zookeeper.following.requested_deletions import RequestedDeletions
from drumlin.metadata.zookeeper.leadership.leaders import Leaders
from drumlin.metadata.zookeeper.parts import Parts
from drumlin.metadata.zookeeper.session.session import Conflict, Session
from drumlin.metadata.zookeeper.states.reading import read_cluster_id, read_deleted
from drumlin.metadata.zookeeper.znodes import layout, own_layout
from drumlin.wire.error_codes import KafkaError
from drumlin.zookeeper.connection import ZooKeeperFailure
from drumlin.zookeeper.nodes import UnreadableNode

_log = logging.getLogger(__name__)

#: A path that stands for all nodes.
_EVERYTHING: Final = "/"
#: A path that stands for the duties of a new controller besides elections.
_DUTIES: Final = "/controller/duties"
#: The first and the longest pause before a retry.
_RETRY_S: Final = 1.0
_RETRY_MAX_S: Final = 30.0
#: The interval at which the controller looks for deletions that can be forgotten.
_FORGET_S: Final = 30.0
_CONTROLLER_PATHS: Final = frozenset({layout.CONTROLLER, layout.CONTROLLER_EPOCH})


class Follower:
    """Follows ZooKeeper for one store."""

    def __init__(self, parts: Parts, clock: Clock) -> None:
        self._parts = parts
        self._session = parts.commits.session
        self.leaders = Leaders(parts)
        self.topics = TopicChanges(parts, self.leaders, self._interrupt)
        self.requested_deletions = RequestedDeletions(parts, self.topics)
        self._configs = ConfigChanges(parts, clock, self._interrupt)
        self._brokers = BrokerChanges(parts)
        self._states = StateChanges(parts, clock)
        node_id = parts.config.node_id
        self._own_paths = {layout.broker_path(node_id), own_layout.broker_epoch_path(node_id)}
        self._news: dict[str, None] = {}
        self._clock = clock
        #: The time of the oldest change of brokers that is not fully handled; None if there is
        #: none.
        self._brokers_changed_at: float | None = None
        self._arrived = asyncio.Event()
        self._is_away = False
        self._retry_s = _RETRY_S
        self._task: asyncio.Task[None] | None = None
        self._forgetting: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read everything, and begin to follow changes.

        Raises:
            UnusableMetadata, ZooKeeperFailure: the metadata cannot be read.
        """
        loop = asyncio.get_running_loop()

        def on_state(is_connected: bool) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(self._take_state, is_connected)

        def on_change(path: str) -> None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self.notice, path)

        self._session.tell(on_state, on_change)
        await self._catch_up(is_first=True)
        self._task = asyncio.create_task(self._follow())
        self._forgetting = asyncio.create_task(self._forget())

    async def stop(self) -> None:
        tasks = [each for each in (self._task, self._forgetting) if each is not None]
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def notice(self, path: str = _EVERYTHING) -> None:
        """Read a node soon."""
        if self._brokers_changed_at is None and _is_of_brokers(path):
            self._brokers_changed_at = self._clock.monotonic()
        self._news[path] = None
        self._arrived.set()

    @property
    def controller_queue(self) -> int:
        """The number of changes and partitions waiting for this broker as the controller."""
        if self._parts.controllership.fence is None:
            return 0
        return len(self._news) + self.leaders.unsettled_count

    def _take_state(self, is_connected: bool) -> None:
        if is_connected:
            self.notice()
        elif not self._is_away:
            self._is_away, self._parts.image.is_current = True, False
            _log.warning(
                "ZooKeeper on %s does not answer: this broker goes on serving its topics, and no "
                "topic or configuration can be changed until it answers",
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
            except Exception as error:  # noqa: BLE001  else no change would ever be seen again
                await self._try_again(error)

    async def _forget(self) -> None:
        """As the controller, forget deletions that every broker knows."""
        while True:
            await asyncio.sleep(_FORGET_S)
            try:
                await self._forget_what_may_be()
            except ZooKeeperFailure:
                pass  # logged elsewhere, and tried again
            except Exception:  # noqa: BLE001  else none would ever be forgotten again
                _log.exception("deleted topics were not forgotten")

    async def _forget_what_may_be(self) -> None:
        fence = self._parts.controllership.fence
        if fence is not None:
            run, now_ms = self._parts.commits.run, self._clock.wall_ms()
            problem = await run(forget_deletions, fence, now_ms)
            if problem is not None:
                self._parts.report(problem)

    async def _try_again(self, error: Exception) -> None:
        """Read everything when there is a connection, as changes were missed."""
        if isinstance(error, (UnusableMetadata, UnreadableNode, KafkaError, ZooKeeperFailure)):
            if self._session.is_connected:
                self._parts.report(str(error))
        elif not isinstance(error, Conflict):
            _log.exception("ZooKeeper was not followed", exc_info=error)
        self._news[_EVERYTHING] = None
        if self._session.is_connected:
            await asyncio.sleep(_RETRY_S)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._arrived.wait(), self._retry_s - _RETRY_S)
            self._retry_s = min(2 * self._retry_s, _RETRY_MAX_S)
            self._arrived.set()

    async def _look_at(self, paths: dict[str, None]) -> None:
        if _EVERYTHING in paths:
            await self._catch_up()
            return
        if await self._look_at_urgent(paths):
            await self._catch_up()
            return
        if layout.TOPICS in paths:
            await self.topics.look()
        below = [layout.topic_below(path) for path in paths if path.startswith(f"{layout.TOPICS}/")]
        await self.topics.look_at([name for name, is_topic in below if is_topic])
        mended = {name for name, is_topic in below if not is_topic}
        await self.topics.look_at(sorted(mended), is_all=True)
        if any(each in paths for each in self._configs.folders):
            await self._configs.look()
        if layout.CONFIG_CHANGES in paths:
            await self.topics.look()  # their configuration may have been unreadable
            await self.leaders.settle_all()  # an unclean election may be allowed now
        if _DUTIES in paths:
            await self.settle()
        elif layout.TO_DELETE in paths:
            await self.requested_deletions.follow()

    async def _interrupt(self) -> None:
        """Handle urgent changes in the middle of a long operation."""
        if self._task is None:
            return  # the store is being opened
        urgent = [path for path in self._news if _is_urgent(path)]
        for path in urgent:
            del self._news[path]
        if await self._look_at_urgent(urgent):
            self.notice()

    async def _look_at_urgent(self, paths: Collection[str]) -> bool:
        """Read brokers and changed states; returns whether everything must be read again."""
        if any(map(_is_of_brokers, paths)) and await self._look_at_brokers(paths):
            return True
        return own_layout.STATE_NEWS in paths and await self._look_at_states()

    async def _look_at_brokers(self, paths: Collection[str]) -> bool:
        """Read brokers and controller, and elect leaders; returns whether this broker registered
        again.

        Only nodes that may have changed are read: all of them are watched, so a node whose watch
        has not fired is unchanged since the last read. Writes are fenced meanwhile.
        """
        registration, controllership = self._parts.registration, self._parts.controllership
        is_held = registration.fence is not None and self._own_paths.isdisjoint(paths)
        if not is_held and await registration.keep():
            return True
        is_changed = layout.BROKERS in paths and await self._brokers.look()
        is_known = controllership.controller_id != NO_CONTROLLER
        is_same = is_known and _CONTROLLER_PATHS.isdisjoint(paths)
        is_new = not is_same and await self._keep_controllership()
        if is_changed or is_new:
            await self.leaders.settle_all(self._brokers_changed_at)
        if not any(map(_is_of_brokers, self._news)):
            self._brokers_changed_at = None
        if is_new:
            self.notice(_DUTIES)
        return False

    async def _keep_controllership(self) -> bool:
        """Follow the controller's node; returns whether this broker has become the controller."""
        is_new = await self._parts.controllership.keep()
        self._brokers.show_controller()
        return is_new

    async def _look_at_states(self) -> bool:
        """Read changed states; returns whether some notifications were missed."""
        changed = await self._states.look()
        if changed is None:
            return True
        if self._parts.controllership.fence is not None:
            await self.leaders.settle({topic_id for topic_id, _ in changed})
            await self._states.remove_old()
        return False

    async def _catch_up(self, *, is_first: bool = False) -> None:
        """Read everything."""
        if not is_first:
            await self._parts.commits.run(_check_cluster, self._parts.image.cluster_id)
        if await self._parts.registration.keep():
            _log.warning("ZooKeeper's session had ended: the broker has registered again")
        await self._brokers.look()
        if not is_first:
            await self._keep_controllership()
            # Known partitions first, as reading the others takes a while.
            await self.leaders.settle_all(self._brokers_changed_at)
            self._brokers_changed_at = None
        self.topics.forget_watches()
        deleted, problems = await self._parts.commits.run(read_deleted)
        for problem in problems:
            self._parts.report(problem)
        if is_first:
            for topic_id, folders in deleted.items():
                self._parts.deletions.add(topic_id, folders)
        await self._states.skip()
        # Topics are listed before configurations are read: tools write a topic's configuration
        # first, so the configuration of each listed topic is found.
        names = await self._parts.commits.run(_watched_children, layout.TOPICS)
        unreadable = await self._configs.look_at_all(is_first=is_first)
        known = frozenset(names if is_first else ())
        await self.topics.look(unreadable, known, is_all=True)
        await self._keep_controllership()
        await self.settle()
        if self._is_away and not is_first and self._session.is_connected:
            self._is_away, self._parts.image.is_current = False, True
            self._parts.report_again()
            _log.warning("ZooKeeper on %s answers again", self._session.hosts)

    async def begin(self) -> None:
        """Read the brokers after the first registration, and try to become the controller.

        Raises:
            UnreadableNode, ZooKeeperFailure: a step has failed.
        """
        await self._parts.registration.keep()  # watches it from now on
        await self._brokers.look()
        await self._keep_controllership()
        try:
            await self.settle()
        except KafkaError as error:
            self._parts.report(str(error))
            self.notice()

    async def settle(self) -> None:
        """Do the controller's duties: elect leaders, give ids to topics, and complete deletions.

        Raises:
            UnreadableNode, ZooKeeperFailure, KafkaError: a step has failed.
        """
        if self._parts.controllership.fence is not None:
            await self.leaders.settle_all()
            await self.topics.look()  # topics without an id get one
            await self.requested_deletions.follow()
            await self._states.remove_old()


def _is_urgent(path: str) -> bool:
    return path == own_layout.STATE_NEWS or _is_of_brokers(path)


def _is_of_brokers(path: str) -> bool:
    return (
        path == layout.BROKERS
        or path in _CONTROLLER_PATHS
        or path.startswith((f"{layout.BROKERS}/", f"{own_layout.BROKER_EPOCHS}/"))
    )


def _check_cluster(session: Session, cluster_id: str) -> None:
    stored = read_cluster_id(session)
    if stored != cluster_id:
        found = f"cluster {stored} now" if stored else "no cluster any more"
        raise ZooKeeperFailure(
            f"ZooKeeper on {session.hosts} has {found}, in place of cluster {cluster_id}: this "
            "broker goes on serving the topics that it knows, and nothing can be changed"
        )


def _watched_children(session: Session, path: str) -> list[str]:
    return session.children(path, is_watched=True)
