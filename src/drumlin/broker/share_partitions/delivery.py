"""All share partitions that are active on this broker, and the sessions of their members.

A share partition is loaded when a member first fetches it. It is dropped with the group's last
session, with the topic, or if it is fenced or cannot be loaded.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator
from uuid import UUID

from drumlin.background import Background
from drumlin.broker.net.connection import Connection
from drumlin.broker.parts.parts import Coordinators
from drumlin.broker.share_partitions.group_settings import GroupSettings
from drumlin.broker.share_partitions.partition_leader import SharePartitionLeader
from drumlin.broker.share_partitions.sessions import (
    Member,
    SessionPartition,
    ShareSession,
    ShareSessions,
)
from drumlin.coordination.share.state.state import SharePartitionKey
from drumlin.metadata.store.changes import Change, PartitionsChanged, TopicDeleted
from drumlin.replication.partition import Partition
from drumlin.replication.waiting_room import WaitingRoom, wait_in
from drumlin.turns import Rest, Rounds, give_way, is_long_turn


class ShareDelivery:
    """The broker's side of ShareFetch and ShareAcknowledge."""

    def __init__(self, broker: Coordinators) -> None:
        self.sessions = ShareSessions()
        self._rounds = Rounds()
        self._broker = broker
        self._settings: dict[str, GroupSettings] = {}
        self._partitions: dict[str, dict[SharePartitionKey, SharePartitionLeader]] = {}
        """Share partitions by group, without empty groups."""
        self._holding: dict[Member, set[SharePartitionKey]] = {}
        """Member -> the partitions in which it has acquired records, in this session or before."""
        self._watched: set[int] = set()
        self._retiring = Background()
        self._refused = WaitingRoom()
        self.is_stopping = False

    def settings(self, group_id: str) -> GroupSettings:
        """The settings of a group. They are cached only while the group has a session, as clients
        can use any number of group names.
        """
        known = self._settings.get(group_id)
        if known is None:
            known = GroupSettings(self._broker, group_id)
            if self.sessions.has_group(group_id):
                self._settings[group_id] = known
        return known

    # -- share partitions --------------------------------------------------------------

    @property
    def partition_count(self) -> int:
        """The number of share partitions that are active or loading."""
        return sum(map(len, self._partitions.values()))

    def _all(self) -> list[SharePartitionLeader]:
        return [live for of_group in self._partitions.values() for live in of_group.values()]

    def _each_of(self, group_id: str) -> Iterator[SharePartitionLeader]:
        """The share partitions of a group. This is not a list, as freeing a list of thousands of
        items takes a turn of the loop.
        """
        lives = list(self._partitions.get(group_id, {}).values())
        while lives:
            yield lives.pop()

    def _find(self, key: SharePartitionKey) -> SharePartitionLeader | None:
        return self._partitions.get(key.group_id, {}).get(key)

    def check_topic(self, shared: SessionPartition) -> None:
        """
        Raises:
            KafkaError: UNKNOWN_TOPIC_ID.
        """
        self._broker.name_of_topic(shared.topic_id)

    def partition_of(self, shared: SessionPartition) -> Partition:
        """The partition that a request names.

        Raises:
            KafkaError: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR.
        """
        name = self._broker.name_of_topic(shared.topic_id)
        return self._broker.partitions.get(name, shared.partition)

    def open(self, group_id: str, shared: SessionPartition) -> SharePartitionLeader:
        """The share partition, which may still be loading.

        Raises:
            KafkaError: as `partition_of`.
        """
        partition = self.partition_of(shared)
        live = self.find(group_id, shared)
        if live is not None:
            return live
        assert shared.topic_id is not None
        key = SharePartitionKey(group_id, shared.topic_id, shared.partition)
        settings = self.settings(group_id)
        live = SharePartitionLeader(
            self._broker, key, partition, settings, self._rounds, self._drop, self._acquired
        )
        self._partitions.setdefault(group_id, {})[key] = live
        return live

    def find(self, group_id: str, shared: SessionPartition) -> SharePartitionLeader | None:
        """The share partition if it is active."""
        if shared.topic_id is None:
            return None
        live = self._find(SharePartitionKey(group_id, shared.topic_id, shared.partition))
        if live is not None and (not live.is_current or live.error is not None):
            self._drop(live)
            return None
        return live

    def _acquired(self, live: SharePartitionLeader, member_id: str) -> None:
        member = Member(live.key.group_id, member_id)
        self._holding.setdefault(member, set()).add(live.key)

    def forget(self, key: SharePartitionKey) -> None:
        """Drop a share partition whose state was initialized again or deleted. The next fetch reads
        the new state.
        """
        live = self._find(key)
        if live is not None:
            self._drop(live)

    def _drop(self, live: SharePartitionLeader) -> None:
        """Remove a share partition, unless it has been replaced already."""
        if self._find(live.key) is live:
            of_group = self._partitions[live.key.group_id]
            del of_group[live.key]
            if not of_group:
                del self._partitions[live.key.group_id]
        live.close()

    def on_change(self, change: Change) -> None:
        """Drop the share partitions of a deleted topic, and of partitions with another leader."""
        if isinstance(change, TopicDeleted):
            self._retiring.spawn(self._drop_topic(change.topic.topic_id))
        elif isinstance(change, PartitionsChanged) and self._partitions:
            indexes = [each.index for each in change.partitions]
            self._retiring.spawn(self._drop_moved(change.topic.topic_id, indexes))

    async def _drop_topic(self, topic_id: UUID) -> None:
        for group_id in list(self._partitions):
            for live in self._each_of(group_id):
                if live.key.topic_id == topic_id:
                    self._drop(live)
                await give_way()

    async def _drop_moved(self, topic_id: UUID, indexes: list[int]) -> None:
        for group_id in list(self._partitions):
            for index in indexes:
                live = self._find(SharePartitionKey(group_id, topic_id, index))
                if live is not None and not live.is_current:
                    self._drop(live)
                await give_way()

    # -- members -----------------------------------------------------------------------

    def watch(self, connection: Connection) -> None:
        """End a connection's sessions when the connection closes, or now if it is closed."""
        number = id(connection)
        if number not in self._watched:
            self._watched.add(number)
            connection.tell_when_closed(functools.partial(self._connection_closed, number))

    def _connection_closed(self, number: int) -> None:
        self._watched.discard(number)
        ending = Rest(self._end_all(self.sessions.of_connection(number)))
        if not ending.begin():
            self._retiring.spawn(ending.end())

    async def _end_all(self, sessions: list[ShareSession]) -> None:
        for session in sessions:
            self.leave(session)
            await give_way()

    async def hold_back(self, delay_s: float) -> None:
        """Delay the refusal of a session, so that the member does not retry immediately."""
        if not self.is_stopping:
            await wait_in([self._refused], 1, delay_s)

    def leave(self, session: ShareSession) -> None:
        """End a session whose member has left, unless the member has opened another since."""
        if self.sessions.is_open(session):
            self.close_session(session.member)

    def close_session(self, member: Member) -> None:
        """End the session of a member that has left, so that other members can get its records."""
        session = self.sessions.close(member)
        partitions = {} if session is None else session.partitions
        releasing = Rest(self._release(member, self._holding.pop(member, set()), partitions))
        is_done = not is_long_turn(asyncio.get_running_loop()) and releasing.begin()
        is_last = not self.sessions.has_group(member.group_id)
        if is_last:
            self._settings.pop(member.group_id, None)
        if is_last or not is_done:
            self._retiring.spawn(self._wind_up(member.group_id, releasing))

    async def _release(
        self,
        member: Member,
        held: set[SharePartitionKey],
        partitions: dict[SessionPartition, None],
    ) -> None:
        """Release a member's records: first in partitions where it holds some, then in the rest of
        its session's partitions, where a fetch of the member may be waiting.

        Stops if the member joins again meanwhile. The rest of the member's records then stays
        locked until the timeout.
        """
        group_id = member.group_id
        while (held or partitions) and not self.sessions.has(member):
            if held:
                key = held.pop()
                partitions.pop(SessionPartition(key.topic_id, key.partition), None)
                await self._release_one(member, key)
            else:
                (topic_id, partition), _ = partitions.popitem()
                if topic_id is not None:
                    key = SharePartitionKey(group_id, topic_id, partition)
                    await self._release_one(member, key)
            await give_way()

    async def _release_one(self, member: Member, key: SharePartitionKey) -> None:
        live = self._find(key)
        if live is not None:
            await live.releasing(member.member_id)

    async def _wind_up(self, group_id: str, releasing: Rest[None]) -> None:
        """Release the rest of a member's records, then drop share partitions without members."""
        await releasing
        unsettled = await self._retire(group_id)
        while unsettled:
            live = unsettled.pop()
            await live.settle()
            if self.sessions.has_group(group_id):
                return
            self._drop(live)
            await give_way()

    async def _retire(self, group_id: str) -> list[SharePartitionLeader]:
        """Drop share partitions without members; returns those with a write in progress."""
        unsettled: list[SharePartitionLeader] = []
        for live in self._each_of(group_id):
            if self.sessions.has_group(group_id):
                return []
            if live.is_settled:
                self._drop(live)
            else:
                unsettled.append(live)
            await give_way()
        return unsettled

    # -- the end -----------------------------------------------------------------------

    def finish(self) -> None:
        """Answer waiting fetches now, as the broker is stopping."""
        self.is_stopping = True
        self._refused.disturb()
        for live in self._all():
            live.room.disturb()

    async def close(self) -> None:
        """Finish all writes, and drop everything."""
        for live in self._all():
            await live.settle()
            self._drop(live)
        await self._retiring.settle()
