"""One Produce request: its batches are checked, appended, flushed and answered.

Owns nothing but the request. An append is one synchronous step. Partitions may be created, deleted
or moved between appends, so each partition is looked up right before its append.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from drumlin.broker.context import RequestContext
from drumlin.broker.loop.later import LaterParts, Parts, begun
from drumlin.broker.parts.leader_hints import MISLED, current_leader, endpoints_of
from drumlin.broker.producing.confirming import Confirming
from drumlin.broker.producing.produce_verification import (
    TransactionalPart,
    Unverified,
    Verified,
    ask,
    begin,
    header_of,
    is_transactional,
)
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.rights.denials import denied
from drumlin.broker.topics.led_topics import led_topics
from drumlin.metadata.names import INTERNAL_TOPICS
from drumlin.records.validation.validation import (
    InvalidBatch,
    UnfitRecords,
    prepare_at_once,
    prepare_produce,
)
from drumlin.replication.partition import ACKS_ALL, Partition
from drumlin.storage.producers.append_result import AppendResult
from drumlin.turns import TURN_S, give_way, to_end
from drumlin.wire.by_hand.leader_hints import CurrentLeader, NodeEndpoint, endpoints_tag
from drumlin.wire.by_hand.produce_answer import LEADERS_FROM, Outcome, Refused, write_produce_answer
from drumlin.wire.by_hand.produce_request import TOPIC_IDS_FROM, ProduceRequest
from drumlin.wire.error_codes import ErrorCode, KafkaError, MalformedMessage

_ADMIN_CLIENT_ID: Final = "__admin_client"
_ZSTD_FROM: Final = 7
_NULL_ID: Final = bytes(16)
_ACKS: Final = (-1, 0, 1)
#: Partitions and record errors that are written into a response in one turn of the loop.
_ENTRIES_PER_TURN_MAX: Final = 1000
#: Errors for which Apache Kafka does not return the log start offset, although it knows it.
_WITHOUT_START_OFFSET: Final = frozenset(
    {
        ErrorCode.corrupt_message,
        ErrorCode.invalid_required_acks,
        ErrorCode.kafka_storage_error,
        ErrorCode.message_too_large,
        ErrorCode.transactional_id_authorization_failed,
    }
)

#: Topic (name or id), index, records.
Part = tuple[bytes, int, memoryview | None]


class ProduceAppends:
    """The appends of one Produce request."""

    __slots__ = (
        "_allows_zstd",
        "_broker",
        "_confirming",
        "_context",
        "_leaders",
        "_led_of",
        "_outcomes",
        "_parts",
        "_request",
        "_transactional",
        "_verified",
    )

    def __init__(self, context: RequestContext, request: ProduceRequest) -> None:
        self._context = context
        self._broker = context.broker
        self._request = request
        version = context.header.api_version
        self._led_of = led_topics(context, Operation.WRITE, by_id=version >= TOPIC_IDS_FROM)
        self._allows_zstd = version >= _ZSTD_FROM
        self._parts: list[Part] = [
            (topic, index, records)
            for topic, partitions in request.topics
            for index, records in partitions
        ]
        self._outcomes: list[Outcome] = []  # in the order of the parts
        self._leaders: set[CurrentLeader] = set()  # leaders to be named in the answer
        self._confirming: Confirming | None = None  # None if there is nothing to wait for
        #: None if no batch is transactional.
        self._transactional: list[TransactionalPart] | None = None
        for _, _, records in self._parts:
            if records and is_transactional(records):
                self._transactional = []
                break
        self._verified: Verified | None = None  # None if no batch is transactional

    def start(self) -> Parts | LaterParts | None:
        """Append all batches; returns a `Later` if that takes more than a turn, or has to wait."""
        if self._transactional is not None:
            refusal = to_end(self._refusal())
            if refusal is not None:
                return self._refuse_all(refusal)
            if self._verified is not None and self._verified.asked:
                return begun(self._verify_and_append())
        ends_at = time.monotonic() + TURN_S
        now_ms = self._broker.clock.wall_ms()
        for part in self._parts:
            outcome = self._append_at_once(part, now_ms) if time.monotonic() < ends_at else None
            if outcome is None:
                return begun(self._append_rest())
            self._outcomes.append(outcome)
        if self._confirming is not None:
            return self._confirmed_answer()
        return self._answer()

    async def append_in_turns(self) -> Parts | LaterParts | None:
        """Like `start`, for a request whose partitions take more than a turn."""
        refusal = await self._refusal()
        if refusal is not None:
            return await self._broker.threads.making(self._refuse_all, refusal)
        if self._verified is not None and self._verified.asked:
            return await self._verify_and_append()
        return await self._append_rest()

    async def _refusal(self) -> Refused | None:
        """Find the transactional batches; returns the refusal if the whole request is refused."""
        request, transactional = self._request, self._transactional
        if transactional is None:
            return None
        if not self._may_use(request.transactional_id):
            return Refused(ErrorCode.transactional_id_authorization_failed)
        producers = set()
        for topic, index, records in self._parts:
            await give_way()
            header = header_of(records) if records else None
            if header is None:
                continue
            try:
                partition = self._find((topic, index, records))
            except KafkaError:
                continue  # refused later, instead of being appended
            producers.add((header.producer_id, header.producer_epoch))
            transactional.append(TransactionalPart((topic, index), partition, header))
        if len(producers) > 1:
            code = ErrorCode.invalid_producer_id_mapping
            return Refused(code, message="batches of several producers")
        self._verified = await begin(self._broker, self._context.version, transactional)
        return None

    def _may_use(self, transactional_id: str | None) -> bool:
        return transactional_id is not None and self._context.may(
            Operation.WRITE, Kind.TRANSACTIONAL_ID, transactional_id
        )

    async def _verify_and_append(self) -> Parts | LaterParts | None:
        transactional_id, verified = self._request.transactional_id, self._verified
        assert transactional_id is not None
        assert verified is not None
        parts = self._transactional or ()
        await ask(self._broker, self._context.version, transactional_id, parts, verified)
        if not self._may_use(transactional_id):  # the right was revoked meanwhile
            return self._refuse_all(Refused(ErrorCode.transactional_id_authorization_failed))
        return await self._append_rest()

    # -- appending ---------------------------------------------------------------------

    async def _append_rest(self) -> Parts | LaterParts | None:
        """Append the batches without an outcome: slow checks in threads, the rest in turns."""
        for part in self._parts[len(self._outcomes) :]:
            await give_way()
            outcome = self._append_at_once(part, self._broker.clock.wall_ms())
            if outcome is None:
                outcome = await self._append_when_ready(part)
            self._outcomes.append(outcome)
        return self._confirmed_answer()

    def _append_at_once(self, part: Part, now_ms: int) -> Outcome | None:
        """Append one batch.

        If this has to wait, return None without doing anything: the check may need a thread, or the
        log may be changing over to another log dir.
        """
        partition = None
        try:
            verification = None if self._verified is None else self._verified.check(part[:2])
            partition = self._find(part)
            if partition.is_changing_over:
                return None
            batch = prepare_at_once(
                self._records_of(part),
                partition.append_rules,
                now_ms,
                partition.name,
                self._allows_zstd,
            )
            if batch is None:
                return None
            acks = self._request.acks
            result = partition.append_as_leader(batch, acks, now_ms, verification)
            return self._appended(partition, result, len(batch.buffer))
        except KafkaError as error:
            return self._refused(error, partition, part)

    async def _append_when_ready(self, part: Part) -> Outcome:
        """Check a batch in a thread, and append it once its log takes batches."""
        partition = None
        try:
            partition = self._find(part)
            now_ms = self._broker.clock.wall_ms()
            batch = await self._broker.threads.computing(
                prepare_produce,
                self._records_of(part),
                partition.append_rules,
                now_ms,
                partition.name,
                self._allows_zstd,
            )
            await self._broker.change_overs.over(self._find(part))
            # The topic may have been deleted and created again meanwhile, or a right revoked.
            if self._verified is not None and not self._may_use(self._request.transactional_id):
                raise denied(Kind.TRANSACTIONAL_ID)
            verification = None if self._verified is None else self._verified.check(part[:2])
            partition = self._find(part)
            acks = self._request.acks
            result = partition.append_as_leader(batch, acks, now_ms, verification)
            return self._appended(partition, result, len(batch.buffer))
        except KafkaError as error:
            return self._refused(error, partition, part)

    def _refused(self, error: KafkaError, partition: Partition | None, part: Part) -> Refused:
        refused = _refused(error, partition)
        self._note_refused(error.code, part[0])
        if error.code in MISLED and self._context.version >= LEADERS_FROM:
            by_id = self._context.version >= TOPIC_IDS_FROM
            leader = current_leader(self._broker, part[0], part[1], by_id=by_id)
            if leader is not None:
                self._leaders.add(leader)
            return refused._replace(leader=leader)
        return refused

    def _note_refused(self, code: ErrorCode, topic: bytes) -> None:
        self._context.errors[code] += 1
        by_id = self._context.version >= TOPIC_IDS_FROM
        image = self._broker.metadata.image
        self._broker.traffic.known(image, topic, by_id=by_id).failed_produces += 1

    def _find(self, part: Part) -> Partition:
        topic, index, _ = part
        partition = self._led_of(topic).get(index)
        if partition is None:
            partition = self._look_for(topic, index)
        name = partition.topic
        if name in INTERNAL_TOPICS and self._context.client_id != _ADMIN_CLIENT_ID:
            raise KafkaError(
                ErrorCode.invalid_topic_exception, f"Cannot append to internal topic {name}"
            )
        return partition

    def _look_for(self, topic: bytes, index: int) -> Partition:
        """Find a partition that is not among the led ones of this name or id, or that the principal
        may not write to; usually this raises an error.
        """
        broker = self._broker
        if self._context.version < TOPIC_IDS_FROM:
            name = topic.decode(errors="replace")
        else:
            name = broker.name_of_topic(None if topic == _NULL_ID else UUID(bytes=topic))
        self._context.require(Operation.WRITE, Kind.TOPIC, name)
        return broker.partitions.get(name, index)

    def _records_of(self, part: Part) -> memoryview:
        """The batch of a partition that was found; only now are errors in its form reported."""
        records = part[2]
        if not records:
            version = self._context.version
            raise UnfitRecords(
                ErrorCode.invalid_record,
                f"Produce requests with version {version} must have at least one record "
                "batch per partition",
            )
        if self._request.acks not in _ACKS:
            raise KafkaError(ErrorCode.invalid_required_acks)
        return records

    def _appended(self, partition: Partition, result: AppendResult, size: int) -> Outcome:
        if not result.is_duplicate:
            traffic = self._broker.traffic[partition.topic]
            traffic.in_records += result.last_offset - result.base_offset + 1
            traffic.in_bytes += size
        if self._request.acks == ACKS_ALL and partition.awaits_replicas:
            self._confirm().replicate(len(self._outcomes), partition)
        if partition.is_flush_due:
            self._confirm().flush(len(self._outcomes), partition)
        return result.base_offset, result.log_append_time_ms, result.log_start_offset

    def _confirm(self) -> Confirming:
        if self._confirming is None:
            self._confirming = Confirming(self._broker)
        return self._confirming

    # -- answering ---------------------------------------------------------------------

    def _confirmed_answer(self) -> Parts | LaterParts | None:
        """The answer, once all batches are replicated and flushed as required."""
        if self._confirming is None:
            return begun(self._answer_with({}))
        return self._confirming.answered(
            self._request.timeout_ms / 1000, lambda failures: begun(self._answer_with(failures))
        )

    async def _answer_with(self, failures: Mapping[int, KafkaError]) -> Parts | None:
        """The answer, including failures of batches that were already appended."""
        for place, failure in failures.items():
            await give_way()
            self._outcomes[place] = self._refused(failure, None, self._parts[place])
        refused = (each for each in self._outcomes if isinstance(each, Refused))
        entries = len(self._outcomes) + sum(len(each.record_errors) for each in refused)
        if entries > _ENTRIES_PER_TURN_MAX:
            return await self._broker.threads.making(self._answer)
        return self._answer()

    def _refuse_all(self, refusal: Refused) -> Parts | None:
        """Refuse the whole request; with acks=0, which has no response, the connection is
        closed."""
        self._outcomes = [refusal] * len(self._parts)
        for topic, _, _ in self._parts:
            self._note_refused(refusal.code, topic)
        return self._answer()

    def _answer(self) -> Parts | None:
        if self._request.acks != 0:
            return self._encoded()
        for outcome in self._outcomes:
            if isinstance(outcome, Refused):
                raise MalformedMessage(f"produce with acks=0 failed: {outcome.code.name}")
        return None

    def _encoded(self) -> Parts:
        header = self._context.header
        topics, outcomes = self._request.topics, self._outcomes
        endpoints: Sequence[NodeEndpoint] = ()
        if self._leaders:
            endpoints = endpoints_of(self._broker, self._leaders, self._context.listener)
        frame = write_produce_answer(
            header.api_version, header.correlation_id, topics, outcomes, endpoints
        )
        if not endpoints:
            return [frame]
        tags_at = len(frame) - len(endpoints_tag(endpoints))  # two parts: see `throttle_times.py`
        return [frame[:tags_at], frame[tags_at:]]


def _refused(error: KafkaError, partition: Partition | None) -> Refused:
    start_offset = -1
    if not (
        partition is None or isinstance(error, UnfitRecords) or error.code in _WITHOUT_START_OFFSET
    ):
        start_offset = partition.log_start_offset
    # Only errors of records or of their transaction have a message, as in Apache Kafka.
    record_errors = error.record_errors if isinstance(error, InvalidBatch) else ()
    message = error.message if isinstance(error, InvalidBatch | Unverified) else None
    return Refused(error.code, start_offset, record_errors, message)
