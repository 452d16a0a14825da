"""The shared budget of request memory: nobody starves, one large request cannot block itself."""

import random

from drumlin.broker.request_memory import RequestMemory


class Holder:
    def __init__(self, memory: RequestMemory) -> None:
        self.memory = memory
        self.last_active = 0.0
        self.reading = True
        self.closed = False

    def hold(self, held_bytes: int) -> bool:
        self.reading = self.memory.hold(self, held_bytes)
        return self.reading

    def resume_reading(self) -> None:
        self.reading = True

    def close(self, reason: Exception | str | None) -> None:
        self.closed = True
        self.memory.forget(self)


def test_within_the_limit_nobody_waits() -> None:
    memory = RequestMemory(100)
    a, b = Holder(memory), Holder(memory)
    assert a.hold(50)
    assert b.hold(50)
    assert memory.held_bytes == 100


def test_one_may_exceed_it_and_the_others_wait_for_it() -> None:
    memory = RequestMemory(100)
    a, b, c = (Holder(memory) for _ in range(3))
    assert a.hold(150)
    assert not b.hold(10)
    assert not c.hold(10)
    assert a.hold(0)
    assert b.reading


def test_closing_lets_others_go_on() -> None:
    memory = RequestMemory(100)
    a, b = Holder(memory), Holder(memory)
    assert a.hold(150)
    assert not b.hold(20)
    memory.forget(a)
    assert b.reading
    assert memory.held_bytes == 20


def test_who_stalls_while_others_wait_is_closed() -> None:
    memory = RequestMemory(100)
    a, b = Holder(memory), Holder(memory)
    a.hold(150)
    memory.close_stalled(now=100.0)
    assert not a.closed  # it holds nobody up
    b.hold(20)
    memory.close_stalled(now=5.0)
    assert not a.closed
    memory.close_stalled(now=100.0)
    assert a.closed
    assert b.reading


def test_random_histories_end_with_everyone_done_and_nothing_held() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        memory = RequestMemory(1000)
        left = {Holder(memory): rng.randrange(1, 6) for _ in range(8)}
        held = dict.fromkeys(left, 0)
        for _ in range(10_000):
            ready = [each for each in left if each.reading]
            if not left:
                break
            assert ready, f"everyone waits (seed {seed})"
            each = rng.choice(ready)
            if rng.random() < 0.6:
                held[each] = min(2000, held[each] + rng.randrange(1, 600))
            else:
                held[each] = 0
                left[each] -= 1
            each.hold(held[each])
            if left[each] == 0 and held[each] == 0:
                memory.forget(each)
                del left[each]
        assert not left
        assert memory.held_bytes == 0
