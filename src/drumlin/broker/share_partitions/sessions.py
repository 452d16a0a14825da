"""Share sessions: the partitions that a member of a share group fetches, kept between requests.

A session belongs to one member of one group, and to the principal and listener that began it:
others do not find it. It ends with the connection that began it. Its epoch
counts the member's requests, fetches and acknowledgements alike, so that none is applied twice or
out of order. The number of sessions is limited, and so is the number of partitions of all sessions
together. Beyond these limits, new sessions are refused. Unlike a fetch session, a share session is
never evicted, as its member has locked records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from drumlin.broker.rights.session import Owner
from drumlin.coordination.counts import add
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_INT32_MAX: Final = 2**31 - 1
#: The most partitions of all sessions together; each takes some 200 bytes. Kafka has no such limit.
_PARTITIONS_MAX: Final = 200_000


class Member(NamedTuple):
    """The group and the member to which a session belongs."""

    group_id: str
    member_id: str


class SessionPartition(NamedTuple):
    """A partition as it is named in requests."""

    topic_id: UUID | None
    partition: int


@dataclass(slots=True)
class ShareSession:
    """A share session. partitions: in the order in which requests first named them."""

    member: Member
    owner: Owner
    connection: int
    epoch: int = 1
    partitions: dict[SessionPartition, None] = field(default_factory=dict)

    def in_turn(self, epoch: int) -> list[SessionPartition]:
        """The partitions, beginning with another one in each request, so that none starves."""
        partitions = list(self.partitions)
        start = epoch % len(partitions) if partitions else 0
        return partitions[start:] + partitions[:start]


class ShareSessions:
    """All share sessions of a broker."""

    def __init__(self, max_partitions: int = _PARTITIONS_MAX) -> None:
        self._max_partitions = max_partitions
        self._sessions: dict[Member, ShareSession] = {}
        self._partition_count = 0
        self._of_group: dict[str, int] = {}
        self._of_connection: dict[int, dict[Member, None]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(
        self,
        member: Member,
        owner: Owner,
        partitions: Iterable[SessionPartition],
        connection: int,
        max_sessions: int,
        *,
        acknowledges: bool,
    ) -> ShareSession:
        """A new session, in place of the member's old one.

        Raises:
            KafkaError: INVALID_REQUEST, a new session has nothing to acknowledge;
                SHARE_SESSION_NOT_FOUND, the old session belongs to another owner;
                SHARE_SESSION_LIMIT_REACHED, and the old session stays until its connection ends.
        """
        if acknowledges:
            raise KafkaError(
                ErrorCode.invalid_request, "the first fetch of a session acknowledges nothing"
            )
        old = self._sessions.get(member)
        if old is not None and old.owner != owner:
            raise KafkaError(ErrorCode.share_session_not_found)
        if old is None and len(self._sessions) >= max_sessions:
            raise KafkaError(ErrorCode.share_session_limit_reached)
        own = partitions.copy() if isinstance(partitions, dict) else dict.fromkeys(partitions)
        session = ShareSession(member, owner, connection, partitions=own)
        self._check_room(len(session.partitions) - (0 if old is None else len(old.partitions)))
        self.close(member)
        self._partition_count += len(session.partitions)
        add(self._of_group, member.group_id, 1)
        self._of_connection.setdefault(connection, {})[member] = None
        self._sessions[member] = session
        return session

    async def go_on(
        self,
        member: Member,
        owner: Owner,
        epoch: int,
        added: Collection[SessionPartition] = (),
        forgotten: Collection[SessionPartition] = (),
    ) -> ShareSession:
        """Advance the session to its next epoch.

        The epoch changes after all checks, in one step without an await.

        Raises:
            KafkaError: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH,
                SHARE_SESSION_LIMIT_REACHED; the session is unchanged.
        """
        session = self._due(member, owner, epoch)
        former: dict[SessionPartition, None] = {}
        if added or forgotten:
            partitions = session.partitions.copy()
            await _add_all(partitions, added)
            room = len(partitions) - len(session.partitions)
            self._check_room(room)
            await _remove_all(partitions, forgotten)
            if self._due(member, owner, epoch) is not session:  # replaced meanwhile
                raise KafkaError(ErrorCode.share_session_not_found)
            self._check_room(room)
            former = session.partitions
            self._partition_count += len(partitions) - len(former)
            session.partitions = partitions
        session.epoch = 1 if epoch == _INT32_MAX else epoch + 1
        return session

    def _due(self, member: Member, owner: Owner, epoch: int) -> ShareSession:
        """The member's session, if `epoch` is the session's next epoch."""
        session = self.get(member, owner)
        if session.epoch != epoch:
            raise KafkaError(
                ErrorCode.invalid_share_session_epoch,
                f"session epoch {epoch}, expected {session.epoch}",
            )
        return session

    def _check_room(self, size: int) -> None:
        if size > 0 and self._partition_count + size > self._max_partitions:
            message = f"all sessions together may have {self._max_partitions} partitions"
            raise KafkaError(ErrorCode.share_session_limit_reached, message)

    def get(self, member: Member, owner: Owner) -> ShareSession:
        """
        Raises:
            KafkaError: SHARE_SESSION_NOT_FOUND.
        """
        session = self._sessions.get(member)
        if session is None or session.owner != owner:
            raise KafkaError(ErrorCode.share_session_not_found)
        return session

    def partitions_of(self, member: Member) -> dict[SessionPartition, None]:
        """The partitions of the member's session, if it has one."""
        session = self._sessions.get(member)
        return {} if session is None else session.partitions

    def is_open(self, session: ShareSession) -> bool:
        """Whether the session was neither closed nor replaced by another one."""
        return self._sessions.get(session.member) is session

    def close(self, member: Member) -> ShareSession | None:
        """End the member's session; returns it."""
        session = self._sessions.pop(member, None)
        if session is not None:
            self._partition_count -= len(session.partitions)
            add(self._of_group, member.group_id, -1)
            of_connection = self._of_connection[session.connection]
            del of_connection[member]
            if not of_connection:
                del self._of_connection[session.connection]
        return session

    def has(self, member: Member) -> bool:
        """Whether the member has a session."""
        return member in self._sessions

    def has_group(self, group_id: str) -> bool:
        """Whether any member of the group has a session."""
        return group_id in self._of_group

    def of_connection(self, connection: int) -> list[ShareSession]:
        """The sessions that began on a connection."""
        return [self._sessions[member] for member in self._of_connection.get(connection, ())]


async def _add_all(
    partitions: dict[SessionPartition, None], added: Iterable[SessionPartition]
) -> None:
    for each in added:
        partitions[each] = None
        await give_way()


async def _remove_all(
    partitions: dict[SessionPartition, None], forgotten: Iterable[SessionPartition]
) -> None:
    for each in forgotten:
        partitions.pop(each, None)
        await give_way()
