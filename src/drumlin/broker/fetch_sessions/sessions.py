"""The cache of incremental fetch sessions (KIP-227), bounded in number and size.

A consumer whose session was evicted gets an error and starts another one. To anyone but its owner a
session does not exist, even if they know its id. `session.py` knows which partitions of a session
have news.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from typing import Any, Final

from drumlin.broker.fetch_sessions.session import Session
from drumlin.broker.rights.session import Owner
from drumlin.clock import Clock
from drumlin.turns import to_end
from drumlin.wire.error_codes import ErrorCode, KafkaError

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EVICTION_S: Final = 120.0
_INT32_MAX: Final = 2**31 - 1
#: Partitions of all sessions together; each takes some 300 bytes. Apache Kafka has no such limit.
_PARTITIONS_MAX: Final = 200_000
#: A session of up to this many partitions is freed at once.
_SMALL: Final = 256
_LARGE_AT_A_TIME: Final = 2


class FetchSessions:
    """The sessions of one broker."""

    def __init__(
        self,
        max_sessions: int,
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None]], object] = to_end,
        max_partitions: int = _PARTITIONS_MAX,
    ) -> None:
        self._max_sessions = max_sessions
        self._max_partitions = max_partitions
        self._clock = clock
        self._spawn = spawn
        self._sessions: dict[int, Session] = {}  # least recently used first
        self._partition_count = 0
        #: Held by large requests while a thread parses them.
        self.reading_large = asyncio.Semaphore(_LARGE_AT_A_TIME)

    def __len__(self) -> int:
        return len(self._sessions)

    def create(self, size: int, owner: Owner, *, by_id: bool) -> Session | None:
        """A session for `size` partitions; None if there is no room for it."""
        now_s = self._clock.monotonic()
        if not (self._make_room_for_one(size, now_s) and self._make_room_for(size, now_s)):
            return None
        session_id = _new_id()
        while session_id in self._sessions:
            session_id = _new_id()
        session = Session(session_id, now_s, owner, by_id=by_id)
        self._add(session, size)
        return session

    def _of(self, session_id: int, owner: Owner) -> Session | None:
        session = self._sessions.get(session_id)
        return session if session is not None and session.owner == owner else None

    def busy(self, session_id: int, epoch: int, owner: Owner) -> Session | None:
        """The session with this id, if it has a request in progress or queued.

        Raises:
            KafkaError: INVALID_FETCH_SESSION_EPOCH, the request's epoch is not the next one.
        """
        session = self._of(session_id, owner)
        if session is None or (session.fetch is None and not session.queue):
            return None
        if epoch != _later_epoch(session.epoch, len(session.queue)):
            raise KafkaError(ErrorCode.invalid_fetch_session_epoch)
        return session

    def find(self, session_id: int, epoch: int, owner: Owner, *, by_id: bool) -> Session:
        """The existing session that a request names.

        Raises:
            KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or
                FETCH_SESSION_TOPIC_ID_ERROR.
        """
        session = self._of(session_id, owner)
        if session is None:
            raise KafkaError(ErrorCode.fetch_session_id_not_found)
        if session.by_id != by_id:
            raise KafkaError(ErrorCode.fetch_session_topic_id_error)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.invalid_fetch_session_epoch)
        return session

    def use(self, session: Session) -> None:
        """Note that a request uses the session: the next one must have the next epoch."""
        session.epoch = _later_epoch(session.epoch, 1)
        session.used_at = self._clock.monotonic()
        if self._sessions.pop(session.id, None) is not None:
            self._sessions[session.id] = session

    def recount(self, session: Session) -> None:
        """Count a session's partitions again after a request; it ends if it outgrew the cache.

        Raises:
            KafkaError: FETCH_SESSION_ID_NOT_FOUND, the session has outgrown the cache.
        """
        if session.is_ended:
            return
        weight = session.weight
        if weight <= session.counted:
            self._partition_count -= session.counted - weight
            session.counted = weight
            return
        self._remove(session)
        if not self._make_room_for(weight, self._clock.monotonic()):
            self._end(session)
            raise KafkaError(ErrorCode.fetch_session_id_not_found)
        self._add(session, weight)

    def close(self, session_id: int, owner: Owner) -> None:
        """End the session with this id, if its owner has one."""
        session = self._of(session_id, owner)
        if session is not None:
            self._remove(session)
            self._end(session)

    def finished(self, session: Session) -> None:
        """Note that the session's fetch has ended."""
        session.fetch = None
        if session.is_ended:
            self._let_go(session)

    # -- eviction -----------------------------------------------------------------------

    def _add(self, session: Session, size: int) -> None:
        self._sessions[session.id] = session
        session.counted = size
        self._partition_count += size

    def _remove(self, session: Session) -> None:
        del self._sessions[session.id]
        self._partition_count -= session.counted

    def _end(self, session: Session) -> None:
        session.is_ended = True
        if session.fetch is None:
            self._let_go(session)
        else:
            session.fetch.disturb()  # it answers, and then releases the session

    def _let_go(self, session: Session) -> None:
        work = session.leave_all()
        if len(session) > _SMALL:
            self._spawn(work)
        else:
            to_end(work)

    def _make_room_for_one(self, size: int, now_s: float) -> bool:
        """Evict a stale session, or an old one that is smaller than the new one would be."""
        if len(self._sessions) < self._max_sessions:
            return True
        if not self._sessions:  # the configuration allows no sessions
            return False
        evicted = next(iter(self._sessions.values()))
        if not _is_stale(evicted, now_s):
            evicted = min(self._sessions.values(), key=_size)
            if evicted.counted >= size or now_s - evicted.created_at <= _EVICTION_S:
                return False
        self._remove(evicted)
        self._end(evicted)
        return True

    def _make_room_for(self, size: int, now_s: float) -> bool:
        """Evict stale sessions, then those that are larger than the one that needs the room."""
        if size > self._max_partitions:
            return False
        while self._partition_count + size > self._max_partitions:
            evicted = next(iter(self._sessions.values()))
            if not _is_stale(evicted, now_s):
                evicted = max(self._sessions.values(), key=_size)
                if evicted.counted <= size:
                    return False
            self._remove(evicted)
            self._end(evicted)
        return True


def _new_id() -> int:
    return 1 + secrets.randbelow(_INT32_MAX)


def _later_epoch(epoch: int, steps: int) -> int:
    """The epoch `steps` later; epochs wrap around to one, as zero begins a session."""
    return (epoch - 1 + steps) % _INT32_MAX + 1


def _size(session: Session) -> int:
    return session.counted


def _is_stale(session: Session, now_s: float) -> bool:
    return now_s - session.used_at > _EVICTION_S
