"""One fetch request: it reads, perhaps waits, reads what is new, and answers.

An ordinary fetch needs no task: it is answered in the turn in which the request arrived, or in
which the awaited records were appended. These continue in a task:

- a large number of partitions: reading and answering them gives way in between;
- a batch that cannot be found without the disk: a thread searches, one partition at a time;
- pages that are not in memory: a thread reads them first, so a cold read stalls no other client.

A thread changes nothing here: it hands over what it has found.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from drumlin.broker.fetch_sessions.partition_read import (
    PartitionRead,
    has_records,
    missing_partition,
    note_failed,
)
from drumlin.broker.fetch_sessions.sessions import NO_SESSION
from drumlin.broker.loop.later import Later, LaterParts, Parts, begun
from drumlin.broker.parts.leader_hints import MISLED, current_leader, endpoints_of
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.topics.led_topics import led_to_followers, led_topics
from drumlin.config.broker import RACK_AWARE_SELECTOR
from drumlin.turns import give_way
from drumlin.wire.by_hand.fetch_answer import Answer, failed, fetch_answers
from drumlin.wire.error_codes import ErrorCode, KafkaError, MalformedMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from drumlin.broker.context import RequestContext
    from drumlin.broker.quotas.client_quotas import ClientQuotas
    from drumlin.replication.replica import Replica
    from drumlin.wire.by_hand.fetch_request import FetchRequest, Wanted
    from drumlin.wire.by_hand.leader_hints import CurrentLeader, NodeEndpoint

_log = logging.getLogger(__name__)
_READ_COMMITTED: Final = 1
_SESSIONS_FROM: Final = 7
#: Errors of partitions that are not there, or may not be read: no list of aborted transactions.
_UNSEEN: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.topic_authorization_failed,
    }
)
_FOLLOWERS_FROM: Final = 11
_TOPIC_IDS_FROM: Final = 13
#: Partitions that are read between two chances to give way.
STEP: Final = 32
#: Slices up to this size are read, not only checked to be in memory: they are about to be sent.
_KEPT_BYTES_MAX: Final = 8 * 1024


class Fetch:
    """The common base of fetches with and without a session. Used for a single request."""

    __slots__ = (
        "_going_on",
        "_is_large",
        "_is_last",
        "_is_over",
        "_is_waiting",
        "_later",
        "_leaders",
        "_max_bytes",
        "_min_bytes",
        "_timer",
        "_was_woken",
        "answers",
        "broker",
        "by_id",
        "context",
        "for_stable",
        "is_follower",
        "partitions_of",
        "reading",
        "request",
        "writer",
    )

    def __init__(self, context: RequestContext, request: FetchRequest) -> None:
        broker = self.broker = context.broker
        self.context = context
        self.request = request
        version = context.header.api_version
        self.by_id = version >= _TOPIC_IDS_FROM
        self.writer = fetch_answers(version)
        self.is_follower = request.replica_id >= 0
        #: The partitions of a topic that this broker leads now, by index; the topic is given by its
        #: name or id as bytes. None without the right to read it: `missing` raises the error.
        self.partitions_of: Callable[[bytes], Mapping[int, Replica]] = (
            led_to_followers(context, self._may_follow, by_id=self.by_id)
            if self.is_follower
            else led_topics(context, Operation.READ, by_id=self.by_id)
        )
        self.for_stable = request.isolation_level == _READ_COMMITTED and not self.is_follower
        self._max_bytes = min(request.max_bytes, broker.config.fetch_max_bytes)
        if broker.quotas is not None:
            self._mind(broker.quotas)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self.answers: list[Answer] = []
        self._leaders: set[CurrentLeader] = set()
        self._is_last = False  # it waits no longer, and answers with the available records
        self._is_over = False
        self._is_waiting = False
        self._later: LaterParts | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._going_on: LaterParts | None = None  # settled by a task

    def _mind(self, quotas: ClientQuotas) -> None:
        """Read no more than the client's quota can ever admit."""
        if self.is_follower:
            if self._may_follow():
                self.context.connection.is_replicas = True
        else:
            self._max_bytes = min(self._max_bytes, quotas.fetch_bytes_max(self.context.client))

    # -- finding partitions ------------------------------------------------------

    def _may_follow(self) -> bool:
        """Whether the principal may fetch as a follower, from any topic."""
        return self.context.may_cluster(Operation.CLUSTER_ACTION)

    def _may_read(self, topic: str) -> bool:
        if self.is_follower:
            return self._may_follow()
        return self.context.may(Operation.READ, Kind.TOPIC, topic)

    def missing(self, topic: bytes, wanted: Wanted) -> Replica:
        """Find a partition that this broker does not lead, or that may not be read.

        Raises:
            KafkaError: the partition cannot be read here.
        """
        may_follow = not self.is_follower and self.context.version >= _FOLLOWERS_FROM
        index, epoch = wanted[:2]
        return missing_partition(
            self.broker,
            topic,
            index,
            epoch,
            by_id=self.by_id,
            may_follow=may_follow,
            may_read=self._may_read,
        )

    def find(self, topic: bytes, wanted: Wanted) -> Replica:
        """Find a partition, by `partitions_of` or else by `missing`.

        Raises:
            KafkaError: the partition does not exist.
        """
        partition = self.partitions_of(topic).get(wanted[0])
        return self.missing(topic, wanted) if partition is None else partition

    def refused(self, error: KafkaError, topic: bytes, index: int) -> Answer:
        """The answer for a partition that this broker does not lead, or does not know."""
        note_failed(self.context, error.code.value, topic, by_id=self.by_id)
        if error.code in _UNSEEN:
            return failed(error.code, ())
        return failed(error.code, None, self._leader(error.code, topic, index, is_hosted=False))

    def hinted(self, answer: Answer, topic: bytes, index: int) -> Answer:
        """The answer with an error for a partition of this broker, with the leader if the client
        has an older epoch.
        """
        note_failed(self.context, answer[0], topic, by_id=self.by_id)
        leader = self._leader(ErrorCode(answer[0]), topic, index, is_hosted=True)
        return answer if leader is None else (*answer[:6], leader)

    def _leader(
        self, code: ErrorCode, topic: bytes, index: int, *, is_hosted: bool
    ) -> CurrentLeader | None:
        if code not in MISLED or not self.writer.tells_leaders:
            return None
        leader = current_leader(self.broker, topic, index, by_id=self.by_id, is_hosted=is_hosted)
        if leader is not None:
            self._leaders.add(leader)
        return leader

    def _rack(self) -> str | None:
        """The rack of a consumer that may be sent to a closer replica (KIP-392), else None."""
        if self.is_follower or not self.request.rack:
            return None
        if self.broker.config.replica_selector_class != RACK_AWARE_SELECTOR:
            return None
        return self.request.rack.decode(errors="replace")

    def endpoints(self) -> Sequence[NodeEndpoint]:
        """The addresses of the leaders named in answers; only clients need them."""
        if not self._leaders or self.is_follower:
            return ()
        return endpoints_of(self.broker, self._leaders, self.context.listener)

    # -- implemented by the two kinds --------------------------------------------

    def may_start(self) -> bool:
        """Whether to `start` now; if not, `start` is called when earlier requests of the session
        are done.

        Raises:
            KafkaError: the request is refused.
        """
        return True

    def is_next_large(self) -> bool:
        """Whether the next pass may take longer than a turn."""
        raise NotImplementedError

    async def prepare(self) -> None:
        """Prepare a pass over the partitions."""
        raise NotImplementedError

    def amount(self) -> int:
        """The number of partitions in this pass."""
        raise NotImplementedError

    def read_some(self, count: int) -> None:
        """Add answers for the next partitions.

        Raises:
            BlockingIOError: the next partition needs the disk.
        """
        raise NotImplementedError

    def wanted_next(self) -> tuple[Replica, Wanted]:
        """The partition that needs the disk, at which `read_some` has stopped.

        Raises:
            KafkaError: it was removed meanwhile.
        """
        raise NotImplementedError

    def put_cold(self, answer: Answer) -> None:
        """Add the answer for the partition returned by `wanted_next`."""
        raise NotImplementedError

    def replace(self, number: int, answer: Answer) -> None:
        """Replace an earlier answer of this pass."""
        raise NotImplementedError

    async def enter(self, needed: int) -> None:
        """Have `wake` called when `needed` more bytes can be read, or there is other news."""
        raise NotImplementedError

    def leave(self) -> None:
        """Stop waiting."""
        raise NotImplementedError

    async def write(self) -> Parts:
        """The response."""
        raise NotImplementedError

    def withhold(self) -> int:
        """Keep what was read for a later response; returns the session id for an empty one."""
        return NO_SESSION

    def over(self, *, is_answered: bool) -> None:
        """Clean up after the fetch, answered or not."""

    # -- running ------------------------------------------------------------------------

    def start(self, later: LaterParts | None = None) -> Parts | LaterParts:
        """Read and answer; returns a `Later` if a task has to continue or the fetch waits.

        If a `Later` was given, that one is returned.
        """
        self._was_woken = False
        request = self.request
        self.reading = PartitionRead(
            self._max_bytes,
            request.isolation_level,
            request.replica_id,
            request.replica_epoch,
            self._rack(),
        )
        self.answers = []
        try:
            answered = begun(self._answer_or_wait(), lets_pass=True)
        except BaseException:
            self.release()
            self.end(is_answered=False)
            raise
        if isinstance(answered, Later):
            self._going_on = answered
            answered.when_settled(self._gone_on)
        elif answered is not None:
            self.end()
            return answered
        return self.later(later)

    def later(self, later: LaterParts | None = None) -> LaterParts:
        """The given `Later`, or a new one, which the answer will settle."""
        self._later = later or Later(lets_pass=True, give_up=self.give_up)
        return self._later

    def _gone_on(self, answered: LaterParts) -> None:
        self._going_on = None
        try:
            parts = answered.result()
        except Exception as error:  # noqa: BLE001  whatever it is, the client is answered
            self.fail(error)
        else:
            if parts is not None:
                self._settle(parts)

    async def _answer_or_wait(self) -> Parts | None:
        """The answer; None if there are not enough bytes yet, and the fetch now waits."""
        self._is_large = self.is_next_large()
        await self.prepare()
        if self._is_large:
            await self._read_all()
        else:
            try:
                self.read_some(self.amount())
            except BlockingIOError:
                await self._look_in_thread()
                await self._read_all()
        if not self._is_enough():
            await self._begin_to_wait()
            return None
        throttled = self._throttled()
        if throttled is not None:
            return throttled
        await self._warm()
        return await self.write()

    async def _read_all(self) -> None:
        while len(self.answers) < self.amount():
            try:
                self.read_some(STEP)
            except BlockingIOError:
                await self._look_in_thread()
            await give_way()

    async def _look_in_thread(self) -> None:
        """Read the next partition, which needs the disk, in a thread."""
        try:
            partition, wanted = self.wanted_next()
        except KafkaError:
            return  # the next pass finds the error
        answer = await self.broker.threads.reading(_look, self.reading, partition, wanted)
        if answer[0]:
            note_failed(self.context, answer[0], partition.topic_id.bytes, by_id=True)
        self.reading.take(answer)
        self.put_cold(answer)

    def _throttled(self) -> Parts | None:
        """Charge the answer to the quota; if it must wait, returns an empty answer instead."""
        quotas = self.broker.quotas
        if quotas is None or self.is_follower:
            return None
        throttle_ms = quotas.delay_of_fetch(self.context.client, self.reading.read_bytes)
        if not throttle_ms:
            return None
        self.release()
        correlation_id = self.context.header.correlation_id
        session_id = self.withhold()
        return self.writer.frame(
            correlation_id, 0, [], session_id=session_id, throttle_ms=throttle_ms
        )

    async def _warm(self) -> None:
        """Read all data of the answer into memory."""
        are_few = self.reading.read_bytes <= _KEPT_BYTES_MAX
        is_large = self._is_large
        for number, answer in enumerate(self.answers):
            if is_large and number % STEP == STEP - 1:
                await give_way()
            records = answer[5]
            if not has_records(answer) or (records.keep if are_few else records.is_resident)():
                continue
            try:
                await self.broker.threads.reading(records.prefetch)
            except KafkaError as error:
                records.release()
                self.replace(number, failed(error.code))

    def _is_enough(self) -> bool:
        """Whether to answer now: there is enough, an error, or nothing to wait for."""
        reading = self.reading
        return (
            reading.read_bytes >= self._min_bytes
            or reading.must_answer
            or self._is_last
            or self.request.max_wait_ms <= 0
            or self.is_empty
        )

    @property
    def is_empty(self) -> bool:
        """Whether the request names no partition."""
        raise NotImplementedError

    # -- waiting ------------------------------------------------------------------------

    async def _begin_to_wait(self) -> None:
        self.release()  # once woken, it reads everything again
        await self.enter(self._min_bytes - self.reading.read_bytes)
        self._is_waiting = True
        loop = asyncio.get_running_loop()
        wait_s = self.context.session.waiting_s(self.request.max_wait_ms / 1000)
        self._timer = loop.call_later(wait_s, self.wake)
        if self._was_woken:
            self.wake()

    def wake(self) -> None:
        """Continue soon: there is news, `max_wait` is over, or the session's next request waits."""
        if not self._is_waiting:
            self._was_woken = True
            return
        self._is_waiting = False
        if self._timer is not None:
            self._timer.cancel()
        self.broker.wakeups.add(self._resume)

    def _resume(self) -> None:
        if self._is_over:
            return
        self.leave()
        self._is_last = True
        self.go_on()

    def go_on(self) -> None:
        """Like `start`, for a fetch whose answer is awaited already."""
        try:
            parts = self.start(self._later)
        except Exception as error:  # noqa: BLE001  whatever it is, the client is answered
            self._tell(error)
            return
        if not isinstance(parts, Later):
            self._settle(parts)

    # -- the end ------------------------------------------------------------------------

    def release(self) -> None:
        """Release slices that were read and will not be sent."""
        for answer in self.answers:
            if has_records(answer):
                answer[5].release()

    def give_up(self) -> None:
        """Stop: the answer is no longer needed."""
        if self._is_over:
            return
        if self._timer is not None:
            self._timer.cancel()
        if self._going_on is not None:
            self._going_on.cancel()
            self._going_on = None  # it refers to the task's objects
        self._is_waiting = False
        self.leave()
        self.end(is_answered=False)

    def end(self, *, is_answered: bool = True) -> None:
        """End the fetch."""
        if not self._is_over:
            self._is_over = True
            self.over(is_answered=is_answered)
            # Slices that are not sent are closed by their last user, perhaps a thread.
            self.answers = []

    def _settle(self, parts: Parts | None, error: Exception | None = None) -> None:
        self.end()
        assert self._later is not None
        self._later.settle(parts, error)

    def fail(self, error: Exception) -> None:
        """Stop, and answer with an error."""
        if self._is_over:
            return
        self.release()
        self.end(is_answered=False)
        self._tell(error)

    def _tell(self, error: Exception) -> None:
        """Answer with an error, if the version has a field for it."""
        header = self.context.header
        code = error.code if isinstance(error, KafkaError) else ErrorCode.unknown_server_error
        if code is ErrorCode.unknown_server_error:
            _log.error("fetch v%d failed", header.api_version, exc_info=error)
        if header.api_version < _SESSIONS_FROM:
            self._settle(None, MalformedMessage(f"fetch v{header.api_version} failed: {error}"))
        else:
            self.context.errors[code] += 1
            self._settle(self.writer.frame(header.correlation_id, 0, [], error=code.value))


def _look(reading: PartitionRead, partition: Replica, wanted: Wanted) -> Answer:
    return reading.look(partition, wanted, may_block=True)
