"""One incremental fetch session (KIP-227): the partitions that a reader named, and which have news.

Each partition that is remembered watches the real one, and so knows when there is something to
tell: records, another high watermark or log start offset, another leader epoch, its end. A fetch
looks only at those, whether there are ten or ten thousand of them:

- `dirty` has, in the order of their turn, all of which something may have to be told. What was
  looked at and had nothing new leaves it. What gave records stays, at its end, as it may have
  more; so does what was wrong, and what was not reached as the answer was full.
- Whether a log dir failed or came back is looked up at each fetch: it may be a thread that knows.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from drumlin.broker.fetching.partition_read import has_records
from drumlin.turns import Work

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drumlin.replication.partition import Partition
    from drumlin.wire.fetch_answer import Answer
    from drumlin.wire.fetch_request import Wanted

_STEP: Final = 64
_UNKNOWN: Final = -1
#: Of a topic's name so much is not counted; no topic has a longer one.
_NAME_BYTES: Final = 256


class Listener(Protocol):
    """The fetch that is under way in a session."""

    def gained(self, readable_bytes: int) -> None:
        """A partition of the session has more to read."""

    def disturb(self) -> None:
        """Something else is to be told now."""


class Watched:
    """A partition that a session remembers: what is asked of it, and what was last told.

    `partition` is the one in whose room it stands; None while there is none of that name.
    """

    __slots__ = ("high_watermark", "log_start_offset", "partition", "session", "topic", "wanted")

    def __init__(self, session: Session, topic: bytes, wanted: Wanted) -> None:
        self.session = session
        self.topic = topic
        self.wanted = wanted
        self.partition: Partition | None = None
        self.high_watermark = _UNKNOWN
        self.log_start_offset = _UNKNOWN

    def watch(self, partition: Partition | None) -> None:
        """Stand in this partition's room instead."""
        if self.partition is not None:
            self.partition.waiting.leave(self)
        self.partition = partition
        if partition is not None:
            partition.waiting.watch(self, also_for_stable=self.session.for_stable)

    def is_news(self, answer: Answer) -> bool:
        """Whether an incremental response has to name this partition."""
        error, high_watermark, _, log_start_offset, _, _, diverging = answer
        return (
            has_records(answer)
            or high_watermark != self.high_watermark
            or log_start_offset != self.log_start_offset
            or error != 0
            or diverging is not None
        )

    def told(self, answer: Answer) -> None:
        """Remember what is answered now."""
        # An error is repeated until it goes away, and then the partition is named once more.
        self.high_watermark = _UNKNOWN if answer[0] else answer[1]
        self.log_start_offset = answer[3]

    # -- as its partition's watcher -----------------------------------------------------

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
    """What is remembered of one reader. One fetch at a time is under way in it."""

    def __init__(self, session_id: int, now_s: float, *, by_id: bool) -> None:
        self.id = session_id
        self.by_id = by_id
        self.epoch = 1  # of the request that comes next
        self.created_at = self.used_at = now_s
        self.counted = 0  # partitions, as the cache has counted them
        self.is_ended = False
        self.for_stable = False
        self.fetch: Listener | None = None
        self.queue: deque[Callable[[], None]] = deque()  # fetches that came during another
        self.dirty: dict[Watched, None] = {}
        self._topics: dict[bytes, dict[int, Watched]] = {}
        self._size = 0
        self._long_names = 0
        self._log_dirs: list[OSError | None] = []

    def __len__(self) -> int:
        return self._size

    @property
    def weight(self) -> int:
        """Its partitions; names that no topic has count for as many as take the same memory."""
        return self._size + self._long_names

    def follow(
        self,
        topics: Sequence[tuple[bytes, Sequence[Wanted]]],
        forgotten: Sequence[tuple[bytes, Sequence[int]]],
    ) -> Work[None]:
        """Take over what a request names: more partitions, other offsets, what it forgets."""
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
                topic = next(iter(known.values())).topic  # the same bytes for all of them
            for wanted in parts:
                watched = known.get(wanted[0])
                if watched is None:
                    watched = known[wanted[0]] = Watched(self, topic, wanted)
                    self._size += 1
                    changed.append(watched)
                elif watched.wanted != wanted:
                    watched.wanted = wanted
                    changed.append(watched)
                steps += 1
                if steps % _STEP == 0:
                    yield  # both grow now and then, which takes long: not in the same turn
                    self._look_at(changed)
        self._look_at(changed)
        for topic, indexes in forgotten:
            for index in indexes:
                self._forget(topic, index)
                steps += 1
                if steps % _STEP == 0:
                    yield

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

    def is_to_be_looked_through(self, log_dirs: list[OSError | None], *, for_stable: bool) -> bool:
        """Whether all partitions may have news that nobody has told of."""
        return for_stable != self.for_stable or log_dirs != self._log_dirs

    def look_through(self, log_dirs: list[OSError | None], *, for_stable: bool) -> Work[None]:
        """Have all partitions looked at, as such readers and such log dirs see them."""
        self._log_dirs, self.for_stable = log_dirs, for_stable
        steps = 0
        for known in self._topics.values():
            for watched in known.values():
                watched.watch(None)  # it is to stand elsewhere
                self.dirty[watched] = None
                steps += 1
                if steps % _STEP == 0:
                    yield

    def to_the_back(self, watched: Watched) -> None:
        """It got records: others have their turn before it has one again."""
        self.dirty.pop(watched, None)
        self.dirty[watched] = None

    def clean(self, watched: Watched) -> None:
        """It was looked at, and has nothing new."""
        self.dirty.pop(watched, None)
        if not self.dirty:
            self.dirty = {}  # a dict keeps the memory of all that was ever in it

    def leave_all(self) -> Work[None]:
        """The session has ended: nothing more is to be told to it."""
        self.dirty = {}
        while self._topics:
            _, known = self._topics.popitem()
            while known:
                _, watched = known.popitem()
                watched.watch(None)
                self.dirty = {}
                self._size -= 1
                if self._size % _STEP == 0:
                    yield
