"""One incremental fetch session (KIP-227): a reader's partitions, and which of them have news.

Each entry of the session watches its partition, and so knows when there is something to report:
records, a new high watermark, log start offset or leader epoch, or its deletion. A fetch examines
only such entries, whether the session has ten partitions or ten thousand:

- `dirty` holds all entries that may have something to report, in the order in which they are
  examined. An entry without news is removed. One that returned records moves to the end, as it may
  have more; entries with an error, and those that did not fit into the response, stay.
- Each fetch also checks for changes that partitions do not report: ACLs, and log dirs that have
  failed or come back (threads find this out, and threads must not touch `dirty`).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from drumlin.broker.fetch_sessions.partition_read import has_records
from drumlin.turns import give_way

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drumlin.broker.rights.session import Owner
    from drumlin.replication.replica import Replica
    from drumlin.wire.by_hand.fetch_answer import Answer
    from drumlin.wire.by_hand.fetch_request import Wanted

#: State outside the partitions on which a fetch depends; entries are not notified of its changes.
Circumstances: TypeAlias = "Sequence[object]"
_STEP: Final = 64
_UNKNOWN: Final = -1
#: A topic name longer than this counts as several partitions; no existing topic has one.
_NAME_BYTES: Final = 256


class Listener(Protocol):
    """The fetch in progress of a session."""

    def gained(self, readable_bytes: int) -> None:
        """Handle an advance: a partition of the session has more to read."""

    def disturb(self) -> None:
        """Handle other news, which must be reported now."""


class Watched:
    """A session's entry for one partition: what the reader wants, and what was last reported.

    `partition` is the partition that it watches; None while no partition of that name exists.
    """

    __slots__ = ("high_watermark", "log_start_offset", "partition", "session", "topic", "wanted")

    def __init__(self, session: Session, topic: bytes, wanted: Wanted) -> None:
        self.session = session
        self.topic = topic
        self.wanted = wanted
        self.partition: Replica | None = None
        self.high_watermark = _UNKNOWN
        self.log_start_offset = _UNKNOWN

    def watch(self, partition: Replica | None) -> None:
        """Watch this partition instead."""
        session = self.session
        if self.partition is not None:
            self.partition.waiting.leave(self)
            self.partition.replicas_waiting.leave(self)
        self.partition = partition
        if partition is not None:
            waiting = partition.replicas_waiting if session.is_follower else partition.waiting
            waiting.watch(self, also_for_stable=session.for_stable)

    def is_news(self, answer: Answer) -> bool:
        """Whether an incremental response must include this partition."""
        error, high_watermark, _, log_start_offset, _, _, diverging = answer
        return (
            has_records(answer)
            or high_watermark != self.high_watermark
            or log_start_offset != self.log_start_offset
            or error != 0
            or diverging is not None
        )

    def reported(self, answer: Answer) -> None:
        """Remember what this response reports."""
        # An error is repeated until it is gone; then the partition is named once more.
        self.high_watermark = _UNKNOWN if answer[0] else answer[1]
        self.log_start_offset = answer[3]

    # -- called by its partition -----------------------------------------------------

    def advanced(self, readable_bytes: int) -> None:
        session = self.session
        session.dirty[self] = None
        if session.fetch is not None and not session.for_stable:
            session.fetch.gained(readable_bytes)

    def stable_advanced(self, readable_bytes: int) -> None:
        session = self.session
        session.dirty[self] = None
        if session.fetch is not None:
            session.fetch.gained(readable_bytes)

    def disturb(self) -> None:
        session = self.session
        session.dirty[self] = None
        if session.fetch is not None:
            session.fetch.disturb()

    def note(self) -> None:
        self.session.dirty[self] = None


class Session:
    """The state of one reader. It has at most one fetch in progress."""

    def __init__(self, session_id: int, now_s: float, owner: Owner, *, by_id: bool) -> None:
        self.id = session_id
        self.owner = owner
        self.by_id = by_id
        self.epoch = 1  # expected in the next request
        self.created_at = self.used_at = now_s
        self.counted = 0  # partitions, as the cache has counted them
        self.is_ended = False
        self.for_stable = self.is_follower = False
        self.fetch: Listener | None = None
        self.queue: deque[Callable[[], None]] = deque()  # fetches that came during another
        self.dirty: dict[Watched, None] = {}
        self._topics: dict[bytes, dict[int, Watched]] = {}
        self._size = 0
        self._long_names = 0
        self._circumstances: Circumstances = ()

    def __len__(self) -> int:
        return self._size

    @property
    def weight(self) -> int:
        """The number of partitions; an overlong topic name counts as several, by its size."""
        return self._size + self._long_names

    async def follow(
        self,
        topics: Sequence[tuple[bytes, Sequence[Wanted]]],
        forgotten: Sequence[tuple[bytes, Sequence[int]]],
    ) -> None:
        """Apply a request: added partitions, changed offsets, forgotten partitions."""
        steps = 0
        changed: list[Watched] = []
        for topic, parts in topics:
            if not parts:
                continue
            known = self._topics.get(topic)
            if known is None:
                known = self._topics[topic] = {}
                self._long_names += len(topic) // _NAME_BYTES
            else:
                topic = next(iter(known.values())).topic  # one bytes object for all of them
            for wanted in parts:
                watched = known.get(wanted[0])
                if watched is None:
                    watched = known[wanted[0]] = Watched(self, topic, wanted)
                    self._size += 1
                    changed.append(watched)
                # A follower names a partition to report its fetch offset.
                elif watched.wanted != wanted or self.is_follower:
                    watched.wanted = wanted
                    changed.append(watched)
                steps += 1
                if steps % _STEP == 0:
                    await give_way()  # either dict may be reallocated: not both in one turn
                    self._look_at(changed)
        self._look_at(changed)
        for topic, indexes in forgotten:
            for index in indexes:
                self._forget(topic, index)
                steps += 1
                if steps % _STEP == 0:
                    await give_way()

    def _look_at(self, changed: list[Watched]) -> None:
        for watched in changed:
            self.dirty[watched] = None
        changed.clear()

    def _forget(self, topic: bytes, index: int) -> None:
        known = self._topics.get(topic, {})
        watched = known.pop(index, None)
        if watched is None:
            return
        watched.watch(None)
        self._size -= 1
        self.dirty.pop(watched, None)
        if not known:
            del self._topics[topic]
            self._long_names -= len(topic) // _NAME_BYTES

    def needs_full_check(self, circumstances: Circumstances, *, for_stable: bool) -> bool:
        """Whether partitions may have news of which their entries were not notified."""
        return for_stable != self.for_stable or circumstances != self._circumstances

    async def look_through(self, circumstances: Circumstances, *, for_stable: bool) -> None:
        """Mark all partitions for examination, as circumstances or the isolation level have
        changed.
        """
        self._circumstances, self.for_stable = circumstances, for_stable
        steps = 0
        for known in self._topics.values():
            for watched in known.values():
                watched.watch(None)  # the next examination watches the current partition
                self.dirty[watched] = None
                steps += 1
                if steps % _STEP == 0:
                    await give_way()

    def to_the_back(self, watched: Watched) -> None:
        """Move an entry that returned records behind all others."""
        self.dirty.pop(watched, None)
        self.dirty[watched] = None

    def clean(self, watched: Watched) -> None:
        """Remove an entry that was examined and has no news."""
        self.dirty.pop(watched, None)
        if not self.dirty:
            self.dirty = {}  # a dict never shrinks

    async def leave_all(self) -> None:
        """End the session: stop watching all partitions."""
        self.dirty = {}
        while self._topics:
            _, known = self._topics.popitem()
            while known:
                _, watched = known.popitem()
                watched.watch(None)
                self.dirty = {}
                self._size -= 1
                if self._size % _STEP == 0:
                    await give_way()
