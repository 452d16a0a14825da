"""TxnOffsetCommit (key 28), versions 0-5: positions of a group, as a part of a transaction.

- They count when the transaction is committed; until then OffsetFetch with `require_stable`
  says so. What is written is in the log when this is answered.
- The partition of `__consumer_offsets` must be part of the transaction, as the partition of a
  produced batch must be: by AddOffsetsToTxn, or from version 5 on by this request itself.
- Partitions that do not exist are answered by themselves, whatever becomes of the others.

Version notes: 2 adds leader epochs (KIP-320), 3 says which member commits (KIP-447); from 4
TRANSACTION_ABORTABLE is known, and 5 adds the partition (KIP-890).
"""

from __future__ import annotations

from typing import Any, Final

from drumlin.broker.context import RequestContext
from drumlin.broker.offset_positions import position_of
from drumlin.broker.transaction_checks import ask_coordinator, not_confirmed
from drumlin.coordination.groups.commit import Commit, Position
from drumlin.coordination.groups.log import Producer
from drumlin.metadata.names import GROUP_METADATA
from drumlin.storage.verification import NOT_REQUIRED, Verification
from drumlin.turns import Work
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO, Shape

_KNOWS_LOADING_FROM: Final = 2
_ABORTABLE_FROM: Final = 4
_ADDS_FROM: Final = 5
_NO_SEQUENCE: Final = -1
_NO_GENERATION: Final = -1

#: What a client of this API does not expect, and what it is told instead.
_TOLD: Final = {
    ErrorCode.group_id_not_found: ErrorCode.illegal_generation,
    ErrorCode.stale_member_epoch: ErrorCode.illegal_generation,
    ErrorCode.network_exception: ErrorCode.coordinator_load_in_progress,
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
}

#: Codes by topic and partition, in the order of the answer.
Results = dict[str, dict[int, ErrorCode]]


async def handle(context: RequestContext, request: Any, shape: Shape) -> Any:
    results, positions = await context.broker.turns.run(_sort(context, request.topics))
    if positions:
        for position, code in zip(
            positions, await _codes(context, request, positions), strict=True
        ):
            results[position.topic][position.partition] = code
    return _response(shape, results)


def _sort(context: RequestContext, topics: Any) -> Work[tuple[Results, list[Position]]]:
    """What is answered at once, and what is to be committed."""
    results: Results = {}
    positions: list[Position] = []
    image = context.broker.metadata.image
    for topic in topics:
        state = image.topics.get(topic.name)
        if state is not None and not topic.partitions:
            continue
        of_topic = results.setdefault(topic.name, {})
        for part in topic.partitions:
            yield
            if state is None or state.partition(part.partition_index) is None:
                of_topic[part.partition_index] = ErrorCode.unknown_topic_or_partition
                continue
            positions.append(position_of(state, part))
    return results, positions


async def _codes(
    context: RequestContext, request: Any, positions: list[Position]
) -> list[ErrorCode]:
    commit = Commit(
        group_id=request.group_id,
        member_id=getattr(request, "member_id", ""),
        group_instance_id=getattr(request, "group_instance_id", None),
        generation_id=getattr(request, "generation_id", _NO_GENERATION),
        retention_ms=None,
        positions=positions,
        producer=Producer(request.producer_id, request.producer_epoch),
    )
    try:
        verification = await _verify(context, request)
        return await context.broker.groups.commit_in_transaction(commit, verification)
    except KafkaError as error:
        code = _TOLD.get(error.code, error.code)
        if code is ErrorCode.coordinator_load_in_progress and context.version < _KNOWS_LOADING_FROM:
            code = ErrorCode.coordinator_not_available
        return [code for _ in positions]


async def _verify(context: RequestContext, request: Any) -> Verification | None:
    """See to it that the transaction knows of the group's partition.

    Raises:
        KafkaError: it does not.
    """
    broker, adds = context.broker, context.version >= _ADDS_FROM
    is_required = broker.config.transaction_partition_verification_enable
    index = broker.groups.partition_to_commit(request.group_id)
    if not is_required and not adds:
        return NOT_REQUIRED
    producer = Producer(request.producer_id, request.producer_epoch)
    state = broker.partitions.get(GROUP_METADATA, index).log.producer_state
    verification = state.begin_verification(
        *producer, _NO_SEQUENCE, broker.clock.wall_ms(), supports_epoch_bump=adds
    )
    if verification is None:
        return None  # the transaction is open in the log
    partition = (GROUP_METADATA, index)
    codes = await ask_coordinator(
        broker,
        request.transactional_id,
        producer,
        [partition],
        adds=adds,
        knows_abortable=context.version >= _ABORTABLE_FROM,
    )
    code = codes[partition]
    if code is not ErrorCode.none:
        not_confirmed(broker, code, state, producer.producer_id, verification)
        raise KafkaError(code)
    return verification if is_required else NOT_REQUIRED


def _response(shape: Shape, results: Results) -> Work[Any]:
    topics = []
    for name, of_topic in results.items():
        partitions = []
        for index, code in of_topic.items():
            partitions.append(
                shape("TxnOffsetCommitResponsePartition", partition_index=index, error_code=code)
            )
            yield
        topics.append(
            shape("TxnOffsetCommitResponseTopic", name=name, partitions=tuple(partitions))
        )
    return shape("TxnOffsetCommitResponse", throttle_time=ZERO, topics=tuple(topics))
