"""A leader that answers followers from real logs, or with what a test has it say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

from drumlin.broker.fetch_sessions.partition_read import PartitionRead, has_records
from drumlin.peer.follower_fetch import Position
from drumlin.replication.replica import Replica
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.wire.by_hand.fetch_response import EpochEnd, PartitionFetch
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO
from rig.brokers.scripted_broker import ScriptedBroker
from rig.data.messages import Shape

Place = tuple[UUID, int]
LATEST = -1
_FOLLOWER = 2


class Led:
    """A partition that it leads."""

    def __init__(self, log: PartitionLog, epoch: int) -> None:
        self.log = log
        self.epoch = epoch
        self.high_watermark: int | None = None  # None: the log end offset
        self.errors: list[ErrorCode] = []  # for the next fetches, one after the other
        self.change: Callable[[bytes], bytes] | None = None  # of the records that it sends
        self.fetched: list[Any] = []  # what was wanted of it, as the session had it

    @property
    def mark(self) -> int:
        return self.log.log_end_offset if self.high_watermark is None else self.high_watermark


class Leader:
    """Fetch and ListOffsets of a scripted broker."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.led: dict[Place, Led] = {}
        self.errors: list[ErrorCode] = []  # for whole requests
        self.keeps_sessions = True
        self.sessions: dict[int, tuple[int, dict[Place, Any]]] = {}  # epoch, what is wanted
        self.ended: list[int] = []
        self.begun = 0  # fetches
        broker.script("fetch", self.fetch)
        broker.script("list_offsets", self._list_offsets)

    def lead(self, log: PartitionLog, epoch: int) -> Led:
        led = self.led[log.topic_id, log.partition] = Led(log, epoch)
        return led

    # -- fetch -------------------------------------------------------------------------

    async def fetch(self, shape: Shape, request: Any) -> Any:
        self.begun += 1
        number = self.begun
        if self.errors:
            return _whole(shape, self.errors.pop(0), 0, ())
        found = self._session_of(request)
        if isinstance(found, ErrorCode):
            return _whole(shape, found, 0, ())
        session_id, wanted, is_full = found
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + request.max_wait.total_seconds()
        while True:
            answers = {place: self._answer(shape, place, each) for place, each in wanted.items()}
            news = {place: each for place, each in answers.items() if _is_news(each)}
            if news or loop.time() >= ends_at or self.begun > number:
                break
            await asyncio.sleep(0.001)
        topics: dict[UUID, list[Any]] = {}
        for (topic_id, _), answer in (answers if is_full else news).items():
            topics.setdefault(topic_id, []).append(answer)
        responses = tuple(
            shape("FetchableTopicResponse", topic_id=topic_id, partitions=tuple(partitions))
            for topic_id, partitions in topics.items()
        )
        return _whole(shape, ErrorCode.none, session_id, responses)

    def _session_of(self, request: Any) -> tuple[int, dict[Place, Any], bool] | ErrorCode:
        named = {
            (topic.topic_id, each.partition): each
            for topic in request.topics
            for each in topic.partitions
        }
        if request.session_epoch == 0:
            if self.sessions.pop(request.session_id, None) is not None:
                self.ended.append(request.session_id)
            if not self.keeps_sessions:
                return 0, named, True
            session_id = 100 + len(self.ended) + len(self.sessions)
            self.sessions[session_id] = 1, named
            return session_id, named, True
        if request.session_id not in self.sessions:
            return ErrorCode.fetch_session_id_not_found
        epoch, wanted = self.sessions[request.session_id]
        if epoch != request.session_epoch:
            return ErrorCode.invalid_fetch_session_epoch
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                del wanted[topic.topic_id, index]
        wanted.update(named)
        self.sessions[request.session_id] = epoch + 1, wanted
        return request.session_id, wanted, False

    def _answer(self, shape: Shape, place: Place, wanted: Any) -> Any:
        led = self.led.get(place)
        if led is None:
            return _encoded(shape, refusal(place[1], ErrorCode.unknown_topic_id))
        led.fetched.append(wanted)
        position = Position(
            wanted.current_leader_epoch,
            wanted.fetch_offset,
            wanted.last_fetched_epoch,
            wanted.log_start_offset,
        )
        return _encoded(shape, answer_of(led, position, wanted.partition_max_bytes))

    # -- offsets -----------------------------------------------------------------------

    def _list_offsets(self, shape: Shape, request: Any) -> Any:
        topics = tuple(
            shape(
                "ListOffsetsTopicResponse",
                name=topic.name,
                partitions=tuple(
                    self._offset_of(shape, topic.name, each) for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
        return shape("ListOffsetsResponse", throttle_time=ZERO, topics=topics)

    def _offset_of(self, shape: Shape, topic: str, wanted: Any) -> Any:
        led = next(
            each
            for each in self.led.values()
            if (each.log.topic, each.log.partition) == (topic, wanted.partition_index)
        )
        is_known = wanted.current_leader_epoch == led.epoch
        is_latest = wanted.timestamp == LATEST
        offset = led.log.log_end_offset if is_latest else led.log.log_start_offset
        return shape(
            "ListOffsetsPartitionResponse",
            partition_index=wanted.partition_index,
            error_code=ErrorCode.none if is_known else ErrorCode.fenced_leader_epoch,
            timestamp=-1,
            offset=offset if is_known else -1,
        )


def answer_of(led: Led, asked: Position, max_bytes: int = 1 << 20) -> PartitionFetch:
    """What a leader answers to a follower that stands there."""
    log, index = led.log, led.log.partition
    if led.errors:
        return refusal(index, led.errors.pop(0))
    replica = Replica(log)
    replica.leader_epoch = led.epoch
    read = PartitionRead(max_bytes, 0, _FOLLOWER, -1, None)
    answer = read.look(replica, (index, *asked, max_bytes), may_block=True)
    if answer[0]:
        return refusal(index, ErrorCode(answer[0]))
    if answer[6] is not None:
        return _fetched(led, diverging=EpochEnd(*answer[6]))
    records = b""
    if has_records(answer):
        records = answer[5].read()
        answer[5].release()
    return _fetched(led, led.change(records) if led.change and records else records)


def _fetched(
    led: Led, records: bytes = b"", *, diverging: EpochEnd | None = None
) -> PartitionFetch:
    log = led.log
    return PartitionFetch(
        log.partition,
        ErrorCode.none,
        led.mark,
        led.mark,
        log.log_start_offset,
        [],
        memoryview(records),
        diverging=diverging,
    )


def refusal(index: int, code: ErrorCode) -> PartitionFetch:
    return PartitionFetch(index, code, -1, -1, -1, [], memoryview(b""))


def _encoded(shape: Shape, answer: PartitionFetch) -> Any:
    diverging: dict[str, Any] = {}
    if answer.diverging is not None:
        epoch, end_offset = answer.diverging
        diverging["diverging_epoch"] = shape("EpochEndOffset", epoch=epoch, end_offset=end_offset)
    return shape(
        "PartitionData",
        partition_index=answer.partition,
        error_code=answer.error_code,
        high_watermark=answer.high_watermark,
        last_stable_offset=answer.last_stable_offset,
        log_start_offset=answer.log_start_offset,
        aborted_transactions=None,
        records=bytes(answer.records),
        **diverging,
    )


def _is_news(answer: Any) -> bool:
    return bool(
        answer.records
        or answer.error_code is not ErrorCode.none
        or answer.diverging_epoch.end_offset >= 0
    )


def _whole(shape: Shape, code: ErrorCode, session_id: int, responses: Any) -> Any:
    return shape(
        "FetchResponse",
        throttle_time=ZERO,
        error_code=code,
        session_id=session_id,
        responses=responses,
    )
