"""What OffsetCommit and TxnOffsetCommit have in common: which positions may be committed at all.

A request is read and worked on in turns, as it may name very many partitions; most are done within
their first turn.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from drumlin.broker.context import RequestContext, Waiting
from drumlin.coordination.groups.commit import Positions
from drumlin.metadata.image import TopicState
from drumlin.turns import Work, one_turn
from drumlin.wire.commit_request import TopicPositions
from drumlin.wire.commit_response import TopicResult
from drumlin.wire.errors import ErrorCode

#: Larger requests take a hundred times their size as long as they are worked on: few at a time.
_LARGE_BYTES: Final = 128 * 1024


class Unread(NamedTuple):
    """A request as it came, whose body begins at `position`."""

    frame: memoryview
    position: int


class SortedOut(NamedTuple):
    """Positions in partitions that there are, and the partitions that there are not.

    accepted: with how the request names the topic.
    refused: by how the request names the topic.
    """

    accepted: list[tuple[Any, Positions]]
    refused: dict[Any, list[tuple[int, ErrorCode]]]

    @property
    def positions(self) -> list[Positions]:
        return [positions for _, positions in self.accepted]

    def results(self, codes: Sequence[ErrorCode]) -> list[TopicResult]:
        """The answer, `codes` being those of the accepted positions in turn.

        What was refused comes first, and with it what else is told of its topic.
        """
        taken = iter(codes)
        results = []
        for key, positions in self.accepted:
            of_topic = list(islice(taken, len(positions.partitions)))
            is_fine = of_topic.count(ErrorCode.none) == len(of_topic)
            results.append(TopicResult(key, positions.partitions, None if is_fine else of_topic))
        if not self.refused:
            return results
        told: dict[Any, tuple[list[int], list[ErrorCode]]] = {}
        for key, missing in self.refused.items():
            told[key] = [each[0] for each in missing], [each[1] for each in missing]
        for key, partitions, some in results:
            known = told.setdefault(key, ([], []))
            known[0].extend(partitions)
            known[1].extend(some or [ErrorCode.none] * len(partitions))
        return [TopicResult(key, *columns) for key, columns in told.items()]


def sort_out(
    topics: Sequence[TopicPositions],
    find: Callable[[Any], tuple[TopicState | None, ErrorCode]],
) -> Work[SortedOut]:
    """`find`: how a request names a topic -> the topic, and the error where one is missing."""
    accepted: list[tuple[Any, Positions]] = []
    refused: dict[Any, list[tuple[int, ErrorCode]]] = {}
    for topic in topics:
        key, partitions = topic.topic, topic.partitions
        state, missing = find(key)
        if state is None or not partitions:
            if state is None:
                told = refused.setdefault(key, [])
                told += [(partition, missing) for partition in partitions]
            yield
            continue
        positions = Positions(state.name, state.topic_id, *topic[1:])
        count = len(state.partitions)
        if min(partitions) < 0 or max(partitions) >= count:
            told = refused.setdefault(key, [])
            told += [(each, missing) for each in partitions if not 0 <= each < count]
            there = [index for index, each in enumerate(partitions) if 0 <= each < count]
            positions = positions.some(there)
        if positions.partitions:
            accepted.append((key, positions))
        yield
    return SortedOut(accepted, refused)


def start(context: RequestContext, frame: memoryview, work: Work[Any]) -> Any:
    """Do what there is to do for a request; its result is an answer, or a `Waiting` one."""
    if len(frame) > _LARGE_BYTES:
        return _few_at_a_time(context, work)
    finished = one_turn(work)
    return _go_on(context, work) if finished is None else finished.result


async def _few_at_a_time(context: RequestContext, work: Work[Any]) -> Any:
    async with context.broker.groups.large_commits:
        return await _go_on(context, work)


async def _go_on(context: RequestContext, work: Work[Any]) -> Any:
    answer = await context.broker.turns.run(work)
    if isinstance(answer, Waiting):
        return await answer.awaitable
    return await answer if inspect.isawaitable(answer) else answer
