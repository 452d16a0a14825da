"""The deadline queue beside a slow twin: a dictionary that is searched."""

from __future__ import annotations

import random

import pytest

from drumlin.coordination.deadlines import DeadlineQueue
from rig.depth import seeds


@pytest.mark.parametrize("seed", seeds(8, 20))
def test_it_does_what_a_dictionary_does(seed: int) -> None:
    chance = random.Random(seed)
    queue: DeadlineQueue[int] = DeadlineQueue()
    twin: dict[int, float] = {}
    now = 0.0
    for _ in range(500):
        action, key = chance.randrange(4), chance.randrange(8)
        if action < 2:
            twin[key] = now + chance.randrange(20)
            queue.schedule(key, twin[key])
        elif action == 2:
            twin.pop(key, None)
            queue.cancel(key)
        else:
            now += chance.randrange(6)
            expected = sorted((when, key) for key, when in twin.items() if when <= now)
            due = list(queue.due(now))
            assert sorted(due) == sorted(key for _, key in expected)
            assert [twin[key] for key in due] == [when for when, _ in expected]
            for key in due:
                del twin[key]
        assert dict(queue.items()) == twin
        first = queue.next_deadline()
        assert (first is not None and first <= min(twin.values())) if twin else True


def test_what_moves_later_takes_no_more_room() -> None:
    queue: DeadlineQueue[str] = DeadlineQueue()
    for beat in range(10_000):
        queue.schedule("member", beat + 10.0)
    assert len(queue._heap) == 1
    assert list(queue.due(10_000)) == []
    assert list(queue.due(10_009)) == ["member"]


def test_what_is_scheduled_on_the_way_is_due_at_once() -> None:
    queue: DeadlineQueue[str] = DeadlineQueue()
    queue.schedule("first", 1)
    seen = []
    for key in queue.due(5):
        seen.append(key)
        if key == "first":
            queue.schedule("second", 5)
    assert seen == ["first", "second"]


def test_what_was_cancelled_is_not_looked_for() -> None:
    """Ten thousand locks that ended in time, and one that is still held."""
    queue: DeadlineQueue[int] = DeadlineQueue()
    for key in range(10_000):
        queue.schedule(key, key)
        queue.cancel(key)
        queue.next_deadline()
    assert queue.next_deadline() is None
    for key in range(100):
        queue.schedule(key, key)
    for key in range(99):
        queue.cancel(key)
        queue.next_deadline()
    assert queue.next_deadline() == 99
