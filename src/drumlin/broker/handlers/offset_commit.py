"""OffsetCommit (key 8), versions 2-10: commit offsets of a group.

- Answered when the offsets are in the log: the next request of the connection may start meanwhile.
- Partitions that do not exist are answered first, as in Apache Kafka, whether or not the others
  succeed.
- Up to version 4 the request may set its own retention; 6 adds leader epochs, 7 static members;
  from 10 topics are named by id (KIP-848).
- From version 9 an unknown group is GROUP_ID_NOT_FOUND, before that ILLEGAL_GENERATION.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import repeat
from typing import Final
from uuid import UUID

from drumlin.broker.context import RequestContext
from drumlin.broker.loop.later import Later, waiting
from drumlin.broker.parts.parts import BrokerData
from drumlin.broker.several_apis.committable_offsets import (
    SortedOut,
    Unread,
    allowed,
    few_at_a_time,
    sort_out,
)
from drumlin.coordination.groups.offsets.commit import Commit
from drumlin.coordination.shards.pending_answer import Written
from drumlin.metadata.image import TopicState
from drumlin.turns import forget
from drumlin.wire.by_hand.commit_request import read_commit_request
from drumlin.wire.by_hand.commit_response import commit_response
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import EncodedBody

_GROUP_ID_NOT_FOUND: Final = 9
_TOPIC_IDS_FROM: Final = 10


def parse(_version: int, frame: memoryview, position: int) -> Unread:
    """Leave the frame to `handle`, which parses it and gives way in between."""
    return Unread(frame, position)


async def handle(context: RequestContext, request: Unread) -> EncodedBody | Later[EncodedBody]:
    return await few_at_a_time(context, request, _commit(context, request, context.version))


async def _commit(
    context: RequestContext, request: Unread, version: int
) -> EncodedBody | Later[EncodedBody]:
    asked = await read_commit_request(version, *request)
    find = allowed(context, asked.group_id, partial(_find_topic, context.broker))
    sorted_out = await sort_out(asked.topics, find, by_id=version >= _TOPIC_IDS_FROM)
    codes: Iterable[ErrorCode] = ()
    if sorted_out.accepted:
        commit = Commit(*asked[:-1], sorted_out.accepted, version)
        try:
            written = await context.broker.groups.commit(commit)
        except KafkaError as error:
            codes = _failed(version, error)
        else:
            return waiting(_respond(version, sorted_out, written))
    return await _told(version, sorted_out, codes)


async def _respond(
    version: int, sorted_out: SortedOut, written: Written[list[ErrorCode]]
) -> EncodedBody:
    codes: Iterable[ErrorCode]
    try:
        codes = await written
    except KafkaError as error:
        codes = _failed(version, error)
    return await _told(version, sorted_out, codes)


async def _told(version: int, sorted_out: SortedOut, codes: Iterable[ErrorCode]) -> EncodedBody:
    results = await sorted_out.results(codes)
    answer = await commit_response(version, results)
    await forget(results, *sorted_out.collections)
    return answer


def _find_topic(
    broker: BrokerData, topic: str | UUID | None
) -> tuple[TopicState | None, ErrorCode]:
    image = broker.metadata.image
    if isinstance(topic, str):  # below version 10
        return image.topics.get(topic), ErrorCode.unknown_topic_or_partition
    state = None if topic is None else image.topics_by_id.get(topic)
    missing = ErrorCode.unknown_topic_id if state is None else ErrorCode.unknown_topic_or_partition
    return state, missing


def _failed(version: int, error: KafkaError) -> Iterable[ErrorCode]:
    """The error's code in this version, for every partition."""
    code = error.code
    if code is ErrorCode.group_id_not_found and version < _GROUP_ID_NOT_FOUND:
        code = ErrorCode.illegal_generation
    return repeat(code)
