"""Fetches in an incremental session (KIP-227): only partitions with news are read and answered.

The first fetch of a session answers all partitions. In later ones the request names only what
changed, and the response only what is new. Requests of one session are handled one after the other:
a request that arrives while another is in progress waits until that is answered. A session whose
request fails is ended, as the data that its client has received is unknown.
"""

from __future__ import annotations

from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final

from drumlin.broker.fetch_sessions.partition_read import has_records, note_sent
from drumlin.broker.fetch_sessions.sessions import NO_SESSION
from drumlin.broker.fetching.fetch import STEP, Fetch
from drumlin.broker.loop.garbage import settled
from drumlin.turns import give_way
from drumlin.wire.by_hand.fetch_answer import NOTHING, Answer, Joined
from drumlin.wire.error_codes import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from drumlin.broker.context import RequestContext
    from drumlin.broker.fetch_sessions.session import Circumstances, Session, Watched
    from drumlin.broker.loop.later import Parts
    from drumlin.replication.replica import Replica
    from drumlin.wire.by_hand.fetch_request import FetchRequest, Wanted

#: Partitions that are examined, or taken from a request, between two chances to give way.
_AT_ONCE: Final = 128


class SessionFetch(Fetch):
    """One request of a session: the first one, which has no id yet, or a later one."""

    __slots__ = (
        "_gained",
        "_is_incremental",
        "_items",
        "_looked_through_for",
        "_needed",
        "_news",
        "_request_size",
        "_session",
        "_waits_for",
    )

    def __init__(
        self,
        context: RequestContext,
        request: FetchRequest,
        created: Session | None,
        request_size: int,
    ) -> None:
        """`created` is the session for this request; without it, the request names an existing one.

        request_size: the number of partitions that the request names or forgets.
        """
        super().__init__(context, request)
        self._session: Session | None = created
        self._waits_for: Session | None = None  # the session whose queue it is in
        self._is_incremental = created is None
        self._request_size = request_size
        self._items: list[Watched] = []
        #: The new circumstances, if the next pass must check all partitions because of them.
        self._looked_through_for: Circumstances | None = None
        self._news: dict[Watched, Answer] = {}
        self._gained = 0
        self._needed = 0

    # -- one after the other ------------------------------------------------------------

    def may_start(self) -> bool:
        session = self._session
        if session is None:
            request, sessions = self.request, self.broker.fetch_sessions
            owner = self.context.session.owner
            busy = sessions.busy(request.session_id, request.session_epoch, owner)
            if busy is not None:
                self._waits_for = busy
                busy.queue.append(self._take_turn)
                if busy.fetch is not None:
                    busy.fetch.disturb()
                return False
            try:
                session = self._find()
            except KafkaError:
                self.end(is_answered=False)
                raise
        self._begin(session)
        return True

    def _find(self) -> Session:
        request, owner = self.request, self.context.session.owner
        sessions = self.broker.fetch_sessions
        return sessions.find(request.session_id, request.session_epoch, owner, by_id=self.by_id)

    def _begin(self, session: Session) -> None:
        self._session = session
        session.fetch, session.is_follower = self, self.is_follower
        if self._is_incremental:
            self.broker.fetch_sessions.use(session)

    def _take_turn(self) -> None:
        """Start: all earlier requests of the session have been answered."""
        self._waits_for = None
        try:
            self._begin(self._find())
        except KafkaError as error:
            self.fail(error)
        else:
            self.go_on()

    def over(self, *, is_answered: bool) -> None:
        session, sessions = self._session, self.broker.fetch_sessions
        self._news = {}
        if self._waits_for is not None:
            self._waits_for.queue.remove(self._take_turn)
        if session is None or session.fetch is not self:
            return
        if not is_answered and not session.is_ended:
            sessions.close(session.id, session.owner)
        sessions.finished(session)
        if session.queue:
            self._have_next(session)

    def _have_next(self, session: Session) -> None:
        """Begin the next request in the queue; no later one may overtake it."""

        def begin() -> None:
            if session.fetch is None and session.queue:
                session.queue.popleft()()
            if session.queue:
                if session.fetch is None:
                    wakeups.add(begin)
                else:
                    session.fetch.disturb()

        wakeups = self.broker.wakeups
        wakeups.add(begin)

    # -- reading ------------------------------------------------------------------------

    def is_next_large(self) -> bool:
        session = self._the_session
        circumstances = self._circumstances()
        looks_through = session.needs_full_check(circumstances, for_stable=self.for_stable)
        self._looked_through_for = circumstances if looks_through else None
        count = len(session) if looks_through else len(session.dirty)
        return count + self._request_size + len(self._news) > _AT_ONCE

    def _circumstances(self) -> Circumstances:
        failures = [directory.failure for directory in self.broker.logs.directories]
        authorizer = self.broker.authorizer
        if authorizer is None:
            return failures
        return [*failures, authorizer.version, self.context.session.host]

    @property
    def is_empty(self) -> bool:
        return not len(self._the_session)

    @property
    def _the_session(self) -> Session:
        assert self._session is not None
        return self._session

    async def prepare(self) -> None:
        session = self._the_session
        circumstances, self._looked_through_for = self._looked_through_for, None
        if circumstances is not None:
            await session.look_through(circumstances, for_stable=self.for_stable)
        if self._request_size:
            await session.follow(self.request.topics, self.request.forgotten)
            self._request_size = 0
            self.broker.fetch_sessions.recount(session)
            if self._is_incremental and not len(session):
                self.broker.fetch_sessions.close(session.id, session.owner)
        self._items = settled(list(session.dirty))
        self._gained = 0

    def amount(self) -> int:
        return len(self._items)

    def read_some(self, count: int) -> None:
        answers, reading, session = self.answers, self.reading, self._the_session
        topic: bytes | None = None
        found: Mapping[int, Replica] = {}
        at = len(answers)
        for watched in islice(self._items, at, at + count) if at else self._items[:count]:
            if reading.bytes_left <= 0 and reading.read_bytes and self._is_incremental:
                del self._items[len(answers) :]  # the rest comes first in the next pass
                break
            if watched.topic is not topic:
                topic = watched.topic
                found = self.partitions_of(topic)
            partition = found.get(watched.wanted[0])
            if partition is None:
                try:
                    partition = self.missing(watched.topic, watched.wanted)
                except KafkaError as error:
                    watched.watch(None)
                    reading.must_answer = True
                    self._put(watched, self.refused(error, watched.topic, watched.wanted[0]))
                    continue
            if partition is not watched.partition:
                watched.watch(partition)
            answer = reading.follow(partition, watched.wanted) if reading.is_follower else None
            if answer is None:
                answer = reading.look(partition, watched.wanted, may_block=False)
            if answer[0]:
                answer = self.hinted(answer, watched.topic, watched.wanted[0])
            if answer[5] is not NOTHING or answer[0] or answer[6]:
                reading.take(answer)
            else:
                session.clean(watched)
            self._put(watched, answer)

    def _put(self, watched: Watched, answer: Answer) -> None:
        self.answers.append(answer)
        self._keep(watched, answer)

    def _keep(self, watched: Watched, answer: Answer) -> None:
        if not self._is_incremental or watched.is_news(answer):
            self._news[watched] = answer
        else:
            self._news.pop(watched, None)

    def wanted_next(self) -> tuple[Replica, Wanted]:
        number = len(self.answers)
        return self.partition_of(number), self._items[number].wanted

    def partition_of(self, number: int) -> Replica:
        watched = self._items[number]
        return self.find(watched.topic, watched.wanted)

    def put_cold(self, answer: Answer) -> None:
        # The partition stays in `dirty`: records may have arrived while the thread was reading.
        self._put(self._items[len(self.answers)], answer)

    def replace(self, number: int, answer: Answer) -> None:
        self.answers[number] = answer
        self._keep(self._items[number], answer)

    def release(self) -> None:
        super().release()
        for watched, answer in zip(self._items, self.answers, strict=False):
            if has_records(answer):
                self._news.pop(watched, None)

    # -- waiting ------------------------------------------------------------------------

    async def enter(self, needed: int) -> None:
        self._needed = needed
        if self._gained >= needed:
            self.wake()

    def leave(self) -> None:
        self._needed = 0
        self._items = []

    def gained(self, readable_bytes: int) -> None:
        self._gained += readable_bytes
        if 0 < self._needed <= self._gained:
            self.wake()

    def disturb(self) -> None:
        self.wake()

    # -- answering ----------------------------------------------------------------------

    def withhold(self) -> int:
        session = self._the_session
        if not self._is_incremental:  # the client does not know the new session
            self.broker.fetch_sessions.close(session.id, session.owner)
        for watched in self._news:
            session.dirty[watched] = None
        return self._told_session_id()

    async def write(self) -> Parts:
        return await self._write_in_turns() if self._is_large else self._write_at_once()

    def _write_at_once(self) -> Parts:
        writer, pieces, topics = self.writer, list[Any](), 0
        for topic, news in groupby(self._news.items(), _topic_of):
            told = list(news)
            pieces.append(writer.topic(topic, len(told)))
            self._write_some(pieces, told)
            pieces.append(writer.topic_end)
            topics += 1
        session_id, endpoints = self._told_session_id(), self.endpoints()
        correlation_id = self.context.header.correlation_id
        return writer.frame(
            correlation_id, topics, pieces, session_id=session_id, endpoints=endpoints
        )

    async def _write_in_turns(self) -> Parts:
        writer, joined = self.writer, Joined()
        news = list(self._news.items())
        topics = at = 0
        while at < len(news):
            topic, end = news[at][0].topic, at
            while end < len(news) and news[end][0].topic == topic:
                end += 1
                if end % STEP == 0:
                    await give_way()
            topics += 1
            pieces: list[Any] = [writer.topic(topic, end - at)]
            for first in range(at, end, STEP):
                self._write_some(pieces, news[first : min(end, first + STEP)])
                joined.add(pieces)
                pieces = []
                await give_way()
            joined.add([writer.topic_end])
            at = end
        correlation_id = self.context.header.correlation_id
        session_id = self._told_session_id()
        return writer.frame_of(correlation_id, topics, joined, session_id, self.endpoints())

    def _write_some(self, pieces: list[Any], told: list[tuple[Watched, Answer]]) -> None:
        """Add partitions of a topic to a response's pieces."""
        session, traffic = self._the_session, self.broker.traffic
        for watched, answer in told:
            watched.reported(answer)
            note_sent(traffic, watched.partition, answer, to_follower=self.is_follower)
            if self._is_incremental and has_records(answer):
                session.to_the_back(watched)
        self.writer.partitions(pieces, [(each.wanted[0], answer) for each, answer in told])

    def _told_session_id(self) -> int:
        session = self._the_session
        return NO_SESSION if session.is_ended else session.id


def _topic_of(news: tuple[Watched, Answer]) -> bytes:
    return news[0].topic
