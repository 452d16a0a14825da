"""The lane of heartbeats changes how fast they are answered, and nothing else."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from broker.lane_twins import Twin, both, request
from drumlin.broker.heartbeat_lane import FRAME_BYTES_MAX
from drumlin.clock import ManualClock
from drumlin.wire.errors import ErrorCode
from drumlin.wire.messages import parse_response

_API = "consumer_group_heartbeat"
_OFFSETS = "__consumer_offsets"
_GROUPS = ("one", "two")


class Member:
    """What a client knows of itself, and what it says next."""

    def __init__(self, name: str, chance: random.Random) -> None:
        self.name = name
        self.version = chance.choice([1, 1, 0])
        self.group_id = chance.choice(_GROUPS)
        self.instance_id = name if chance.random() < 0.3 else None
        self.epoch = 0
        self.owned: list[dict[str, Any]] = []
        self.says_owned = True

    def frame(self, number: int, topics: list[str] | None = None) -> bytes:
        is_joining = self.epoch == 0
        return request(
            _API,
            self.version,
            number,
            group_id=self.group_id,
            member_id=self.name,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout=60_000 if is_joining else -1,
            subscribed_topic_names=["t0", "t1"] if is_joining else topics,
            topic_partitions=self.owned if is_joining or self.says_owned else None,
        )

    def hear(self, answer: bytes) -> None:
        told = parse_response(_API, self.version, answer[4:])[1]
        if told.error_code != ErrorCode.none:
            self.epoch, self.owned = 0, []
            return
        self.epoch = max(told.member_epoch, 0)
        if told.assignment is not None:
            self.owned = [
                {"topic_id": each.topic_id, "partitions": list(each.partitions)}
                for each in told.assignment.topic_partitions
            ]


async def prepare(twin: Twin, ids: dict[str, UUID]) -> None:
    """Topics, and a coordinator that has loaded."""
    for topic, topic_id in ids.items():
        await twin.create(topic, topic_id)
    await twin.load_groups()


async def _something_happens(
    chance: random.Random, twins: tuple[Twin, Twin], ids: dict[str, UUID]
) -> None:
    match chance.randrange(6):
        case 0:
            topic = chance.choice(list(ids))
            ids[topic] = UUID(int=chance.getrandbits(128))
            for twin in twins:
                await twin.delete(topic)
                await twin.create(topic, ids[topic])
        case 1:
            messages = chance.choice(["1", None])
            for twin in twins:
                await twin.configure(_OFFSETS, "flush.messages", messages)
        case _:
            clock = twins[0].broker.clock
            assert isinstance(clock, ManualClock)
            clock.advance_ms(chance.choice([300, 2_000, 20_000, 50_000]))
            for twin in twins:
                twin.broker.groups.wake()


@pytest.mark.parametrize("seed", range(3))
def test_random_heartbeats_are_answered_and_stored_as_without_it(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    hits = 0

    async def scenario(one: Twin, other: Twin) -> None:
        nonlocal hits
        ids = {"t0": UUID(int=7), "t1": UUID(int=8)}
        for twin in (one, other):
            await prepare(twin, ids)
        members = [Member(f"m{number}", chance) for number in range(5)]
        member = members[0]
        for number in range(600):
            if chance.random() < 0.05:
                await _something_happens(chance, (one, other), ids)
            if chance.random() < 0.15:
                member = chance.choice(members)
                member.says_owned = chance.random() < 0.5
            elif chance.random() < 0.03:
                member.epoch = chance.choice([-1, -2, 7])
            topics = chance.choice([["t0"], ["t0", "t1"]]) if chance.random() < 0.03 else None
            frame = member.frame(number, topics)
            if chance.random() < 0.03:
                place = chance.randrange(8, len(frame))
                frame = frame[:place] + bytes([chance.randrange(256)]) + frame[place + 1 :]
            hits += one.recognises(frame)
            answer, expected = [await each.ask(frame, is_writable=True) for each in (one, other)]
            assert answer == expected, (number, frame)
            if isinstance(answer, bytes):
                member.hear(answer)
        assert one.logs() == other.logs()

    both(scenario, tmp_path)
    assert hits > 200


def test_what_is_not_repeated_has_no_lane(tmp_path: Path) -> None:
    """Who joins or leaves does so once; what names very many partitions is not kept."""

    async def scenario(one: Twin, other: Twin) -> None:
        ids = {"t0": UUID(int=7), "t1": UUID(int=8)}
        for twin in (one, other):
            await prepare(twin, ids)
            member = Member("m", random.Random(0))
            member.hear(await _ask(twin, member.frame(1)))
            assert not twin.connection.lanes
            member.owned.append({"topic_id": ids["t0"], "partitions": [0] * FRAME_BYTES_MAX})
            await _ask(twin, member.frame(2))
            assert not twin.connection.lanes
            member.epoch = -1
            await _ask(twin, member.frame(3))
            assert not twin.connection.lanes
        assert one.logs() == other.logs()

    both(scenario, tmp_path)


async def _ask(twin: Twin, frame: bytes) -> bytes:
    answer = await twin.ask(frame, is_writable=True)
    assert isinstance(answer, bytes)
    return answer
