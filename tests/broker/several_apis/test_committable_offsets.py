"""Which offsets of a commit are in partitions that there are, beside a slow twin."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from drumlin.broker.handlers import txn_offset_commit
from drumlin.broker.several_apis.committable_offsets import Refused, SortedOut, sort_out
from drumlin.metadata.image import PartitionState, TopicState
from drumlin.turns import to_end
from drumlin.wire.by_hand.commit_request import (
    PIECE_MAX,
    CommitRequest,
    TopicOffsets,
    TxnCommitRequest,
)
from drumlin.wire.error_codes import ErrorCode
from rig.depth import seeds
from rig.time.stepped import Stepped

_MISSING = ErrorCode.unknown_topic_or_partition


def topic_of(name: str, count: int) -> TopicState:
    partition = PartitionState(0, 1, 0, (1,), (1,))
    return TopicState(name, UUID(int=count), tuple([partition] * count))


TOPICS = {name: topic_of(name, count) for name, count in [("a", 1), ("b", 7), ("c", 40)]}


IDS = {name: UUID(int=number) for number, name in enumerate("abcd")}


def find(key: Any) -> tuple[TopicState | None, ErrorCode]:
    """By name, or by what stands for it as an id."""
    names = {topic_id: name for name, topic_id in IDS.items()}
    return TOPICS.get(names.get(key, key)), _MISSING


def asked_by(chance: random.Random) -> list[TopicOffsets]:
    """Topics in pieces."""
    topics: list[TopicOffsets] = []
    for _ in range(chance.randrange(5)):
        most = chance.choice([1, 7, 40, 50])
        partitions = [chance.randrange(-1, most) for _ in range(chance.choice([0, 1, 2, 9, 30]))]
        numbers = range(len(partitions))
        metadata = [b"%d" % number for number in numbers] if chance.random() < 0.5 else None
        name = chance.choice("abcd")
        offsets, epochs = [10 * number for number in numbers], [-number for number in numbers]
        whole = TopicOffsets(name, None, partitions, offsets, epochs, metadata)
        topics += pieces_of(whole, 4)
    return topics


def pieces_of(topic: TopicOffsets, size: int) -> Iterator[TopicOffsets]:
    for first in range(0, max(1, len(topic.partitions)), size):
        indexes = range(first, min(first + size, len(topic.partitions)))
        yield topic.some(indexes)._replace(begins=first == 0)


@pytest.mark.parametrize("by_id", [False, True])
@pytest.mark.parametrize("seed", seeds(20, 100))
def test_they_are_those_that_a_twin_finds(seed: int, by_id: bool) -> None:
    topics = asked_by(random.Random(seed))
    if by_id:
        topics = [each._replace(topic="", topic_id=IDS[each.topic]) for each in topics]
    accepted: list[list[tuple[Any, ...]]] = []
    refused: dict[Any, list[int]] = {}
    for topic in topics:
        key = topic.topic_id if by_id else topic.topic
        state = find(key)[0]
        if topic.begins:
            accepted.append([])
        if state is None:
            refused.setdefault(key, [])
        for index, partition in enumerate(topic.partitions):
            if state is None or not 0 <= partition < len(state.partitions):
                refused.setdefault(key, []).append(partition)
                continue
            text = None if topic.metadata is None else topic.metadata[index]
            row = partition, topic.offsets[index], topic.leader_epochs[index], text
            accepted[-1].append((state.name, state.topic_id, *row))
    found = to_end(sort_out(topics, find, by_id=by_id))
    told = {key: (each, [_MISSING] * len(each)) for key, each in refused.items()}
    assert dict(found.refused.items() if found.refused else ()) == told
    rows: list[list[tuple[Any, ...]]] = []
    for piece in found.accepted:
        if piece.begins:
            rows.append([])
        rows[-1] += rows_of(piece)
    assert rows == [each for each in accepted if each]


def rows_of(offsets: TopicOffsets) -> list[tuple[Any, ...]]:
    name, topic_id, *columns, metadata, _ = offsets
    texts = [None] * len(offsets.partitions) if metadata is None else metadata
    return [(name, topic_id, *row) for row in zip(*columns, texts, strict=True)]


@pytest.mark.parametrize("fails", [False, True])
def test_the_answer_names_a_topic_once_where_the_request_does(fails: bool) -> None:
    """However many pieces it is read in; and twice, where the request does."""
    whole = TopicOffsets("c", None, range(9), range(9), [-1] * 9)
    pieces = [*pieces_of(whole, 4), *pieces_of(whole, 4)]
    code = ErrorCode.offset_metadata_too_large if fails else ErrorCode.none
    codes = [ErrorCode.none] * 17 + [code]
    first, second = to_end(to_end(sort_out(pieces, find)).results(codes))
    assert (
        (first.topic, *first.partitions) == (second.topic, *second.partitions) == ("c", *range(9))
    )
    assert [*(first.codes or codes[:9]), *(second.codes or codes[9:])] == codes


def test_what_is_refused_leaves_the_rest_of_its_topic_together() -> None:
    """A piece of which nothing exists does not have the next one go on another topic."""
    one = TopicOffsets("a", None, [0], [1], [-1])
    other = TopicOffsets("c", None, [50, 51, 52, 53, 3, 4], range(6), [-1] * 6)
    found = to_end(sort_out([one, *pieces_of(other, 4)], find))
    results = to_end(found.results([ErrorCode.none] * 3))
    told = {each.topic: list(each.partitions) for each in results}
    assert told == {"a": [0], "c": [50, 51, 52, 53, 3, 4]}


@pytest.mark.parametrize("name", ["c", "unknown"])
def test_a_topic_with_very_many_positions_takes_many_turns(name: str) -> None:
    count = 50_000
    topic = TopicOffsets(name, None, range(count), [5] * count, [-1] * count)
    topics = list(pieces_of(topic, PIECE_MAX))
    sorting = sort_out(topics, find)
    assert Stepped(sorting).count() >= 49
    refused: Refused = {name: (list(range(count)), [_MISSING] * count)}
    asked = TxnCommitRequest("id", 1, 0, CommitRequest("g", "", None, -1, None, topics))
    answering = txn_offset_commit._answer(3, asked, SortedOut([], refused), [])
    assert Stepped(answering).count() >= 200
