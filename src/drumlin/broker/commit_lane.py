"""The fast lane of offset commits: what a connection's consumer committed before, further on.

Only the ordinary case is driven here: positions that all may be committed. Whatever is different
is left to `handlers/offset_commit.py`, which decides it from the start; nothing has been changed
by then. A lane learns what it recognises when a request has the size of the one before, and the
less often the longer that has led to nothing: a client that never repeats itself costs little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from drumlin.broker.dispatched import Dispatched
from drumlin.coordination.groups.repeated_commit import RepeatedCommit
from drumlin.coordination.written import Written
from drumlin.metadata.image import TopicState
from drumlin.wire.commit_template import RequestTemplate
from drumlin.wire.errors import KafkaError
from drumlin.wire.frame_answers import AnswerTemplate

if TYPE_CHECKING:
    from drumlin.broker.broker import Broker

#: A longer request has so many partitions that its parsing is not what counts.
FRAME_BYTES_MAX: Final = 16 * 1024
#: After ten lessons in vain, and from then on, every 1024th request is one.
_DOUBLINGS_MAX: Final = 10


class Learnt(NamedTuple):
    """What a lane knows of the requests that it drives."""

    topics: Sequence[TopicState]
    """As they were: where one has changed since, partitions are to be looked for again."""
    commit: RepeatedCommit
    request: RequestTemplate
    answer: AnswerTemplate
    refuse: Callable[[int, KafkaError], list[Any]]
    """The answer to a request that failed: correlation id and reason to a frame's parts."""


#: Gets to know a frame; None if nothing can be repeated of it.
Learn = Callable[[memoryview], Learnt | None]


class CommitLane:
    """Requests of one connection's consumer."""

    __slots__ = ("_broker", "_latest", "_learn", "_learnt", "_lessons_in_vain", "_until_lesson")

    #: A connection has one such lane.
    kind: Final = b"offset commits"

    def __init__(self, broker: Broker, learn: Learn) -> None:
        self._broker = broker
        self._learn = learn
        self._latest: bytes | None = None
        self._learnt: Learnt | None = None
        self._lessons_in_vain = self._until_lesson = 0

    def watch(self, frame: memoryview) -> None:
        """A request goes the ordinary way; perhaps the next one is like it."""
        self._until_lesson -= 1
        if self._until_lesson <= 0 and not self.recognises(frame):
            self._latest = bytes(frame)

    @property
    def is_over(self) -> bool:
        """Never: it looks for everything anew, and keeps nothing alive."""
        return False

    def recognises(self, frame: memoryview) -> bool:
        return self._learnt is not None and self._learnt.request.positions_in(frame) is not None

    def dispatch(self, frame: memoryview) -> Dispatched | None:
        """Drive a request to its end; None if it does not belong here."""
        if self._latest is not None and len(self._latest) == len(frame):
            self._learnt = self._learn(memoryview(self._latest))
            self._latest = None
            self._until_lesson = 1 << min(self._lessons_in_vain, _DOUBLINGS_MAX)
            self._lessons_in_vain += 1
        learnt = self._learnt
        positions = None if learnt is None else learnt.request.positions_in(frame)
        if learnt is None or positions is None:
            return None
        self._lessons_in_vain = self._until_lesson = 0
        known = self._broker.metadata.image.topics
        for topic in learnt.topics:
            if known.get(topic.name) is not topic:
                self._learnt = None
                return None
        try:
            written = self._broker.groups.commit_again(
                learnt.commit, positions.offsets, positions.leader_epochs
            )
        except KafkaError:
            return None
        if written is None:
            return None
        if written.done():
            return Dispatched([learnt.answer.fill(positions.correlation_id)])
        return Dispatched(None, _answer(written, learnt, positions.correlation_id), True)


async def _answer(written: Written[None], learnt: Learnt, correlation_id: int) -> list[Any]:
    try:
        await written
    except KafkaError as error:
        return learnt.refuse(correlation_id, error)
    return [learnt.answer.fill(correlation_id)]
