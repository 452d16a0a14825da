"""What is answered to requests that name thousands of things, or the same one over and over."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, TypeVar
from uuid import UUID

import pytest

from broker.sessions import SESSION
from drumlin.broker.context import RequestContext
from drumlin.broker.handlers import (
    add_partitions_to_txn,
    delete_topics,
    offset_fetch,
    write_txn_markers,
)
from drumlin.coordination.groups.offsets.fetched_offsets import FetchedOffsets
from drumlin.turns import to_end
from drumlin.wire.by_hand.offset_fetch_response import NO_OFFSET
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import RequestHeader
from drumlin.wire.protocol import offset_fetch as protocol
from drumlin.wire.protocol.delete_topics import DeleteTopicsRequest, DeleteTopicState
from rig.time.stepped import Stepped

T = TypeVar("T")
_ENTRIES = 5_000


def _context(api_key: int, version: int, **broker: Any) -> RequestContext:
    image = SimpleNamespace(
        topics={},
        topics_by_id={},
        topic_name=lambda topic_id: f"t{topic_id.int}",
        has_partition_of=lambda *_: False,
    )
    holder: Any = SimpleNamespace(
        authorizer=None,
        quotas=None,
        metadata=SimpleNamespace(image=image),
        config=SimpleNamespace(delete_topic_enable=True),
        **broker,
    )
    connection: Any = None
    return RequestContext(holder, connection, RequestHeader(api_key, version, 1, "c", 0), SESSION)


def _in_steps(work: Coroutine[Any, Any, T]) -> T:
    """Its result; others could have had their turn at each entry."""
    stepped = Stepped(work)
    result = stepped.to_end()
    assert stepped.steps >= _ENTRIES
    return result


def _nothing_committed(_: str, asked: Any, **__: Any) -> Iterator[FetchedOffsets]:
    for topic, partitions in asked:
        yield FetchedOffsets(topic, True, partitions, [NO_OFFSET])


def _fetching(version: int) -> RequestContext:
    groups = SimpleNamespace(has_unconfirmed=False, committed_offsets=_nothing_committed)
    return _context(9, version, groups=groups)


def test_topics_of_an_offset_fetch() -> None:
    topics = [
        protocol.OffsetFetchRequestTopic(name=f"t{each}", partition_indexes=(0,))
        for each in range(_ENTRIES)
    ]
    request = protocol.OffsetFetchRequest(group_id="g", topics=tuple(topics))
    work = offset_fetch.handle(_fetching(1), request)
    answer = _in_steps(work)
    assert len(answer.topics) == _ENTRIES


@pytest.mark.parametrize("version", [8, 10])
def test_topics_of_a_group_in_an_offset_fetch(version: int) -> None:
    context = _fetching(version)
    context.broker.metadata.image.topics = {  # type: ignore[misc]
        f"t{each}": SimpleNamespace(topic_id=UUID(int=each)) for each in range(_ENTRIES)
    }
    topics = [
        protocol.OffsetFetchRequestTopics(
            name=f"t{each}",
            topic_id=UUID(int=each) if version == 10 else None,
            partition_indexes=(0,),
        )
        for each in range(_ENTRIES)
    ]
    group = protocol.OffsetFetchRequestGroup(group_id="g", topics=tuple(topics))
    request = protocol.OffsetFetchRequest(groups=(group,), require_stable=False)
    answer = _in_steps(offset_fetch.handle(context, request))
    assert len(answer.groups[0].topics) == _ENTRIES


def test_groups_of_an_offset_fetch_that_are_compared() -> None:
    group, other = (
        protocol.OffsetFetchRequestGroup(
            group_id="g",
            topics=(protocol.OffsetFetchRequestTopics(name=name, partition_indexes=(0,)),),
        )
        for name in "tu"
    )
    groups = [group, other] * (_ENTRIES // 2)
    assert _in_steps(offset_fetch._unlike(groups)) == [group, other]
    groups = [
        protocol.OffsetFetchRequestGroup(group_id=f"g{each}", topics=None)
        for each in range(_ENTRIES)
    ]
    assert _in_steps(offset_fetch._unlike(groups)) == groups


@pytest.mark.parametrize("version", [1, 6])
def test_topics_to_delete_that_are_not_there(version: int) -> None:
    context = _context(20, version)
    names = [f"t{each}" for each in range(_ENTRIES)]
    topics = None
    if version == 6:
        topics = tuple(DeleteTopicState(name=each, topic_id=None) for each in names)
    request = DeleteTopicsRequest(
        timeout=timedelta(seconds=1), topic_names=tuple(names), topics=topics
    )
    answer = _in_steps(delete_topics.handle(context, request))
    assert sorted(each.name for each in answer.responses) == sorted(names)
    assert {each.error_code for each in answer.responses} == {ErrorCode.unknown_topic_or_partition}


@pytest.mark.parametrize("make", [lambda each: ("t", each), lambda each: (f"t{each}", 0)])
def test_partitions_that_cannot_join_a_transaction(make: Callable[[int], tuple[str, int]]) -> None:
    context = _context(24, 3)
    topics = [
        SimpleNamespace(name=name, partitions=(index,))
        for name, index in map(make, range(_ENTRIES))
    ]
    codes = _in_steps(add_partitions_to_txn._add(context, "x", 1, 0, topics, client_version=0))
    answer = _in_steps(add_partitions_to_txn._respond(codes))
    told = [
        (topic.name, each.partition_index)
        for topic in answer.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    ]
    assert told == list(map(make, range(_ENTRIES)))


def test_partitions_that_cannot_join_are_told_why_and_others_join_neither() -> None:
    """The reason for an internal topic comes before the question whether it is there."""
    context = _context(24, 3)
    context.broker.metadata.image.has_partition_of = lambda topic, _: topic == "t"  # type: ignore[misc]

    def told(*names: str) -> dict[str, ErrorCode]:
        topics = [SimpleNamespace(name=each, partitions=(0, 0)) for each in names]
        codes = to_end(add_partitions_to_txn._add(context, "x", 1, 0, topics, client_version=0))
        return {topic: code for (topic, _), code in codes}

    skipped, missing = ErrorCode.operation_not_attempted, ErrorCode.unknown_topic_or_partition
    forbidden = ErrorCode.topic_authorization_failed
    assert told("t", "u") == {"t": skipped, "u": missing}
    assert told("u", "__consumer_offsets", "t") == {
        "u": missing,
        "__consumer_offsets": forbidden,
        "t": skipped,
    }


def test_answers_about_markers() -> None:
    codes: dict[int, write_txn_markers.Codes] = {}
    for each in range(_ENTRIES):
        codes.setdefault(7, {})[f"t{each}", 0] = ErrorCode.none
        codes.setdefault(each, {})["t", 0] = ErrorCode.none
    work = write_txn_markers._respond(codes)
    answer = _in_steps(work)
    assert answer.markers[0].producer_id == 7
    assert len(answer.markers[0].topics) == _ENTRIES + 1
    assert len(answer.markers) == _ENTRIES
