"""The lane of offset commits changes how fast they are answered, and nothing else."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from broker.lane_twins import Twin, both, request
from drumlin.coordination.groups.log import BATCH_BYTES_MAX
from rig.committed_offsets import fetch_offsets

_OFFSETS = "__consumer_offsets"
_IDS = {"t0": UUID(int=7), "t1": UUID(int=8)}
#: For every group its member of the consumer protocol, or none.
_GROUPS = {"simple": None, "modern": "m", "other": None}


def commit(
    version: int = 9,
    group_id: str = "simple",
    positions: dict[str, dict[int, int]] | None = None,
    metadata: str | None = "",
    ids: dict[str, UUID] = _IDS,
    **fields: Any,
) -> bytes:
    topics = [
        {
            "name": topic,
            "topic_id": ids.get(topic),
            "partitions": [
                {
                    "partition_index": partition,
                    "committed_offset": offset,
                    "committed_leader_epoch": offset % 3 - 1,
                    "committed_metadata": metadata,
                }
                for partition, offset in partitions.items()
            ],
        }
        for topic, partitions in (positions or {"t0": {0: 5}}).items()
    ]
    given = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    given |= {"retention_time": -1, "group_id": group_id, "topics": topics} | fields
    return request("offset_commit", version, **given)


async def prepare(twin: Twin) -> None:
    """Topics, a coordinator that has loaded, and a group with a member."""
    for topic, topic_id in _IDS.items():
        await twin.create(topic, topic_id)
    await twin.load_groups()
    await twin.ask(
        request(
            "consumer_group_heartbeat",
            1,
            group_id="modern",
            member_id="m",
            member_epoch=0,
            instance_id=None,
            rack_id=None,
            rebalance_timeout=60_000,
            subscribed_topic_names=["t0", "t1"],
            subscribed_topic_regex=None,
            server_assignor=None,
            topic_partitions=[],
        ),
        is_writable=True,
    )


async def committed(twin: Twin) -> list[Any]:
    return [await fetch_offsets(twin.broker.groups, group_id, None) for group_id in _GROUPS]


def another(chance: random.Random, ids: dict[str, UUID]) -> dict[str, Any]:
    """What a consumer commits from now on, but for its offsets."""
    group_id = chance.choice(list(_GROUPS))
    epochs = [1] * 4 + [0, 2, -1]
    return {
        "version": chance.choice([9] * 4 + [8, 7, 6, 10, 10, 5, 2]),
        "group_id": group_id,
        "metadata": chance.choice(["", "", None, "höher", "x" * 4096, "x" * 4097]),
        "member_id": _GROUPS[group_id] or chance.choice([""] * 5 + ["nobody"]),
        "generation_id_or_member_epoch": -1 if group_id != "modern" else chance.choice(epochs),
        "retention_time": chance.choice([-1, -1, 1000]),
        "ids": dict(ids),
    }


@pytest.mark.parametrize("seed", range(3))
def test_random_commits_are_answered_and_stored_as_without_it(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    hits = 0

    async def scenario(one: Twin, other: Twin) -> None:
        nonlocal hits
        ids = dict(_IDS)
        for twin in (one, other):
            await prepare(twin)
        consumer = another(chance, ids)
        partitions = {"t0": [0, 1]}
        for number in range(600):
            match chance.randrange(70):
                case 0:
                    topic = chance.choice(list(ids))
                    ids[topic] = UUID(int=chance.getrandbits(128))
                    for twin in (one, other):
                        await twin.delete(topic)
                        await twin.create(topic, ids[topic])
                case 1:
                    messages = chance.choice(["1", None])
                    for twin in (one, other):
                        await twin.configure(_OFFSETS, "flush.messages", messages)
                case 2 | 3 | 4:
                    consumer = another(chance, ids)
                case 5 | 6 | 7:
                    missing = chance.choice([0] * 9 + [5])
                    partitions = chance.choice([{"t0": [missing]}, {"t0": [1], "t1": [0, 1]}])
            positions = {
                topic: {each: chance.choice([0, 1, 2**40, 2**63 - 1]) for each in of_topic}
                for topic, of_topic in partitions.items()
            }
            frame = commit(positions=positions, number=number, **consumer)
            if chance.random() < 0.05:
                place = chance.randrange(8, len(frame))
                frame = frame[:place] + bytes([chance.randrange(256)]) + frame[place + 1 :]
            hits += one.recognises(frame)
            answers = [await each.ask(frame, is_writable=True) for each in (one, other)]
            assert answers[0] == answers[1], (number, frame)
        assert await committed(one) == await committed(other)
        assert one.logs() == other.logs()

    both(scenario, tmp_path)
    assert hits > 150


def test_a_client_that_commits_for_many_groups_is_learnt_less_and_less_often(
    tmp_path: Path,
) -> None:
    async def scenario(one: Twin, other: Twin) -> None:
        for twin in (one, other):
            await prepare(twin)
        for number in range(40):
            frame = commit(group_id=f"group-{number:02}", positions={"t0": {0: number, 1: 1}})
            answers = [await each.ask(frame, is_writable=True) for each in (one, other)]
            assert answers[0] == answers[1]
        (lane,) = one.connection.lanes.values()
        assert lane._lessons_in_vain < 10
        assert not lane.recognises(memoryview(frame))
        assert one.logs() == other.logs()

    both(scenario, tmp_path)


def test_commits_that_are_too_large_to_be_kept_go_the_ordinary_way(tmp_path: Path) -> None:
    """Requests that are short make long batches: the group's name is in every record."""
    group_id = "g" * 30_000
    positions = {"t0": {0: 1, 1: 2}, "t1": {0: 3}}
    assert len(group_id) * 3 < BATCH_BYTES_MAX

    async def scenario(one: Twin, other: Twin) -> None:
        for twin in (one, other):
            await prepare(twin)
            for _ in range(3):
                answer = await twin.ask(
                    commit(group_id=group_id, positions=positions), is_writable=True
                )
                assert isinstance(answer, bytes)
            assert not twin.recognises(commit(group_id=group_id, positions=positions))
        assert one.logs() == other.logs()

    both(scenario, tmp_path)


def test_a_group_that_is_taken_over_later_has_what_was_committed(tmp_path: Path) -> None:
    """What the lane writes is read back by a broker that starts anew."""

    async def scenario(one: Twin, other: Twin) -> None:
        for twin in (one, other):
            await prepare(twin)
            for offset in range(5):
                frame = commit(positions={"t0": {0: offset, 1: 2 * offset}}, metadata="mine")
                await twin.ask(frame, is_writable=True)
            groups = twin.broker.groups
            before = await committed(twin)
            partition = groups._partition_for("simple")
            groups.resign(partition)
            groups.become_leader(partition, 5)
            await asyncio.wait_for(groups._partitions.when_ready(partition), 30)
            assert await committed(twin) == before
            (topic, found) = before[0][0]
            assert topic == "t0"
            assert [(each, value.offset, value.metadata) for each, value in found] == [
                (0, 4, "mine"),
                (1, 8, "mine"),
            ]

    both(scenario, tmp_path)
