"""Sending of record batches to their partitions, as bytes.

Each batch has an answer of its own; callers do not see which batches share a request.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

from drumlin.peer.connection import BrokerConnection
from drumlin.peer.peer_error import InvalidResponse, only
from drumlin.peer.rights import refusal
from drumlin.records.batch.batch import Buffer
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.protocol.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from drumlin.wire.schema.declaration import Message

# From version 13 on, requests name topics by id.
_VERSION_MAX: Final = 12
# From version 12 on, the broker itself adds partitions to the transaction (KIP-890), and expects a
# new producer epoch for the next transaction.
_TRANSACTIONAL_VERSION_MAX: Final = 11
NO_ACKS: Final = 0
#: Kafka's default of `max.request.size`; a single larger batch is allowed.
_REQUEST_BYTES_MAX: Final = 1 << 20

_Place: TypeAlias = tuple[str, int]


class Produced(NamedTuple):
    """The result of a batch. `log_append_time_ms` is -1 unless the topic uses LogAppendTime."""

    base_offset: int
    log_append_time_ms: int
    log_start_offset: int


class _RequestSettings(NamedTuple):
    """The settings that all batches of one request share."""

    acks: int
    timeout_ms: int
    transactional_id: str | None

    @property
    def version_max(self) -> int:
        return _VERSION_MAX if self.transactional_id is None else _TRANSACTIONAL_VERSION_MAX


class _Waiting(NamedTuple):
    batch: Buffer
    answer: asyncio.Future[Any]


def send_batch(
    connection: BrokerConnection,
    topic: str,
    partition: int,
    batch: Buffer,
    *,
    acks: int,
    timeout_ms: int,
    transactional_id: str | None = None,
) -> asyncio.Future[Any]:
    """Send a batch after all earlier ones; pass the result of the returned future to `produced`.

    Batches to one broker from the same turn of the loop share a request if possible. With acks=0
    the result is None, as soon as the batch was sent or lost.
    """
    settings = _RequestSettings(acks, timeout_ms, transactional_id)
    if acks != NO_ACKS:
        connection.version_of("produce", settings.version_max)  # raise now, not in a later turn
        outgoing = _all_outgoing.setdefault(connection, _Outgoing())
        return outgoing.add(connection, settings, (topic, partition), batch)
    request = _request(settings, {(topic, partition): batch})
    connection.send_unanswered("produce", request, version_max=settings.version_max)
    return asyncio.ensure_future(connection.writable())


def _request(settings: _RequestSettings, batches: Mapping[_Place, Buffer]) -> Message:
    by_topic: dict[str, list[Any]] = {}
    for (topic, partition), batch in batches.items():
        data = PartitionProduceData(index=partition, records=batch)
        by_topic.setdefault(topic, []).append(data)
    topics = (
        TopicProduceData(name=topic, partition_data=tuple(each)) for topic, each in by_topic.items()
    )
    return ProduceRequest(
        transactional_id=settings.transactional_id,
        acks=settings.acks,
        timeout=timedelta(milliseconds=settings.timeout_ms),
        topic_data=tuple(topics),
    )


class _Outgoing:
    """Batches that a connection sends at the end of this turn; a request has one per partition."""

    def __init__(self) -> None:
        self._settings: _RequestSettings | None = None
        self._queues: dict[_Place, deque[_Waiting]] = {}
        self._is_due = False

    def add(
        self, connection: BrokerConnection, settings: _RequestSettings, place: _Place, batch: Buffer
    ) -> asyncio.Future[Any]:
        if settings != self._settings:
            self._send_all(connection)
        loop = asyncio.get_running_loop()
        self._settings = settings
        answer = loop.create_future()
        self._queues.setdefault(place, deque()).append(_Waiting(batch, answer))
        if not self._is_due:
            self._is_due = True
            loop.call_soon(self._end_turn, connection)
        return answer

    def _end_turn(self, connection: BrokerConnection) -> None:
        self._is_due = False
        self._send_all(connection)

    def _send_all(self, connection: BrokerConnection) -> None:
        while self._settings is not None and self._queues:
            together = self._take()
            answers = {place: each.answer for place, each in together.items()}
            batches = {place: each.batch for place, each in together.items()}
            version_max = self._settings.version_max
            try:
                request = _request(self._settings, batches)
                response = connection.send("produce", request, version_max=version_max)
            except Exception as error:  # noqa: BLE001 - the caller that waits must get it
                _fail(answers.values(), error)
            else:
                response.add_done_callback(functools.partial(_share_out, answers))

    def _take(self) -> dict[_Place, _Waiting]:
        """The oldest batch of each partition, as many as fit into one request."""
        together: dict[_Place, _Waiting] = {}
        size = 0
        for place, queue in list(self._queues.items()):
            size += len(queue[0].batch)
            if together and size > _REQUEST_BYTES_MAX:
                break
            together[place] = queue.popleft()
            if not queue:
                del self._queues[place]
        return together


_all_outgoing: WeakKeyDictionary[BrokerConnection, _Outgoing] = WeakKeyDictionary()


def _share_out(
    answers: Mapping[_Place, asyncio.Future[Any]], response: asyncio.Future[Any]
) -> None:
    """Settle each partition's future with its part of the response."""
    waiting = {place: each for place, each in answers.items() if not each.done()}
    if response.cancelled():
        for answer in waiting.values():
            answer.cancel()
        return
    error = response.exception()
    if error is not None:
        _fail(waiting.values(), error)
        return
    answered: dict[_Place, list[Any]] = {}
    for topic in response.result().responses:
        for each in topic.partition_responses:
            answered.setdefault((topic.name, each.index), []).append(each)
    for (topic_name, partition), answer in waiting.items():
        what = f"topic {topic_name!r} partition {partition}: produce"
        try:
            answer.set_result(only(answered.get((topic_name, partition), ()), what))
        except InvalidResponse as fault:
            answer.set_exception(fault)


def _fail(answers: Iterable[asyncio.Future[Any]], error: BaseException) -> None:
    for answer in answers:
        if not answer.done():  # its caller may be cancelled
            answer.set_exception(error)


def produced(answer: Any, topic: str, partition: int) -> Produced:
    """The result of a batch, from the broker's answer for its partition.

    Raises:
        KafkaError: the broker's error for this partition.
    """
    if answer is None:
        return Produced(-1, -1, -1)
    if answer.error_code is not ErrorCode.none:
        raise refusal("produce", answer.error_code, _complaint(answer, topic, partition))
    time = answer.log_append_time
    return Produced(
        answer.base_offset,
        -1 if time is None else int(time.timestamp() * 1000),
        answer.log_start_offset,
    )


def _complaint(answer: Any, topic: str, partition: int) -> str:
    errors: Sequence[Any] = answer.record_errors
    message = answer.error_message or ""
    details = [
        f"record {each.batch_index}: {each.batch_index_error_message}"
        for each in errors
        if (each.batch_index_error_message or "") not in message  # Drumlin's message includes them
    ]
    reasons = [message, *details[:3]]
    where = f"topic {topic!r} partition {partition}"
    return ": ".join([where, *filter(None, reasons)])
