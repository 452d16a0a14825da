"""All share partitions that are at work in this broker, and the sessions of those who read them.

Share partitions are loaded when a member first fetches them and dropped with the last session of
their group, with their topic, when they are fenced, and when they could not be loaded.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from drumlin.broker.shares.group_settings import GroupSettings
from drumlin.broker.shares.live_partition import LivePartition
from drumlin.broker.shares.sessions import Member, SharedPartition, ShareSessions
from drumlin.coordination.shares.state import SharePartitionKey
from drumlin.metadata.changes import Change, TopicDeleted
from drumlin.replication.partition import Partition

if TYPE_CHECKING:
    from drumlin.broker.broker import Broker
    from drumlin.broker.connection import Connection

T = TypeVar("T")


class ShareDelivery:
    """The broker's side of ShareFetch and ShareAcknowledge."""

    def __init__(self, broker: Broker) -> None:
        self.sessions = ShareSessions()
        self._broker = broker
        self._settings: dict[str, GroupSettings] = {}
        self._partitions: dict[SharePartitionKey, LivePartition] = {}
        self._watched: set[int] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.is_stopping = False

    def settings(self, group_id: str) -> GroupSettings:
        """Remembered for as long as the group has a session: there may be any number of names."""
        known = self._settings.get(group_id)
        if known is None:
            known = GroupSettings(self._broker, group_id)
            if self.sessions.has_group(group_id):
                self._settings[group_id] = known
        return known

    # -- share partitions --------------------------------------------------------------

    def check_topic(self, shared: SharedPartition) -> None:
        """
        Raises:
            KafkaError: UNKNOWN_TOPIC_ID.
        """
        self._broker.name_of_topic(shared.topic_id)

    def partition_of(self, shared: SharedPartition) -> Partition:
        """The partition that a request names.

        Raises:
            KafkaError: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR.
        """
        name = self._broker.name_of_topic(shared.topic_id)
        return self._broker.partitions.get(name, shared.partition)

    def open(self, group_id: str, shared: SharedPartition) -> LivePartition:
        """The share partition, which may be loading yet.

        Raises:
            KafkaError: as `partition_of`.
        """
        partition = self.partition_of(shared)
        live = self.find(group_id, shared)
        if live is not None:
            return live
        assert shared.topic_id is not None
        key = SharePartitionKey(group_id, shared.topic_id, shared.partition)
        fenced = functools.partial(self._drop, key)
        live = LivePartition(self._broker, key, partition, self.settings(group_id), fenced)
        self._partitions[key] = live
        return live

    def find(self, group_id: str, shared: SharedPartition) -> LivePartition | None:
        """The share partition if it is at work."""
        if shared.topic_id is None:
            return None
        key = SharePartitionKey(group_id, shared.topic_id, shared.partition)
        live = self._partitions.get(key)
        if live is not None and (not live.is_current or live.error is not None):
            self._drop(key)
            return None
        return live

    def forget(self, key: SharePartitionKey) -> None:
        """The state was made anew, or deleted: whoever goes on begins with reading it."""
        self._drop(key)

    def _drop(self, key: SharePartitionKey) -> None:
        live = self._partitions.pop(key, None)
        if live is not None:
            live.close()

    def on_change(self, change: Change) -> None:
        """What was shared of a topic is gone with it."""
        if isinstance(change, TopicDeleted):
            for key in list(self._partitions):
                if key.topic_id == change.topic.topic_id:
                    self._drop(key)

    # -- members -----------------------------------------------------------------------

    def watch(self, connection: Connection) -> None:
        """End the sessions that a connection has begun when it ends."""
        number = id(connection)
        if number not in self._watched:
            self._watched.add(number)
            connection.when_closed.append(functools.partial(self._connection_closed, number))

    def _connection_closed(self, number: int) -> None:
        self._watched.discard(number)
        for member in self.sessions.of_connection(number):
            self.close_session(member)

    def close_session(self, member: Member) -> None:
        """A member is gone: what it had goes to the others."""
        self.sessions.close(member)
        of_group = [key for key in self._partitions if key.group_id == member.group_id]
        for key in of_group:
            self._partitions[key].release(member.member_id)
        if not self.sessions.has_group(member.group_id):
            self._settings.pop(member.group_id, None)
            for key in of_group:
                self._retire(key)

    def _retire(self, key: SharePartitionKey) -> None:
        """Drop a share partition that nobody reads, once all of it is written."""
        live = self._partitions[key]

        async def retire() -> None:
            await live.settle()
            if self._partitions.get(key) is live and not self.sessions.has_group(key.group_id):
                self._drop(key)

        self.spawn(retire())

    # -- work that goes on without a connection ----------------------------------------

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin something that is to be ended whatever becomes of who asked for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- the end -----------------------------------------------------------------------

    def finish(self) -> None:
        """The broker stops: who waits is answered now."""
        self.is_stopping = True
        for live in self._partitions.values():
            live.room.disturb()

    async def close(self) -> None:
        """Write what is to be written yet, and let go of everything."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for live in list(self._partitions.values()):
            await live.settle()
        for key in list(self._partitions):
            self._drop(key)
