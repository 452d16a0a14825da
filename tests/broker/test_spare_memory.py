"""Memory of requests is used again, and never while anybody can still see it."""

from drumlin.broker.spare_memory import SpareMemory


def test_given_back_memory_is_taken_again() -> None:
    spare = SpareMemory()
    memory = bytearray(100_000)
    spare.keep(memoryview(memory)[:99_000])
    assert spare.take(99_500) is memory
    assert spare.take(99_500) is None


def test_memory_that_is_looked_at_is_left_alone() -> None:
    spare = SpareMemory()
    memory = bytearray(100_000)
    frame = memoryview(memory)
    part = frame[10:20]
    spare.keep(frame)
    assert spare.take(100_000) is None
    assert len(part) == 10


def test_only_what_fits() -> None:
    spare = SpareMemory()
    spare.keep(memoryview(bytearray(100_000)))
    assert spare.take(100_001) is None
    assert spare.take(20_000) is None
    assert spare.take(25_000) is not None


def test_little_is_kept() -> None:
    spare = SpareMemory()
    for _ in range(20):
        spare.keep(memoryview(bytearray(1 << 20)))
    assert len([memory for _ in range(20) if (memory := spare.take(1 << 20))]) == 8


def test_small_requests_are_not_kept() -> None:
    spare = SpareMemory()
    spare.keep(memoryview(bytes(100_000)))
    assert spare.take(100_000) is None
