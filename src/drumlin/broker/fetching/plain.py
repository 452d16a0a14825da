"""Fetches without a session: every partition of the request is read and answered."""

from __future__ import annotations

import contextlib
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from drumlin.broker.fetch_sessions.partition_read import has_records, note_sent
from drumlin.broker.fetching.fetch import STEP, Fetch
from drumlin.replication.waiting_room import Waiter, WaitingRoom
from drumlin.turns import give_way
from drumlin.wire.by_hand.fetch_answer import NOTHING, Answer, Joined
from drumlin.wire.error_codes import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from drumlin.broker.context import RequestContext
    from drumlin.broker.loop.later import Parts
    from drumlin.replication.replica import Replica
    from drumlin.wire.by_hand.fetch_request import FetchRequest, Wanted

#: Partitions that are read between two chances to give way.
_AT_ONCE: Final = 128


class PlainFetch(Fetch):
    """A fetch without a session: nothing is kept after the answer."""

    __slots__ = ("_amount", "_items", "_rooms", "_waiter")

    def __init__(self, context: RequestContext, request: FetchRequest, amount: int) -> None:
        """`amount`: the number of partitions that the request names."""
        super().__init__(context, request)
        self._amount = amount
        self._items: list[tuple[bytes, Wanted]] = []
        self._rooms: list[WaitingRoom] = []
        self._waiter: Waiter | None = None

    def is_next_large(self) -> bool:
        return self._amount > _AT_ONCE

    @property
    def is_empty(self) -> bool:
        return not self._amount

    async def prepare(self) -> None:
        if self._items:  # left from the previous pass
            return
        if not self._is_large:
            topics = self.request.topics
            self._items = [(topic, wanted) for topic, parts in topics for wanted in parts]
            return
        for topic, parts in self.request.topics:
            for first in range(0, len(parts), STEP):
                self._items += [(topic, wanted) for wanted in parts[first : first + STEP]]
                await give_way()

    def amount(self) -> int:
        return self._amount

    def read_some(self, count: int) -> None:
        answers, reading = self.answers, self.reading
        look, put = reading.look, answers.append
        at, topic = len(answers), None
        found: Mapping[int, Replica] = {}
        for name, wanted in islice(self._items, at, at + count) if at else self._items[:count]:
            if name is not topic:
                topic, found = name, self.partitions_of(name)
            partition = found.get(wanted[0])
            if partition is None:
                try:
                    partition = self.missing(name, wanted)
                except KafkaError as error:
                    reading.must_answer = True
                    put(self.refused(error, name, wanted[0]))
                    continue
            answer = reading.follow(partition, wanted) if reading.is_follower else None
            if answer is None:
                answer = look(partition, wanted, may_block=False)
            if answer[0]:
                answer = self.hinted(answer, name, wanted[0])
            if answer[5] is not NOTHING or answer[0] or answer[6]:
                reading.take(answer)
            put(answer)

    def partition_of(self, number: int) -> Replica:
        topic, wanted = self._items[number]
        return self.find(topic, wanted)

    def wanted_next(self) -> tuple[Replica, Wanted]:
        number = len(self.answers)
        return self.partition_of(number), self._items[number][1]

    def put_cold(self, answer: Answer) -> None:
        self.answers.append(answer)

    def replace(self, number: int, answer: Answer) -> None:
        self.answers[number] = answer

    # -- waiting ------------------------------------------------------------------------

    async def enter(self, needed: int) -> None:
        waiter = self._waiter = Waiter(needed, self.wake)
        for number, ((topic, wanted), answer) in enumerate(
            zip(self._items, self.answers, strict=True)
        ):
            partition = self.partitions_of(topic).get(wanted[0])
            if partition is not None:
                room = partition.replicas_waiting if self.is_follower else partition.waiting
                room.enter(waiter, for_stable=self.for_stable)
                self._rooms.append(room)
            if (
                partition is None
                or partition.high_watermark != answer[1]
                or partition.log_start_offset != answer[3]
            ):
                waiter.disturb()  # the partition has changed since it was read
            if number % STEP == STEP - 1:
                await give_way()

    def leave(self) -> None:
        rooms, self._rooms = self._rooms, []
        waiter, self._waiter = self._waiter, None
        if waiter is None:
            return
        if len(rooms) > _AT_ONCE:
            self.broker.background.spawn(_leave(waiter, rooms))
        else:
            for room in rooms:
                room.leave(waiter)

    # -- answering ----------------------------------------------------------------------

    def _note_sent(self, topic: bytes, parts: Sequence[Wanted], at: int) -> None:
        """Write the answers for partitions of a topic, which begin at answer number `at`."""
        if not self.reading.read_bytes:
            return
        traffic, is_follower = self.broker.traffic, self.is_follower
        for number, wanted in enumerate(parts, at):
            answer = self.answers[number]
            if has_records(answer):
                with contextlib.suppress(KafkaError):  # it has been removed meanwhile
                    partition = self.find(topic, wanted)
                    note_sent(traffic, partition, answer, to_follower=is_follower)

    def _write_at_once(self) -> Parts:
        writer, answers = self.writer, iter(self.answers)
        pieces: list[Any] = []
        topics, at = self.request.topics, 0
        for topic, parts in topics:
            self._note_sent(topic, parts, at)
            at += len(parts)
            pieces.append(writer.topic(topic, len(parts)))
            writer.partitions(pieces, zip([each[0] for each in parts], answers, strict=False))
            pieces.append(writer.topic_end)
        correlation_id = self.context.header.correlation_id
        return writer.frame(correlation_id, len(topics), pieces, endpoints=self.endpoints())

    async def write(self) -> Parts:
        if not self._is_large:
            return self._write_at_once()
        writer, answers = self.writer, iter(self.answers)
        joined = Joined()
        topics, at = self.request.topics, 0
        for topic, parts in topics:
            pieces: list[Any] = [writer.topic(topic, len(parts))]
            for first in range(0, len(parts), STEP):
                self._note_sent(topic, parts[first : first + STEP], at)
                step = [each[0] for each in parts[first : first + STEP]]
                at += len(step)
                writer.partitions(pieces, zip(step, answers, strict=False))
                joined.add(pieces)
                pieces = []
                await give_way()
            joined.add([writer.topic_end])
        correlation_id = self.context.header.correlation_id
        return writer.frame_of(correlation_id, len(topics), joined, endpoints=self.endpoints())


async def _leave(waiter: Waiter, rooms: list[WaitingRoom]) -> None:
    for number, room in enumerate(rooms):
        room.leave(waiter)
        if number % STEP == STEP - 1:
            await give_way()
