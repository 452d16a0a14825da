"""Shared by OffsetCommit and TxnOffsetCommit: which offsets may be committed at all.

A request is read and worked on in turns, as it may name very many partitions; most are done within
their first turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from drumlin.broker.context import Answer, Awaited, RequestContext, Waiting
from drumlin.distinct import Growing
from drumlin.metadata.image import TopicState
from drumlin.turns import Work, let_go
from drumlin.wire.by_hand.commit_request import TopicOffsets, topic_offsets_of
from drumlin.wire.by_hand.commit_response import TopicResult
from drumlin.wire.error_codes import ErrorCode

#: Larger requests take a hundred times their size as long as they are worked on: few at a time.
_LARGE_BYTES: Final = 128 * 1024


class Unread(NamedTuple):
    """A request as it came, whose body begins at `position`."""

    frame: memoryview
    position: int


#: Partitions, and a code for each of them, by how the request names the topic.
Refused = Growing[Any, tuple[list[int], list[ErrorCode]]]


class SortedOut(NamedTuple):
    """Offsets in existing partitions, and the partitions that do not exist.

    accepted: as they may be committed, in pieces; each begins a topic of the answer, or goes on.
    refused: None if nothing is.
    by_id: whether the request names topics by their ids.
    """

    accepted: list[TopicOffsets]
    refused: Refused | None = None
    by_id: bool = False

    def let_go(self) -> Work[None]:
        """Free all of it, in turns."""
        yield from let_go(self.accepted)
        if self.refused is not None:
            yield from self.refused.let_go()

    def results(self, codes: Iterable[ErrorCode]) -> Work[list[TopicResult]]:
        """The answer, `codes` being those of the accepted offsets in turn.

        What was refused comes first, with all other results of its topic.
        """
        taken = iter(codes)
        results: list[TopicResult] = []
        whole: tuple[list[int], list[ErrorCode]] | None = None  # of a topic in several pieces
        for offsets in self.accepted:
            if results:
                yield
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
        return (yield from _with_refused(self.refused, results))


def _with_refused(refused: Refused, results: list[TopicResult]) -> Work[list[TopicResult]]:
    told: Refused = Growing()
    for key, (absent, codes) in refused.items():
        told[key] = list(absent), list(codes)
        yield
    for key, partitions, some in results:
        known = told.setdefault(key, ([], []))
        known[0].extend(partitions)
        known[1].extend(some or [ErrorCode.none] * len(partitions))
        yield
    every = []
    for key, (absent, codes) in told.items():
        every.append(TopicResult(key, absent, codes))
        yield
    yield from told.let_go()
    yield from let_go(results)
    return every


def sort_out(
    topics: Sequence[TopicOffsets],
    find: Callable[[Any], tuple[TopicState | None, ErrorCode]],
    *,
    by_id: bool = False,
) -> Work[SortedOut]:
    """`find`: how a request names a topic -> the topic, and the error where one is missing."""
    accepted: list[TopicOffsets] = []
    refused: Refused | None = None
    begins = False
    for number, asked in enumerate(topics):
        if number:
            yield
        begins = begins or asked.begins
        key, partitions = asked.topic_id if by_id else asked.topic, asked.partitions
        state, missing = find(key)
        count = 0 if state is None else len(state.partitions)
        there: TopicOffsets | None = asked
        if not partitions or not (min(partitions) >= 0 and max(partitions) < count):
            absent = [each for each in partitions if not 0 <= each < count]
            if absent or state is None:
                refused = Growing() if refused is None else refused
                named, codes = refused.setdefault(key, ([], []))
                named += absent
                codes += [missing] * len(absent)
            some = [index for index, each in enumerate(partitions) if 0 <= each < count]
            there = asked.some(some) if some else None
        if there is not None and state is not None:
            accepted.append(topic_offsets_of((state.name, state.topic_id, *there[2:-1], begins)))
            begins = False
    return SortedOut(accepted, refused, by_id)


def few_at_a_time(context: RequestContext, request: Unread, work: Work[Answer]) -> Answer:
    """What the router is to carry on: the work, after that for other requests if it is large."""
    return _in_line(context, work) if len(request.frame) > _LARGE_BYTES else work


async def _in_line(context: RequestContext, work: Work[Answer]) -> Awaited:
    async with context.broker.groups.large_commits:
        answer = await context.broker.turns.run(work)
        if isinstance(answer, Waiting):
            return await answer.awaitable
        return await answer if isinstance(answer, Awaitable) else answer
