"""ElectLeaders (key 43), versions 0-2: elect preferred leaders, or unclean ones (KIP-460).

Null instead of topics means all partitions; the answer then leaves out those that need no election.
An unclean election elects an out-of-sync replica if no in-sync replica is alive: acknowledged
records may be lost. Every broker serves it. An error of the whole request is repeated for each of
its partitions.

Version notes: 1 adds unclean elections, and a top-level error code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.rights.denials import denied
from drumlin.metadata.image import NO_LEADER, PartitionId, PartitionState
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

_PREFERRED: Final = 0
_UNCLEAN: Final = 1
#: Partitions of a topic that are handled between two chances to give way.
_TOGETHER: Final = 500


async def handle(context: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    is_all, is_unclean = request.topic_partitions is None, request.election_type == _UNCLEAN
    refusal = _refusal(context, request)
    results = []
    for name, indexes in _wanted(context, request, is_unclean=is_unclean):
        told: list[PartitionResult] = []
        left = iter(indexes)
        while some := list(islice(left, _TOGETHER)):
            denial = _denial(context)  # the right may have been revoked
            refusal = denial or refusal
            if is_all and denial:
                break  # the answer must not name the topics
            found = [(index, refusal) for index in some]
            if refusal is None:
                found = await _elect(context, name, some, is_unclean=is_unclean)
            for index, error in found:
                if not (is_all and error and error.code is ErrorCode.election_not_needed):
                    told.append(_result(index, error))
            await give_way()
        if is_all and _denial(context):
            break
        answer = ReplicaElectionResult(topic=name, partition_result=tuple(told))
        results.append(answer)
        await give_way()
    return ElectLeadersResponse(
        throttle_time=ZERO,
        error_code=refusal.code if refusal else ErrorCode.none,
        replica_election_results=tuple(results),
    )


def _denial(context: RequestContext) -> KafkaError | None:
    return None if context.may_cluster(Operation.ALTER) else denied(Kind.CLUSTER)


def _refusal(context: RequestContext, request: ElectLeadersRequest) -> KafkaError | None:
    """The error of the whole request."""
    denial = _denial(context)
    if denial is not None:
        return denial
    if request.timeout <= ZERO:
        return KafkaError(ErrorCode.request_timed_out)
    if request.election_type not in (_PREFERRED, _UNCLEAN):
        message = f"there is no type of election {request.election_type}"
        return KafkaError(ErrorCode.invalid_request, message)
    return None


def _wanted(
    context: RequestContext, request: ElectLeadersRequest, *, is_unclean: bool
) -> Iterator[tuple[str, Iterable[int]]]:
    if request.topic_partitions is not None:
        for topic in request.topic_partitions:
            yield topic.topic, topic.partitions
    else:
        for known in list(context.broker.metadata.image.topics.values()):
            yield known.name, _that_may_need_one(known.partitions, is_unclean=is_unclean)


def _that_may_need_one(partitions: Iterable[PartitionState], *, is_unclean: bool) -> Iterator[int]:
    for each in partitions:
        if each.leader == NO_LEADER if is_unclean else each.leader != each.replicas[0]:
            yield each.index


async def _elect(
    context: RequestContext, name: str, indexes: list[int], *, is_unclean: bool
) -> list[tuple[int, KafkaError | None]]:
    metadata = context.broker.metadata
    topic = metadata.image.topics.get(name)
    if topic is None:
        return [(index, _unknown(name, index)) for index in indexes]
    partitions = {index: PartitionId(topic.topic_id, index) for index in indexes}
    outcomes = await metadata.elect_leaders(partitions.values(), is_unclean=is_unclean)
    told: list[tuple[int, KafkaError | None]] = []
    for index in indexes:
        outcome = outcomes[partitions[index]]
        if not isinstance(outcome, KafkaError):
            told.append((index, None))
        else:
            is_unknown = outcome.code is ErrorCode.unknown_topic_id
            told.append((index, _unknown(name, index) if is_unknown else outcome))
    return told


def _unknown(name: str, index: int) -> KafkaError:
    message = f"there is no partition {index} of a topic {name}"
    return KafkaError(ErrorCode.unknown_topic_or_partition, message)


def _result(index: int, error: KafkaError | None) -> PartitionResult:
    return PartitionResult(
        partition_id=index,
        error_code=error.code if error else ErrorCode.none,
        error_message=error.message if error else None,
    )
