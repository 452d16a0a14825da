"""The idle time of an iteration begins with the first assignment, even if that is empty."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from drumlin.client.client import Client
from drumlin.client.consumer.idle import IdleDeadline
from drumlin.client.consumer.membership.classic_protocol import ClassicProtocol
from drumlin.client.consumer.membership.consumer_protocol import ConsumerProtocol


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex[:8]}"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_time_before_the_first_assignment_does_not_count() -> None:
    clock, assigned = Clock(), [False]
    idle = IdleDeadline(1_000, 60_000, lambda: assigned[0], clock)
    clock.now += 50
    assert not idle.is_over
    assigned[0] = True
    assert idle.remaining_s == 1
    clock.now += 0.6
    assert not idle.is_over
    idle.begin()  # more partitions
    clock.now += 0.6
    assert not idle.is_over
    clock.now += 0.5
    assert idle.is_over


def test_a_group_that_assigns_nothing_at_all_is_given_up() -> None:
    clock = Clock()
    idle = IdleDeadline(1_000, 60_000, lambda: False, clock)
    clock.now += 60.5
    assert not idle.is_over
    clock.now += 0.5
    assert idle.is_over


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_join_that_takes_longer_than_the_idle_time(
    group_client: Client,
    group_topic: str,
    group: str,
    monkeypatch: pytest.MonkeyPatch,
    protocol: str,
) -> None:
    kind = ClassicProtocol if protocol == "classic" else ConsumerProtocol
    perform = kind.perform

    async def slowly(self: object, step: object) -> None:
        await asyncio.sleep(0.4)
        await perform(self, step)  # type: ignore[arg-type]

    group_client.append({"value": ["x"] * 4}, group_topic)
    with group_client.consumer(
        group_topic,
        group=group,
        protocol=protocol,  # type: ignore[arg-type]
        idle_timeout_ms=300,
    ) as consumer:
        monkeypatch.setattr(kind, "perform", slowly)
        assert sum(each.num_rows for each in consumer) == 4


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_without_partitions_is_idle(
    group_client: Client, group: str, protocol: str
) -> None:
    topic = f"{group}-single"
    group_client.create_topic(topic, 1)
    options = {"group": group, "protocol": protocol, "idle_timeout_ms": 200}
    with group_client.consumer(topic, assignors=["cooperative-sticky"], **options) as first:
        assert list(first) == []
        with group_client.consumer(topic, assignors=["cooperative-sticky"], **options) as second:
            assert list(second) == []
            assert second.group_metadata().generation_id >= 0
            assert not second.assignment or not first.assignment
