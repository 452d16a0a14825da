"""Measures of very many groups are begun in turns."""

from __future__ import annotations

import asyncio
import re
from types import SimpleNamespace
from typing import Any

import pytest

from drumlin.broker.metrics.groups import Groups
from drumlin.broker.traffic.topic_counts import TrafficByTopic
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.time.ways_given import WaysGiven


class Coordinator:
    """Groups that nobody is a member of."""

    def __init__(self, count: int) -> None:
        self._names = [f"g{number}" for number in range(count)]
        self.is_loading = False

    def committed(self) -> list[tuple[str, dict[str, Any]]]:
        if self.is_loading:
            raise KafkaError(ErrorCode.coordinator_load_in_progress)
        return [(name, {}) for name in self._names]

    def groups(self) -> list[Any]:
        self.committed()
        return []


def broker(coordinator: Coordinator, chosen: str, most: int) -> Any:
    config = SimpleNamespace(
        drumlin_metrics_groups=re.compile(chosen), drumlin_metrics_groups_max=most
    )
    return SimpleNamespace(
        config=config,
        groups=coordinator,
        transactions=SimpleNamespace(transactions=list),
        traffic=TrafficByTopic(re.compile(".*"), 10),
        metadata=SimpleNamespace(image=SimpleNamespace(brokers={1: None})),
        clock=SimpleNamespace(wall_ms=lambda: 0),
    )


def test_few_are_chosen_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    given = WaysGiven(monkeypatch)
    coordinator = Coordinator(3000)
    groups = Groups(broker(coordinator, "g7..", 60))
    asyncio.run(groups.prepare())
    assert len(groups._committed) == 60
    assert given.count > 700, "a way for each group that was looked at"
    before = given.count
    list(groups.begin()())
    assert given.count == before


def test_groups_that_are_being_loaded_have_no_measures() -> None:
    coordinator = Coordinator(3)
    coordinator.is_loading = True
    groups = Groups(broker(coordinator, ".*", 60))
    asyncio.run(groups.prepare())
    assert list(groups.begin()()) == []
