"""The fast lane of heartbeats: what a connection's member said before, said once more.

A member of the consumer protocol says the same thing every few seconds, and is told the same.
Here its request is known by its bytes, and the answer too if it has not changed. What becomes of
it decides the coordinator as ever. Whatever else a connection asks is left to
`handlers/consumer_group_heartbeat.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from drumlin.broker.dispatched import Dispatched
from drumlin.coordination.groups.consumer.messages import HeartbeatAnswer, HeartbeatRequest
from drumlin.coordination.written import Written
from drumlin.wire.errors import KafkaError
from drumlin.wire.frame_answers import AnswerTemplate, correlation_id_of

if TYPE_CHECKING:
    from drumlin.broker.broker import Broker

#: A longer request names so many partitions that it is not worth keeping.
FRAME_BYTES_MAX: Final = 16 * 1024
_KEY_AND_VERSION: Final = slice(0, 4)
_BODY: Final = slice(8, None)


class Learnt(NamedTuple):
    """What a lane knows of the request that it drives.

    answer, refuse: correlation id and what is to be said to a frame's parts.
    """

    group_id: str
    heartbeat: HeartbeatRequest
    answer: Callable[[int, HeartbeatAnswer], list[Any]]
    refuse: Callable[[int, KafkaError], list[Any]]


class HeartbeatLane:
    """Heartbeats of one connection's member."""

    __slots__ = ("_body", "_broker", "_form", "_key", "_learn", "_learnt", "_said")

    #: A connection has one such lane.
    kind: Final = b"heartbeats"

    def __init__(self, broker: Broker, learn: Callable[[memoryview], Learnt]) -> None:
        """`learn` gets to know a frame that the handler has seen before."""
        self._broker = broker
        self._learn = learn
        self._learnt: Learnt | None = None
        self._key = self._body = b""
        self._said: HeartbeatAnswer | None = None
        self._form: AnswerTemplate | None = None

    def watch(self, frame: memoryview) -> None:
        """A request goes the ordinary way; perhaps the next one is the same."""
        self._key, self._body = bytes(frame[_KEY_AND_VERSION]), bytes(frame[_BODY])
        self._learnt = self._said = None

    @property
    def is_over(self) -> bool:
        """Never: it looks for everything anew, and keeps nothing alive."""
        return False

    def recognises(self, frame: memoryview) -> bool:
        body = frame[_BODY]
        return (
            len(body) == len(self._body)
            and body == self._body
            and frame[_KEY_AND_VERSION] == self._key
        )

    def dispatch(self, frame: memoryview) -> Dispatched | None:
        """Drive a request to its end; None if it does not belong here."""
        if not self.recognises(frame):
            return None
        if self._learnt is None:
            self._learnt = self._learn(frame)
        learnt = self._learnt
        try:
            written = self._broker.groups.consumer_heartbeat(learnt.group_id, learnt.heartbeat)
        except KafkaError:
            return None  # nothing has happened: the handler is to tell
        correlation_id = correlation_id_of(frame)
        if not written.done():
            return Dispatched(None, _answer_later(written, learnt, correlation_id), True)
        return Dispatched([self._answer(learnt, correlation_id, written.result())])

    def _answer(self, learnt: Learnt, correlation_id: int, answer: HeartbeatAnswer) -> bytes:
        if answer != self._said or self._form is None:
            self._said = answer
            self._form = AnswerTemplate(b"".join(learnt.answer(0, answer)))
        return self._form.fill(correlation_id)


async def _answer_later(
    written: Written[HeartbeatAnswer], learnt: Learnt, correlation_id: int
) -> list[Any]:
    try:
        return learnt.answer(correlation_id, await written)
    except KafkaError as error:
        return learnt.refuse(correlation_id, error)
