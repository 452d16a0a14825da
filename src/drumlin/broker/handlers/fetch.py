"""Fetch (key 1), versions 4-18: slices of logs, for consumers.

- Nothing is copied: an answer names slices of segment files, which the connection sends.
- `max_bytes` bounds the response and `partition_max_bytes` each partition, but the first
  partition that has anything gives a whole batch at least (KIP-74).
- While fewer than `min_bytes` can be read and nothing is wrong, the request waits.
- Pages that are not in memory are read in a thread first, so a cold read stalls nobody.
- Incremental sessions: `fetch_sessions.py` (KIP-227).

Version notes: 7 sessions; 9 leader epochs (KIP-320); 12 diverging epochs (KIP-595);
13 topic ids; 16 current leaders (KIP-951).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from drumlin.broker.context import RequestContext, Waiting
from drumlin.broker.fetch_sessions import (
    FINAL_EPOCH,
    NO_SESSION,
    FetchContext,
    FetchKey,
    Wanted,
)
from drumlin.replication.partition import NO_LEADER_EPOCH, Partition
from drumlin.replication.waiting import wait_in
from drumlin.storage.file_slice import ReadResult
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO, Shape

_TOPIC_IDS_FROM: Final = 13
_SESSIONS_FROM: Final = 7
_COMPACT_FROM: Final = 12
_READ_COMMITTED: Final = 1
_NOTHING: Final = b""
_UNKNOWN_OFFSET: Final = -1


def handle(context: RequestContext, request: Any, shape: Shape) -> Any:
    try:
        fetch = _Fetch(context, request, shape)
    except KafkaError as error:
        return _error_response(shape, error.code)
    try:
        fetch.read(may_block=False)
    except BlockingIOError:
        return Waiting(fetch.read_cold_and_respond())
    if not fetch.is_complete:
        return Waiting(fetch.wait_and_respond())
    if fetch.is_resident():
        return fetch.respond()
    return Waiting(fetch.respond_cold())


def _replica_id(context: RequestContext, request: Any) -> int:
    if context.version >= 15:
        return int(request.replica_state.replica_id)
    return int(request.replica_id)


def _error_response(shape: Shape, code: ErrorCode) -> Any:
    return shape(
        "FetchResponse", throttle_time=ZERO, error_code=code, session_id=NO_SESSION, responses=()
    )


def _response(shape: Shape, session_id: int, topics: list[tuple[FetchKey, list[Any]]]) -> Any:
    responses = tuple(
        shape(
            "FetchableTopicResponse",
            topic=key.name,
            topic_id=key.topic_id,
            partitions=tuple(partitions),
        )
        for key, partitions in topics
    )
    return shape(
        "FetchResponse",
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        session_id=session_id,
        responses=responses,
    )


def _key(context: RequestContext, topic: Any, index: int) -> FetchKey:
    """How a request names a partition."""
    if context.version >= _TOPIC_IDS_FROM:
        return FetchKey(None, topic.topic_id, index)
    return FetchKey(topic.topic, None, index)


def _find(context: RequestContext, key: FetchKey) -> Partition:
    broker = context.broker
    name = broker.name_of_topic(key.topic_id) if key.name is None else key.name
    return broker.partitions.get(name, key.partition)


class _Fetch:
    """One fetch request on its way: what it wants, what has been read for it so far."""

    def __init__(self, context: RequestContext, request: Any, shape: Shape) -> None:
        self._context = context
        self._shape = shape
        self._is_follower = _replica_id(context, request) >= 0
        self._isolation_level = request.isolation_level
        broker = context.broker
        self._max_bytes = min(request.max_bytes, broker.config.fetch_max_bytes)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._max_wait_s = request.max_wait.total_seconds()
        self._session = self._open_session(request)
        self._answers: dict[FetchKey, Any] = {}
        self._read_bytes = 0
        self._must_answer = False

    def _open_session(self, request: Any) -> FetchContext:
        context = self._context
        wanted = {
            _key(context, topic, part.partition): Wanted(
                part.fetch_offset,
                part.partition_max_bytes,
                getattr(part, "current_leader_epoch", -1),
                getattr(part, "last_fetched_epoch", -1),
                getattr(part, "log_start_offset", -1),
            )
            for topic in request.topics
            for part in topic.partitions
        }
        by_id, sessions = context.version >= _TOPIC_IDS_FROM, context.broker.fetch_sessions
        if context.version < _SESSIONS_FROM:
            return sessions.open(NO_SESSION, FINAL_EPOCH, wanted, (), by_id)
        forgotten = (
            _key(context, topic, partition)
            for topic in request.forgotten_topics_data
            for partition in topic.partitions
        )
        return sessions.open(request.session_id, request.session_epoch, wanted, forgotten, by_id)

    # -- reading -----------------------------------------------------------------------

    def read(self, may_block: bool) -> None:
        """Read all partitions, in order, within the bounds. Changes nothing but itself.

        Raises:
            BlockingIOError: unless it may block, and finding a batch needs the disk.
        """
        self.release()
        budget = self._max_bytes
        for key, wanted in self._session.wanted.items():
            answer = self._read_partition(key, wanted, budget, may_block)
            self._answers[key] = answer
            size = len(answer.records)
            self._read_bytes += size
            budget = max(0, budget - size)
            if answer.error_code is not ErrorCode.none or _diverges(answer):
                self._must_answer = True

    def _read_partition(self, key: FetchKey, wanted: Wanted, budget: int, may_block: bool) -> Any:
        try:
            partition = _find(self._context, key)
        except KafkaError as error:
            return self._failed(key.partition, error.code, aborted=())
        try:
            if self._is_follower:
                # Followers come with replication; no other broker is assigned a replica here.
                raise KafkaError(ErrorCode.not_leader_or_follower)
            partition.check_leader_epoch(max(wanted.current_leader_epoch, NO_LEADER_EPOCH))
            diverging = self._diverging_epoch(partition, wanted)
            if diverging is not None:
                return self._answer(key.partition, partition, diverging_epoch=diverging)
            result, aborted = self._read_log(partition, wanted, budget, may_block)
        except KafkaError as error:
            return self._failed(key.partition, error.code)
        records = result.slices[0] if result.slices else _NOTHING
        return self._answer(key.partition, partition, records=records, aborted=aborted)

    def _read_log(
        self, partition: Partition, wanted: Wanted, budget: int, may_block: bool
    ) -> tuple[ReadResult, tuple[Any, ...] | None]:
        """Records, and the aborted transactions among them."""
        while True:
            segments = partition.log.segments.snapshot()
            result = partition.read(
                wanted.fetch_offset,
                min(wanted.max_bytes, budget),
                self._isolation_level,
                minimum_one_batch=self._read_bytes == 0,
                may_block=may_block,
            )
            if self._isolation_level != _READ_COMMITTED:
                return result, None
            aborted = self._aborted(partition, wanted.fetch_offset, result, may_block)
            if partition.log.segments.snapshot() is segments:
                return result, aborted
            # Cleaned segments came between, which know less of what was aborted.
            for part in result.slices:
                part.release()

    def _aborted(
        self, partition: Partition, fetch_offset: int, result: ReadResult, may_block: bool
    ) -> tuple[Any, ...]:
        """The aborted transactions that have records among those read."""
        if not result.slices:
            return ()
        return tuple(
            self._shape(
                "AbortedTransaction", producer_id=each.producer_id, first_offset=each.first_offset
            )
            for each in partition.log.aborted_in(
                result.slices[0], fetch_offset, partition.last_stable_offset, may_block=may_block
            )
        )

    def _diverging_epoch(self, partition: Partition, wanted: Wanted) -> Any | None:
        """Where our log parts from that of a reader who has `last_fetched_epoch` (KIP-595)."""
        if wanted.last_fetched_epoch < 0:
            return None
        epoch, end_offset = partition.log.end_offset_for_epoch(wanted.last_fetched_epoch)
        if epoch < 0:
            raise KafkaError(ErrorCode.offset_out_of_range)
        if epoch == wanted.last_fetched_epoch and end_offset >= wanted.fetch_offset:
            return None
        return self._shape("EpochEndOffset", epoch=epoch, end_offset=end_offset)

    def _answer(
        self,
        index: int,
        partition: Partition,
        *,
        records: Any = _NOTHING,
        aborted: tuple[Any, ...] | None = None,
        **more: Any,
    ) -> Any:
        return self._shape(
            "PartitionData",
            partition_index=index,
            error_code=ErrorCode.none,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=partition.log_start_offset,
            aborted_transactions=aborted,
            records=records,
            **more,
        )

    def _failed(self, index: int, code: ErrorCode, aborted: tuple[Any, ...] | None = None) -> Any:
        return self._shape(
            "PartitionData",
            partition_index=index,
            error_code=code,
            high_watermark=_UNKNOWN_OFFSET,
            last_stable_offset=_UNKNOWN_OFFSET,
            log_start_offset=_UNKNOWN_OFFSET,
            aborted_transactions=aborted,
            records=_NOTHING,
        )

    # -- answering ---------------------------------------------------------------------

    @property
    def is_complete(self) -> bool:
        """Whether to answer now: enough is there, or something is wrong, or waiting is futile."""
        return (
            self._read_bytes >= self._min_bytes
            or self._must_answer
            or self._max_wait_s <= 0
            or not self._answers
        )

    async def wait_and_respond(self) -> Any:
        # This runs a turn of the loop after the first look: what has come since woke nobody.
        await self._read_again()
        if not self.is_complete:
            rooms = [partition.waiting for partition in self._partitions()]
            needed = self._min_bytes - self._read_bytes
            for_stable = self._isolation_level == _READ_COMMITTED
            await wait_in(rooms, needed, self._max_wait_s, for_stable=for_stable)
            await self._read_again()
        return await self.respond_cold()

    async def _read_again(self) -> None:
        try:
            self.read(may_block=False)
        except BlockingIOError:
            await self._context.broker.threads.reading(self.read, True)

    async def read_cold_and_respond(self) -> Any:
        await self._context.broker.threads.reading(self.read, True)
        if not self.is_complete:
            return await self.wait_and_respond()
        return await self.respond_cold()

    def _partitions(self) -> Iterator[Partition]:
        for key in self._session.wanted:
            try:
                yield _find(self._context, key)
            except KafkaError:
                continue

    def is_resident(self) -> bool:
        """Whether all that was read can be sent without waiting for a disk."""
        return all(
            answer.records.is_resident() for answer in self._answers.values() if answer.records
        )

    async def respond_cold(self) -> Any:
        for key, answer in self._answers.items():
            if answer.records and not answer.records.is_resident():
                try:
                    await self._context.broker.threads.reading(answer.records.prefetch)
                except OSError as error:
                    answer.records.release()
                    self._answers[key] = self._unreadable(key, error)
        return self.respond()

    def _unreadable(self, key: FetchKey, error: OSError) -> Any:
        """The answer for a partition whose device failed; its log dir learns of it."""
        try:
            log = _find(self._context, key).log
        except KafkaError as gone:
            return self._failed(key.partition, gone.code)
        failure = log.log_directory.fail_log(error, f"read {log.name}")
        return self._failed(key.partition, failure.code)

    def respond(self) -> Any:
        topics: list[tuple[FetchKey, list[Any]]] = []
        for key, answer in self._session.select(self._answers):
            if topics and topics[-1][0][:2] == key[:2]:
                topics[-1][1].append(answer)
            else:
                topics.append((key, [answer]))
        return _response(self._shape, self._session.session_id, topics)

    def release(self) -> None:
        """Let go of what was read and will not be sent."""
        for answer in self._answers.values():
            if answer.records:
                answer.records.release()
        self._answers.clear()
        self._read_bytes = 0
        self._must_answer = False


def _diverges(answer: Any) -> bool:
    diverging = getattr(answer, "diverging_epoch", None)
    return diverging is not None and diverging.epoch != -1
