"""Incremental fetch sessions (KIP-227): what a consumer fetches is remembered between requests.

A session remembers, for each partition, what was asked and what was last answered; the next
request names only what changed, and the response only what is new. Sessions live in a cache
of limited size; a consumer whose session is gone is told so and starts another one.

Keys are `(topic name, topic id, partition)` as the request gave them: by name up to version
12, by id from 13 on, never both.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from drumlin.clock import Clock
from drumlin.wire.errors import ErrorCode, KafkaError

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EVICTION_S: Final = 120.0
_INT32_MAX: Final = 2**31 - 1
#: Of all sessions together; one takes some 400 bytes. Apache Kafka counts them, without a limit.
_PARTITIONS_MAX: Final = 200_000


class FetchKey(NamedTuple):
    """A partition as a fetch request names it; `name` is None where it comes by id."""

    name: str | None
    topic_id: UUID | None
    partition: int


class Wanted(NamedTuple):
    """What a request asks of one partition."""

    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int


@dataclass(slots=True)
class _Remembered:
    wanted: Wanted
    high_watermark: int = -1
    log_start_offset: int = -1

    def must_answer(self, answer: Any) -> bool:
        """Whether an incremental response has to name this partition; remembers the answer."""
        changed = (
            bool(answer.records)
            or answer.high_watermark != self.high_watermark
            or getattr(answer, "log_start_offset", -1) != self.log_start_offset
            or answer.error_code is not ErrorCode.none
            or _has_diverged(answer)
        )
        # An error is repeated until it goes away, and then the partition is named once more.
        failed = answer.error_code is not ErrorCode.none
        self.high_watermark = -1 if failed else answer.high_watermark
        self.log_start_offset = getattr(answer, "log_start_offset", -1)
        return changed


def _has_diverged(answer: Any) -> bool:
    diverging = getattr(answer, "diverging_epoch", None)
    return diverging is not None and diverging.epoch != -1


@dataclass(slots=True)
class _Session:
    id: int
    uses_topic_ids: bool
    epoch: int
    created_at: float
    used_at: float
    partitions: dict[FetchKey, _Remembered]


class FetchContext:
    """One fetch within, or without, a session: what to read, and what of it to answer."""

    def __init__(
        self,
        wanted: dict[FetchKey, Wanted],
        session: _Session | None = None,
        is_incremental: bool = False,
    ) -> None:
        self.wanted = wanted
        self._session = session
        self._is_incremental = is_incremental

    @property
    def session_id(self) -> int:
        return NO_SESSION if self._session is None else self._session.id

    def select(self, answers: dict[FetchKey, Any]) -> Iterator[tuple[FetchKey, Any]]:
        """The answers that belong into the response, in its order."""
        if self._session is None:
            yield from answers.items()
            return
        partitions = self._session.partitions
        for key, answer in answers.items():
            remembered = partitions.get(key)
            if remembered is None:
                continue
            must_answer = remembered.must_answer(answer)
            if self._is_incremental and answer.records:
                # Whoever got data goes to the back, so that nobody starves behind him.
                partitions[key] = partitions.pop(key)
            if must_answer or not self._is_incremental:
                yield key, answer


class FetchSessions:
    """The cache of sessions of one broker."""

    def __init__(
        self, max_sessions: int, clock: Clock, max_partitions: int = _PARTITIONS_MAX
    ) -> None:
        self._max_sessions = max_sessions
        self._max_partitions = max_partitions
        self._clock = clock
        self._sessions: dict[int, _Session] = {}  # least recently used first
        self._partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def open(
        self,
        session_id: int,
        epoch: int,
        wanted: dict[FetchKey, Wanted],
        forgotten: Iterable[FetchKey],
        uses_topic_ids: bool,
    ) -> FetchContext:
        """The context of one request.

        Raises:
            KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or
                FETCH_SESSION_TOPIC_ID_ERROR.
        """
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session_id != NO_SESSION:
                self._remove(session_id)
            if epoch == FINAL_EPOCH:
                return FetchContext(wanted)
            return FetchContext(wanted, self._create(wanted, uses_topic_ids))
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.fetch_session_id_not_found)
        if session.uses_topic_ids != uses_topic_ids:
            raise KafkaError(ErrorCode.fetch_session_topic_id_error)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.invalid_fetch_session_epoch)
        return self._go_on(session, wanted, forgotten)

    def _go_on(
        self, session: _Session, wanted: dict[FetchKey, Wanted], forgotten: Iterable[FetchKey]
    ) -> FetchContext:
        """
        Raises:
            KafkaError: FETCH_SESSION_ID_NOT_FOUND, as it has outgrown the cache.
        """
        self._remove(session.id)
        partitions = session.partitions
        for key, what in wanted.items():
            remembered = partitions.get(key)
            if remembered is None:
                partitions[key] = _Remembered(what)
            else:
                remembered.wanted = what
        for key in forgotten:
            partitions.pop(key, None)
        if not partitions:
            return FetchContext({})
        now = self._clock.monotonic()
        if not self._make_room_for_partitions(len(partitions), now):
            raise KafkaError(ErrorCode.fetch_session_id_not_found)
        session.epoch = 1 if session.epoch == _INT32_MAX else session.epoch + 1
        session.used_at = now
        self._add(session)
        everything = {key: remembered.wanted for key, remembered in partitions.items()}
        return FetchContext(everything, session, is_incremental=True)

    def _create(self, wanted: dict[FetchKey, Wanted], uses_topic_ids: bool) -> _Session | None:
        now = self._clock.monotonic()
        if not self._make_room(len(wanted), now):
            return None
        session_id = random.randint(1, _INT32_MAX)
        while session_id in self._sessions:
            session_id = random.randint(1, _INT32_MAX)
        partitions = {key: _Remembered(what) for key, what in wanted.items()}
        session = _Session(session_id, uses_topic_ids, 1, now, now, partitions)
        self._add(session)
        return session

    def _add(self, session: _Session) -> None:
        self._sessions[session.id] = session
        self._partition_count += len(session.partitions)

    def _remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partition_count -= len(session.partitions)

    def _make_room(self, size: int, now: float) -> bool:
        return self._make_room_for_one(size, now) and self._make_room_for_partitions(size, now)

    def _make_room_for_one(self, size: int, now: float) -> bool:
        """Evict a stale session, or an old one that is smaller than the new one would be."""
        if len(self._sessions) < self._max_sessions:
            return True
        if not self._sessions:  # there are to be none
            return False
        evicted = next(iter(self._sessions.values()))
        if not _is_stale(evicted, now):
            evicted = min(self._sessions.values(), key=_size)
            if _size(evicted) >= size or now - evicted.created_at <= _EVICTION_S:
                return False
        self._remove(evicted.id)
        return True

    def _make_room_for_partitions(self, size: int, now: float) -> bool:
        """Evict stale sessions, then such as take up more room than the one that asks for it."""
        if size > self._max_partitions:
            return False
        while self._partition_count + size > self._max_partitions:
            evicted = next(iter(self._sessions.values()))
            if not _is_stale(evicted, now):
                evicted = max(self._sessions.values(), key=_size)
                if _size(evicted) <= size:
                    return False
            self._remove(evicted.id)
        return True


def _size(session: _Session) -> int:
    return len(session.partitions)


def _is_stale(session: _Session, now: float) -> bool:
    return now - session.used_at > _EVICTION_S
