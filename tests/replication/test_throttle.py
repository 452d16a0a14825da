"""How fast replicas may catch up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.config.topic import log_config
from drumlin.replication.throttle import UNLIMITED, Quota, Throttle


class Time:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.rate = 100.0


def test_what_was_saved_may_be_spent_and_debts_are_waited_for() -> None:
    time = Time()
    quota = Quota(lambda: time.rate, lambda: time.now_s)
    assert quota.wait_s() == 0
    quota.use(350)
    assert quota.wait_s() == pytest.approx(2.5)
    time.rate = 1000
    assert quota.wait_s() == pytest.approx(0.25)
    time.now_s = 0.3
    assert quota.wait_s() == 0
    time.now_s = 1000
    quota.use(1001)
    assert quota.wait_s() == pytest.approx(0.001)
    time.rate = 0
    assert quota.wait_s() > 0


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(1, 400)), max_size=50))
def test_never_more_than_the_rate_and_one_answer(steps: list[tuple[float, int]]) -> None:
    time = Time()
    quota = Quota(lambda: time.rate, lambda: time.now_s)
    used, largest = 0, 0
    for passed_s, size in steps:
        time.now_s += passed_s
        if quota.wait_s() > 0:
            continue
        assert used <= time.rate * (time.now_s + 1) + 1e-6
        quota.use(size)
        used, largest = used + size, max(largest, size)
    assert used <= time.rate * (time.now_s + 1) + largest + 1e-6


def log(partition: int, replicas: str) -> Any:
    config = log_config({"leader.replication.throttled.replicas": replicas}, {})
    return SimpleNamespace(partition=partition, config=config)


@pytest.mark.parametrize(
    ("replicas", "is_held"), [("", False), ("*", True), ("0:7,1:7", True), ("1:8,0:7", False)]
)
def test_what_it_holds_for(replicas: str, is_held: bool) -> None:
    time = Time()

    def throttle() -> Throttle:
        return Throttle(
            7,
            lambda: time.rate,
            lambda config: config.leader_replication_throttled_replicas,
            lambda: time.now_s,
        )

    held = throttle()
    held.used(log(1, replicas), 1000)
    assert (held.wait_s(log(1, replicas)) > 0) == is_held
    time.rate = UNLIMITED
    unlimited = throttle()
    unlimited.used(log(1, "*"), 1 << 62)
    assert unlimited.wait_s(log(1, "*")) == 0
