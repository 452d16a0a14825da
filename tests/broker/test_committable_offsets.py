"""Which offsets of a commit are in partitions that there are, beside a slow twin."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

import pytest

from drumlin.broker.handlers import txn_offset_commit
from drumlin.broker.several_apis.committable_offsets import SortedOut, sort_out
from drumlin.coordination.groups.offsets import commit
from drumlin.distinct import Growing
from drumlin.metadata.image import PartitionState, TopicState
from drumlin.turns import to_end
from drumlin.wire.by_hand.commit_request import CommitRequest, RequestedOffsets, TxnCommitRequest
from drumlin.wire.error_codes import ErrorCode
from rig.depth import seeds
from rig.stepped import Stepped

_MISSING = ErrorCode.unknown_topic_or_partition


def topic_of(name: str, count: int) -> TopicState:
    partition = PartitionState(0, 1, 0, (1,), (1,))
    return TopicState(name, UUID(int=count), tuple([partition] * count))


TOPICS = {name: topic_of(name, count) for name, count in [("a", 1), ("b", 7), ("c", 40)]}


def find(key: Any) -> tuple[TopicState | None, ErrorCode]:
    return TOPICS.get(key), _MISSING


def asked_by(chance: random.Random) -> list[RequestedOffsets]:
    topics = []
    for _ in range(chance.randrange(5)):
        most = chance.choice([1, 7, 40, 50])
        partitions = [chance.randrange(-1, most) for _ in range(chance.choice([0, 1, 2, 9, 30]))]
        numbers = range(len(partitions))
        metadata = [b"%d" % number for number in numbers] if chance.random() < 0.5 else None
        name = chance.choice("abcd")
        offsets, epochs = [10 * number for number in numbers], [-number for number in numbers]
        topics.append(RequestedOffsets(name, partitions, offsets, epochs, metadata))
    return topics


@pytest.mark.parametrize("seed", seeds(40, 200))
def test_they_are_those_that_a_twin_finds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "_AT_ONCE", 4)
    topics = asked_by(random.Random(seed))
    accepted: list[list[tuple[Any, ...]]] = []
    refused: dict[Any, list[int]] = {}
    for topic in topics:
        state = TOPICS.get(str(topic.topic))
        if state is None:
            refused.setdefault(topic.topic, [])
        rows: list[tuple[Any, ...]] = []
        for index, partition in enumerate(topic.partitions):
            if state is None or not 0 <= partition < len(state.partitions):
                refused.setdefault(topic.topic, []).append(partition)
                continue
            text = None if topic.metadata is None else topic.metadata[index]
            row = partition, topic.offsets[index], topic.leader_epochs[index], text
            rows.append((topic.topic, state.name, state.topic_id, *row))
        if rows:
            accepted.append(rows)
    found = to_end(sort_out(topics, find))
    told = {key: (each, [_MISSING] * len(each)) for key, each in refused.items()}
    assert dict(found.refused.items()) == told
    assert [rows_of(*each) for each in found.accepted] == accepted


def rows_of(key: Any, offsets: commit.TopicOffsets) -> list[tuple[Any, ...]]:
    name, topic_id, *columns, metadata = offsets
    texts = [None] * len(offsets.partitions) if metadata is None else metadata
    return [(key, name, topic_id, *row) for row in zip(*columns, texts, strict=True)]


@pytest.mark.parametrize("name", ["c", "unknown"])
def test_a_topic_with_very_many_positions_takes_many_turns(name: str) -> None:
    count = 50_000
    topic = RequestedOffsets(name, list(range(count)), [5] * count, [-1] * count, None)
    sorting = sort_out([topic], find)
    assert Stepped(sorting).count() >= 50
    sorted_out = SortedOut([], Growing())
    sorted_out.refused[name] = (list(range(count)), [_MISSING] * count)
    asked = TxnCommitRequest("id", 1, 0, CommitRequest("g", "", None, -1, None, [topic]))
    answering = txn_offset_commit._answer(3, asked, sorted_out, [], [])
    assert Stepped(answering).count() >= 200
