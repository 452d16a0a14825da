"""Shared by OffsetCommit and TxnOffsetCommit: which offsets may be committed at all.

A request is read and worked on in turns, as it may name very many partitions; most are done within
their first turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from drumlin.broker.context import Answer, Awaited, RequestContext, Waiting
from drumlin.coordination.groups.offsets.commit import TopicOffsets, joined
from drumlin.distinct import Growing
from drumlin.metadata.image import TopicState
from drumlin.tuples import from_tuple
from drumlin.turns import Work, let_go, listed
from drumlin.wire.by_hand.commit_request import RequestedOffsets
from drumlin.wire.by_hand.commit_response import TopicResult
from drumlin.wire.error_codes import ErrorCode

#: Larger requests take a hundred times their size as long as they are worked on: few at a time.
_LARGE_BYTES: Final = 128 * 1024


class Unread(NamedTuple):
    """A request as it came, whose body begins at `position`."""

    frame: memoryview
    position: int


class SortedOut(NamedTuple):
    """Offsets in existing partitions, and the partitions that do not exist.

    accepted: with how the request names the topic.
    refused: partitions, and a code for each of them, by how the request names the topic.
    """

    accepted: list[tuple[Any, TopicOffsets]]
    refused: Growing[Any, tuple[list[int], list[ErrorCode]]]

    def let_go(self) -> Work[None]:
        """Free all of it, in turns."""
        yield from let_go(self.accepted)
        yield from self.refused.let_go()

    def offsets(self) -> Work[list[TopicOffsets]]:
        return listed(offsets for _, offsets in self.accepted)

    def results(self, codes: Iterable[ErrorCode]) -> Work[list[TopicResult]]:
        """The answer, `codes` being those of the accepted offsets in turn.

        What was refused comes first, with all other results of its topic.
        """
        taken = iter(codes)
        results: list[TopicResult] = []
        for key, offsets in self.accepted:
            if results:
                yield
            of_topic = list(islice(taken, len(offsets.partitions)))
            is_fine = of_topic.count(ErrorCode.none) == len(of_topic)
            results.append(TopicResult(key, offsets.partitions, None if is_fine else of_topic))
        if not len(self.refused):
            return results
        told: Growing[Any, tuple[list[int], list[ErrorCode]]] = Growing()
        for key, (absent, said) in self.refused.items():
            told[key] = list(absent), list(said)
            yield
        for key, partitions, some in results:
            known = told.setdefault(key, ([], []))
            known[0].extend(partitions)
            known[1].extend(some or [ErrorCode.none] * len(partitions))
            yield
        every = []
        for key, (partitions, said) in told.items():
            every.append(TopicResult(key, partitions, said))
            yield
        yield from told.let_go()
        yield from let_go(results)
        return every


_offsets_of: Final = from_tuple(TopicOffsets)
_sorted_out_of: Final = from_tuple(SortedOut)


def sort_out(
    topics: Sequence[RequestedOffsets],
    find: Callable[[Any], tuple[TopicState | None, ErrorCode]],
) -> Work[SortedOut]:
    """`find`: how a request names a topic -> the topic, and the error where one is missing."""
    accepted: list[tuple[Any, TopicOffsets]] = []
    refused: Growing[Any, tuple[list[int], list[ErrorCode]]] = Growing()
    for number, topic in enumerate(topics):
        if number:
            yield
        key = topic.topic
        state, missing = find(key)
        name, topic_id, count = "", None, 0
        if state is not None:
            name, topic_id, count = state.name, state.topic_id, len(state.partitions)
        elif not topic.partitions:
            refused.setdefault(key, ([], []))
        if topic.partitions:
            offsets = _offsets_of((name, topic_id, *topic[1:]))
            there, absent = yield from _those_below(offsets, count)
            if absent:
                partitions, said = refused.setdefault(key, ([], []))
                partitions += absent
                said += [missing] * len(absent)
            if there is not None:
                accepted.append((key, there))
    return _sorted_out_of((accepted, refused))


def _those_below(offsets: TopicOffsets, count: int) -> Work[tuple[TopicOffsets | None, list[int]]]:
    """The offsets in partitions below `count`, or None; and the other partitions."""
    pieces: list[TopicOffsets] = []
    absent: list[int] = []
    for piece in offsets.pieces():
        partitions = piece.partitions
        if min(partitions) >= 0 and max(partitions) < count:
            pieces.append(piece)
        else:
            absent += [each for each in partitions if not 0 <= each < count]
            there = [index for index, each in enumerate(partitions) if 0 <= each < count]
            if there:
                pieces.append(piece.some(there))
        yield
    if len(pieces) <= 1:
        return (pieces[0] if pieces else None), absent
    return (joined(pieces) if absent else offsets), absent


def few_at_a_time(context: RequestContext, request: Unread, work: Work[Answer]) -> Answer:
    """What the router is to carry on: the work, after that for other requests if it is large."""
    return _in_line(context, work) if len(request.frame) > _LARGE_BYTES else work


async def _in_line(context: RequestContext, work: Work[Answer]) -> Awaited:
    async with context.broker.groups.large_commits:
        answer = await context.broker.turns.run(work)
        if isinstance(answer, Waiting):
            return await answer.awaitable
        return await answer if isinstance(answer, Awaitable) else answer
