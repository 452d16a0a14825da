"""OffsetFetch (key 9), versions 1-10: the committed offsets of a group.

- A partition without a commit has offset -1 and no error, whether or not it exists.
- From version 2 a null list of topics means all of them, and the group's error is top-level.
- From version 9 a member of a consumer group gives its epoch, and is refused if that is stale.
- From version 8 a request may name several groups (KIP-709); from 10 topics are named by id
  (KIP-848), and those with an unknown id are answered last.
- Topics that the client may not see are answered last, or not at all if it asks for all of them.
- A group that is named twice with the same topics is answered once.
- With `require_stable` (7+, KIP-447) a partition is UNSTABLE_OFFSET_COMMIT while a transaction
  is open that may change its committed offset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from drumlin.broker.context import RequestContext
from drumlin.broker.loop.garbage import settled
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.rights.denials import DENIED
from drumlin.distinct import counted
from drumlin.turns import give_way
from drumlin.wire.by_hand.offset_fetch_response import NO_OFFSET, pack_partitions
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from drumlin.wire.schema.parts import EncodedItems

if TYPE_CHECKING:
    _Group = OffsetFetchRequest | OffsetFetchRequestGroup

Told = TypeVar("Told")
_GROUP_ERROR: Final = 2
_TOPIC_IDS: Final = 10
_NO_EPOCH: Final = -1
_AT_ONCE: Final = 1000

_Named = Sequence[tuple[str, Sequence[int]]]
Asked = _Named | None


class _Topic:
    """The answer for one topic: its partitions, encoded in pieces."""

    __slots__ = ("_count", "_pieces", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._pieces: list[bytes] = []
        self._count = 0

    def add(self, packed: bytes, count: int) -> None:
        self._pieces.append(packed)
        self._count += count

    def partitions(self) -> EncodedItems:
        return EncodedItems(self._pieces, self._count)


async def handle(context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    refusal = None
    if context.broker.groups.has_unconfirmed:
        try:
            await context.broker.groups.all_confirmed()
        except KafkaError as error:
            refusal = error
    return await _respond(context, request, refusal)


async def _respond(
    context: RequestContext,
    request: OffsetFetchRequest,
    refusal: KafkaError | None,
) -> OffsetFetchResponse:
    """`refusal`: the error for all groups."""
    if request.groups is None:
        return await _one_group(context, request, refusal)
    by_id = context.version >= _TOPIC_IDS
    groups = []
    for group in await _unlike(request.groups):
        if by_id:
            answer = await _group_by_ids(context, group, refusal, request.require_stable)
        else:
            answer = await _group_by_names(context, group, refusal, request.require_stable)
        groups.append(answer)
        await give_way()
    return OffsetFetchResponse(throttle_time=ZERO, groups=tuple(groups))


async def _unlike(groups: Sequence[Any]) -> list[Any]:
    """The groups, without repetitions."""
    times = await counted(group.group_id for group in groups)
    said_before: set[object] = set()
    found: list[Any] = []
    for group in groups:
        await give_way()
        if times[group.group_id] > 1:  # the rest is compared as plain tuples, which is quick
            topics = []
            for topic in group.topics or ():
                topics.append((topic.topic_id, topic.name, topic.partition_indexes))
                await give_way()
            member = group.member_id, group.member_epoch
            said = (group.group_id, group.topics is None, tuple(topics), member)
            if said in said_before:
                continue
            said_before.add(said)
        found.append(group)
    return found


async def _committed(
    context: RequestContext,
    group: _Group,
    asked: Asked,
    stable: bool,
    refusal: KafkaError | None,
) -> list[_Topic]:
    """
    Raises:
        KafkaError: the group is not available, or refuses.
    """
    context.require(Operation.DESCRIBE, Kind.GROUP, group.group_id)
    if refusal is not None:
        raise refusal
    denied: list[_Topic] = []
    if asked is not None and context.broker.authorizer is not None:
        asked, denied = await _by_rights(context, asked)
    found: list[_Topic] = []
    for piece in context.broker.groups.committed_offsets(
        group.group_id,
        asked,
        requires_stable=stable,
        member_id=getattr(group, "member_id", None),
        member_epoch=getattr(group, "member_epoch", _NO_EPOCH),
    ):
        if piece.begins:
            found.append(_Topic(piece.topic))
        packed = pack_partitions(context.version, *piece[2:])
        found[-1].add(packed, len(piece.partitions))
        await give_way()
    if asked is None and context.broker.authorizer is not None:
        found = await _seen(context, found)
    return [*found, *denied]


async def _by_rights(context: RequestContext, asked: _Named) -> tuple[_Named, list[_Topic]]:
    """The topics that the client may see, and the answers for the others."""
    seen: list[tuple[str, Sequence[int]]] = []
    denied: list[_Topic] = []
    for name, partitions in asked:
        if context.may(Operation.DESCRIBE, Kind.TOPIC, name):
            seen.append((name, partitions))
        else:
            denied.append(await _failed(context.version, name, partitions, DENIED[Kind.TOPIC]))
        await give_way()
    return seen, denied


async def _seen(context: RequestContext, topics: list[_Topic]) -> list[_Topic]:
    seen = []
    for each in topics:
        if context.sees(Operation.DESCRIBE, Kind.TOPIC, each.name):
            seen.append(each)
        await give_way()
    return seen


async def _one_group(
    context: RequestContext, request: OffsetFetchRequest, refusal: KafkaError | None
) -> OffsetFetchResponse:
    code = ErrorCode.none
    topics: tuple[OffsetFetchResponseTopic, ...] = ()
    asked = await _asked(request)
    try:
        fetched = await _committed(context, request, asked, request.require_stable, refusal)
        topics = await _told(
            fetched,
            lambda each: OffsetFetchResponseTopic(name=each.name, partitions=each.partitions()),
        )
    except KafkaError as error:
        code = error.code
        if context.version < _GROUP_ERROR:
            topics = await _failed_topics(context.version, request, code)
    return OffsetFetchResponse(throttle_time=ZERO, topics=topics, error_code=code)


async def _asked(
    request: OffsetFetchRequest | OffsetFetchRequestGroup,
) -> list[tuple[str, Sequence[int]]] | None:
    if request.topics is None:
        return None
    asked: list[tuple[str, Sequence[int]]] = []
    for topic in request.topics:
        asked.append((topic.name, topic.partition_indexes))
        await give_way()
    return asked


async def _group_by_names(
    context: RequestContext,
    group: OffsetFetchRequestGroup,
    refusal: KafkaError | None,
    stable: bool,
) -> OffsetFetchResponseGroup:
    code = ErrorCode.none
    topics: tuple[OffsetFetchResponseTopics, ...] = ()
    asked = await _asked(group)
    try:
        fetched = await _committed(context, group, asked, stable, refusal)
        topics = await _told(
            fetched,
            lambda each: OffsetFetchResponseTopics(name=each.name, partitions=each.partitions()),
        )
    except KafkaError as error:
        code = error.code
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics, error_code=code)


async def _group_by_ids(
    context: RequestContext,
    group: OffsetFetchRequestGroup,
    refusal: KafkaError | None,
    stable: bool,
) -> OffsetFetchResponseGroup:
    image = context.broker.metadata.image
    asked: list[tuple[str, Sequence[int]]] | None = None
    unknown: list[OffsetFetchResponseTopics] = []
    if group.topics is not None:
        asked = []
        for topic in group.topics:
            name = image.topic_name(topic.topic_id)
            if name is None:
                unknown.append(await _unknown_topic(context.version, topic))
            else:
                asked.append((name, topic.partition_indexes))
            await give_way()
    code = ErrorCode.none
    topics: list[OffsetFetchResponseTopics] = []
    try:
        fetched = await _committed(context, group, asked, stable, refusal)
        for each in fetched:
            state = image.topics.get(each.name)
            if state is not None:
                partitions = each.partitions()
                topics.append(
                    OffsetFetchResponseTopics(
                        topic_id=state.topic_id,
                        partitions=partitions,
                    )
                )
            await give_way()
        topics += unknown
    except KafkaError as error:
        code = error.code
    return OffsetFetchResponseGroup(
        group_id=group.group_id,
        topics=settled(tuple(topics)),
        error_code=code,
    )


async def _told(fetched: list[_Topic], tell: Callable[[_Topic], Told]) -> tuple[Told, ...]:
    topics = []
    for each in fetched:
        topics.append(tell(each))
        await give_way()
    return settled(tuple(topics))


async def _failed(version: int, name: str, partitions: Sequence[int], code: ErrorCode) -> _Topic:
    topic = _Topic(name)
    for first in range(0, len(partitions), _AT_ONCE):
        some = partitions[first : first + _AT_ONCE]
        count = len(some)
        packed = pack_partitions(version, some, [NO_OFFSET] * count, None, [code] * count)
        topic.add(packed, count)
        await give_way()
    return topic


async def _unknown_topic(
    version: int, topic: OffsetFetchRequestTopics
) -> OffsetFetchResponseTopics:
    failed = await _failed(version, "", topic.partition_indexes, ErrorCode.unknown_topic_id)
    return OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=failed.partitions())


async def _failed_topics(
    version: int, request: OffsetFetchRequest, code: ErrorCode
) -> tuple[OffsetFetchResponseTopic, ...]:
    topics = []
    for topic in request.topics or ():
        failed = await _failed(version, topic.name, topic.partition_indexes, code)
        topics.append(OffsetFetchResponseTopic(name=topic.name, partitions=failed.partitions()))
        await give_way()
    return tuple(topics)
