"""OffsetDelete (key 47), version 0: delete committed offsets of a group (KIP-496).

As in Apache Kafka: partitions that do not exist, or may not be read, are answered first. A topic
that is named twice is answered twice; but if there are such partitions, each topic is answered
once. If the group refuses, its error is the whole answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.rights.denials import DENIED
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

#: The partitions of one topic, each with its code.
_Results = list[tuple[int, ErrorCode]]
#: A value by topic and partition.
_Codes = dict[tuple[str, int], ErrorCode]
#: A topic, and one of its partitions with its code; None if the request names no partition.
_Unknown = list[tuple[str, tuple[int, ErrorCode] | None]]


async def handle(context: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    try:
        context.require(Operation.DELETE, Kind.GROUP, request.group_id)
        unknown, known = await _sort(context, request.topics)
        deleting = context.broker.groups.delete_offsets(request.group_id, list(known))
        codes = await (await deleting)
    except KafkaError as error:
        return await _response(error.code, ())
    return await _respond(request, unknown, known, codes)


async def _sort(
    context: RequestContext, topics: Iterable[OffsetDeleteRequestTopic]
) -> tuple[_Unknown, _Codes]:
    """The refused partitions, which are missing or may not be read, and the others, each once."""
    image = context.broker.metadata.image
    unknown: _Unknown = []
    known: _Codes = {}
    for topic in topics:
        await give_way()
        state, code = image.topics.get(topic.name), ErrorCode.unknown_topic_or_partition
        if not context.may(Operation.READ, Kind.TOPIC, topic.name):
            state, code = None, DENIED[Kind.TOPIC]
        if state is None:  # the topic is answered even if the request names no partition of it
            unknown.append((topic.name, None))
        for part in topic.partitions:
            index = part.partition_index
            if state is None or state.partition(index) is None:
                unknown.append((topic.name, (index, code)))
            else:
                known[topic.name, index] = ErrorCode.none
            await give_way()
    return unknown, known


async def _respond(
    request: OffsetDeleteRequest,
    unknown: _Unknown,
    code_of: _Codes,
    codes: Sequence[ErrorCode],
) -> OffsetDeleteResponse:
    """`codes`: one for each partition that exists, in order."""
    for each, code in zip(code_of, codes, strict=True):
        if code is not ErrorCode.none:
            code_of[each] = code
        await give_way()
    found = []
    for topic in request.topics:
        await give_way()
        results = await _results_of(topic, code_of)
        if results:
            found.append((topic.name, results))
    topics = await _together(unknown, found) if unknown else found
    return await _response(ErrorCode.none, topics)


async def _results_of(topic: OffsetDeleteRequestTopic, code_of: _Codes) -> _Results:
    results: _Results = []
    for part in topic.partitions:
        code = code_of.get((topic.name, part.partition_index))
        if code is not None:
            results.append((part.partition_index, code))
        await give_way()
    return results


async def _together(
    unknown: Iterable[tuple[str, tuple[int, ErrorCode] | None]],
    found: Iterable[tuple[str, _Results]],
) -> Iterable[tuple[str, _Results]]:
    topics: dict[str, _Results] = {}
    for name, result in unknown:
        topics.setdefault(name, []).extend([] if result is None else [result])
        await give_way()
    for name, results in found:
        topics.setdefault(name, []).extend(results)
        await give_way()
    return topics.items()


async def _response(
    code: ErrorCode, topics: Iterable[tuple[str, _Results]]
) -> OffsetDeleteResponse:
    answers = []
    for name, results in topics:
        partitions = []
        for index, result in results:
            partitions.append(
                OffsetDeleteResponsePartition(partition_index=index, error_code=result)
            )
            await give_way()
        answers.append(OffsetDeleteResponseTopic(name=name, partitions=tuple(partitions)))
        await give_way()
    return OffsetDeleteResponse(error_code=code, throttle_time=ZERO, topics=tuple(answers))
