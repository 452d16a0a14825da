"""TxnOffsetCommit (key 28), versions 0-5: commit offsets of a group as part of a transaction.

- The offsets take effect when the transaction is committed; until then OffsetFetch with
  `require_stable` answers UNSTABLE_OFFSET_COMMIT. Answered when the offsets are in the log.
- The partition of `__consumer_offsets` must be part of the transaction, like the partition of a
  produced batch: AddOffsetsToTxn adds it, or from version 5 on this request itself.
- Partitions that do not exist, or may not be read, are answered separately, whether or not the
  others succeed.

Version notes: 2 adds leader epochs (KIP-320), 3 adds the member (KIP-447), 4 adds
TRANSACTION_ABORTABLE, and 5 adds the partition to the transaction (KIP-890).
"""

from __future__ import annotations

from functools import partial
from itertools import repeat
from typing import Final
from uuid import UUID

from drumlin.broker.context import RequestContext
from drumlin.broker.parts.parts import BrokerData
from drumlin.broker.producing.transaction_checks import ask_coordinator, not_confirmed
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.rights.denials import DENIED
from drumlin.broker.several_apis.committable_offsets import (
    Find,
    SortedOut,
    Unread,
    allowed,
    few_at_a_time,
    nothing,
    sort_out,
)
from drumlin.coordination.groups.offsets.commit import Commit
from drumlin.coordination.shards.state_batches import Producer
from drumlin.metadata.image import TopicState
from drumlin.metadata.names import GROUP_METADATA
from drumlin.storage.producers.verification import NOT_REQUIRED, Verification
from drumlin.turns import forget, give_way
from drumlin.wire.by_hand.commit_request import TxnCommitRequest, read_txn_commit_request
from drumlin.wire.by_hand.commit_response import TopicResult, txn_commit_response
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import EncodedBody

_KNOWS_LOADING_FROM: Final = 2
_ABORTABLE_FROM: Final = 4
_ADDS_FROM: Final = 5
_NO_SEQUENCE: Final = -1

#: Codes that clients of this API do not expect, and the codes that replace them.
_TOLD: Final = {
    ErrorCode.group_id_not_found: ErrorCode.illegal_generation,
    ErrorCode.stale_member_epoch: ErrorCode.illegal_generation,
    ErrorCode.network_exception: ErrorCode.coordinator_load_in_progress,
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
}


def parse(_version: int, frame: memoryview, position: int) -> Unread:
    """Leave the frame to `handle`, which parses it and gives way in between."""
    return Unread(frame, position)


async def handle(context: RequestContext, request: Unread) -> EncodedBody:
    return await few_at_a_time(context, request, _work(context, request, context.version))


async def _work(context: RequestContext, request: Unread, version: int) -> EncodedBody:
    asked = await read_txn_commit_request(version, *request)
    sorted_out = await sort_out(asked.commit.topics, _find(context, asked))
    codes: list[ErrorCode] | ErrorCode = []
    if sorted_out.accepted:
        sorted_out, codes = await _commit(context, asked, sorted_out)
    answer = await _answer(version, asked, sorted_out, codes)
    await forget(asked.commit.topics, *sorted_out.collections)
    return answer


async def _commit(
    context: RequestContext, asked: TxnCommitRequest, sorted_out: SortedOut
) -> tuple[SortedOut, list[ErrorCode] | ErrorCode]:
    """The offsets that were committed, and a code for each, or a single one for all."""
    broker, rights = context.broker, _rights(context)
    producer = Producer(asked.producer_id, asked.producer_epoch)
    try:
        verification = await _verify(context, asked)
        if _rights(context) != rights:
            sorted_out = await sort_out(asked.commit.topics, _find(context, asked))
            if not sorted_out.accepted:
                return sorted_out, []
        commit = Commit(*asked.commit[:-1], sorted_out.accepted, producer=producer)
        written = await broker.groups.commit_in_transaction(commit, verification)
        return sorted_out, await written
    except KafkaError as error:
        code = _TOLD.get(error.code, error.code)
        if code is ErrorCode.coordinator_load_in_progress and context.version < _KNOWS_LOADING_FROM:
            code = ErrorCode.coordinator_not_available
        return sorted_out, code


def _rights(context: RequestContext) -> int | None:
    """The version of the ACLs: a different number means that rights have changed."""
    authorizer = context.broker.authorizer
    return None if authorizer is None else authorizer.version


def _find(context: RequestContext, asked: TxnCommitRequest) -> Find:
    if not context.may(Operation.WRITE, Kind.TRANSACTIONAL_ID, asked.transactional_id):
        return nothing(DENIED[Kind.TRANSACTIONAL_ID])
    return allowed(context, asked.commit.group_id, partial(_find_topic, context.broker))


def _find_topic(broker: BrokerData, name: str) -> tuple[TopicState | None, ErrorCode]:
    return broker.metadata.image.topics.get(name), ErrorCode.unknown_topic_or_partition


async def _verify(context: RequestContext, request: TxnCommitRequest) -> Verification | None:
    """Make sure that the transaction includes the group's partition.

    Raises:
        KafkaError: the partition is not part of it.
    """
    broker, adds = context.broker, context.version >= _ADDS_FROM
    is_required = broker.config.transaction_partition_verification_enable
    index = broker.groups.partition_to_commit(request.commit.group_id)
    if not is_required and not adds:
        return NOT_REQUIRED
    producer = Producer(request.producer_id, request.producer_epoch)
    partition = broker.partitions.get(GROUP_METADATA, index)
    verification = partition.begin_verification(
        *producer, _NO_SEQUENCE, broker.clock.wall_ms(), supports_epoch_bump=adds
    )
    if verification is None:
        return None  # the transaction is open in the log
    codes = await ask_coordinator(
        broker,
        request.transactional_id,
        producer,
        [(GROUP_METADATA, index)],
        adds=adds,
        knows_abortable=context.version >= _ABORTABLE_FROM,
    )
    code = codes[GROUP_METADATA, index]
    if code is not ErrorCode.none:
        not_confirmed(broker, code, partition.withdrawal_of(producer.producer_id, verification))
        raise KafkaError(code)
    return verification if is_required else NOT_REQUIRED


async def _answer(
    version: int,
    asked: TxnCommitRequest,
    sorted_out: SortedOut,
    codes: list[ErrorCode] | ErrorCode,
) -> EncodedBody:
    """Topics and partitions in the order of the request, each once.

    `codes`: one for each accepted offset, or a single one for all.
    """
    results: dict[str | UUID | None, dict[int, ErrorCode]] = {}
    refused = sorted_out.refused or {}
    for topic in asked.commit.topics:
        await give_way()
        if topic.partitions or topic.topic in refused:
            found = results.setdefault(topic.topic, {})
            found.update(dict.fromkeys(topic.partitions, ErrorCode.none))
    for key, (partitions, refusals) in refused.items():
        results[key].update(zip(partitions, refusals, strict=True))
        await give_way()
    taken = iter(codes) if isinstance(codes, list) else repeat(codes)
    for offsets in sorted_out.accepted:
        results[offsets.topic].update(zip(offsets.partitions, taken, strict=False))
        await give_way()
    told: list[TopicResult] = []
    for name, each in results.items():
        told.append(TopicResult(name, list(each), list(each.values())))
        await give_way()
    answer = await txn_commit_response(version, told)
    await forget(results, told)
    return answer
