"""The common part of OffsetCommit and TxnOffsetCommit: only existing partitions are committed, of
topics that the client may read.

Parsing and handling give way in between, as a request may name very many partitions; most requests
are done within one turn of the loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

from drumlin.broker.context import RequestContext
from drumlin.broker.loop.later import Later
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.rights.denials import DENIED
from drumlin.metadata.image import TopicState
from drumlin.turns import give_way
from drumlin.wire.by_hand.commit_request import TopicOffsets, topic_offsets_of
from drumlin.wire.by_hand.commit_response import TopicResult
from drumlin.wire.error_codes import ErrorCode

T = TypeVar("T")

#: Larger requests take a hundred times their size while they are handled, so only a few are at a
#: time.
_LARGE_BYTES: Final = 128 * 1024


class Unread(NamedTuple):
    """An unparsed request, whose body begins at `position`."""

    frame: memoryview
    position: int


#: Finds a topic by the name or id in a request. Returns None and a code if there is no such topic,
#: or the client may not see it.
Find = Callable[[Any], tuple[TopicState | None, ErrorCode]]

#: Partitions, and a code for each, by the name or id that the request gives for the topic.
Refused = dict[Any, tuple[list[int], list[ErrorCode]]]


class SortedOut(NamedTuple):
    """Offsets in existing partitions, and the partitions that do not exist, or may not be read.

    accepted: the offsets to commit, in pieces; each begins a topic of the answer, or continues one.
    refused: None if no partition is refused.
    by_id: whether the request names topics by their ids.
    """

    accepted: list[TopicOffsets]
    refused: Refused | None = None
    by_id: bool = False

    @property
    def collections(self) -> list[list[Any] | dict[Any, Any]]:
        """The collections that may be large, for `forget`."""
        return [self.accepted] if self.refused is None else [self.accepted, self.refused]

    async def results(self, codes: Iterable[ErrorCode]) -> list[TopicResult]:
        """The results; `codes` has one code for each accepted offset, in order.

        Refused partitions come first, with all other results of their topics.
        """
        taken = iter(codes)
        results: list[TopicResult] = []
        whole: tuple[list[int], list[ErrorCode]] | None = None  # a topic in several pieces
        for offsets in self.accepted:
            if results:
                await give_way()
            key, partitions = offsets.topic_id if self.by_id else offsets.topic, offsets.partitions
            said = list(islice(taken, len(partitions)))
            if offsets.begins:
                is_fine = said.count(ErrorCode.none) == len(said)
                results.append(TopicResult(key, partitions, None if is_fine else said))
                whole = None
                continue
            if whole is None:
                _, first, codes_of_first = results[-1]
                whole = list(first), list(codes_of_first or [ErrorCode.none] * len(first))
                results[-1] = TopicResult(key, *whole)
            whole[0].extend(partitions)
            whole[1].extend(said)
        if self.refused is None:
            return results
        return await _with_refused(self.refused, results)


async def _with_refused(refused: Refused, results: list[TopicResult]) -> list[TopicResult]:
    told: Refused = {}
    for key, (absent, codes) in refused.items():
        told[key] = list(absent), list(codes)
        await give_way()
    for key, partitions, some in results:
        known = told.setdefault(key, ([], []))
        known[0].extend(partitions)
        known[1].extend(some or [ErrorCode.none] * len(partitions))
        await give_way()
    every = []
    for key, (absent, codes) in told.items():
        every.append(TopicResult(key, absent, codes))
        await give_way()
    return every


def allowed(context: RequestContext, group_id: str, find: Find) -> Find:
    """`find`, restricted to the topics for which the client may commit offsets of the group."""
    if context.broker.authorizer is None:
        return find
    if not context.may(Operation.READ, Kind.GROUP, group_id):
        return nothing(DENIED[Kind.GROUP])

    def find_allowed(topic: Any) -> tuple[TopicState | None, ErrorCode]:
        state, missing = find(topic)
        name = topic if state is None else state.name
        # Without the right, the client must not learn whether the topic exists. Ids are no secret.
        if isinstance(name, str) and not context.may(Operation.READ, Kind.TOPIC, name):
            return None, DENIED[Kind.TOPIC]
        return state, missing

    return find_allowed


def nothing(code: ErrorCode) -> Find:
    """A `Find` that finds no topic, and always answers `code`."""
    return lambda _: (None, code)


async def sort_out(
    topics: Sequence[TopicOffsets],
    find: Find,
    *,
    by_id: bool = False,
) -> SortedOut:
    """Sort offsets by whether their partitions exist."""
    accepted: list[TopicOffsets] = []
    refused: Refused | None = None
    begins = False
    for number, asked in enumerate(topics):
        if number:
            await give_way()
        begins = begins or asked.begins
        key, partitions = asked.topic_id if by_id else asked.topic, asked.partitions
        state, missing = find(key)
        count = 0 if state is None else len(state.partitions)
        there: TopicOffsets | None = asked
        if not partitions or not (min(partitions) >= 0 and max(partitions) < count):
            absent = [each for each in partitions if not 0 <= each < count]
            if absent or state is None:
                refused = {} if refused is None else refused
                named, codes = refused.setdefault(key, ([], []))
                named += absent
                codes += [missing] * len(absent)
            some = [index for index, each in enumerate(partitions) if 0 <= each < count]
            there = asked.some(some) if some else None
        if there is not None and state is not None:
            accepted.append(topic_offsets_of((state.name, state.topic_id, *there[2:-1], begins)))
            begins = False
    return SortedOut(accepted, refused, by_id)


async def few_at_a_time(context: RequestContext, request: Unread, work: Awaitable[T]) -> T:
    """Await `work`; of large requests, only a few are worked on at a time."""
    if len(request.frame) <= _LARGE_BYTES:
        return await work
    async with context.broker.groups.large_commits:
        answer = await work
        if isinstance(answer, Later):
            await answer.until_settled()
        return answer
