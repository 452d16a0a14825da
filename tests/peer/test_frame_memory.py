"""Memory of large frames goes round; nothing else does."""

from __future__ import annotations

from drumlin.peer.frame_memory import FrameMemory

MIB = 1 << 20


def test_memory_that_was_given_back_is_taken_again() -> None:
    memory = FrameMemory()
    first = memory.take(MIB + 1)
    assert first is not None
    assert len(first) == 2 * MIB
    assert memory.take(MIB + 1) is not first
    memory.give_back(memoryview(first)[10:20])
    assert memory.take(2 * MIB) is first


def test_a_size_that_may_be_a_lie_is_left_alone() -> None:
    assert FrameMemory().take(2**31 - 1) is None


def test_what_is_no_frame_is_not_kept() -> None:
    memory = FrameMemory()
    memory.give_back(memoryview(bytes(MIB)))
    odd = bytearray(MIB - 1)
    memory.give_back(memoryview(odd))
    assert memory.take(MIB - 1) is not odd


def test_only_a_few_are_kept() -> None:
    memory = FrameMemory()
    frames = [bytearray(MIB) for _ in range(10)]
    for frame in frames:
        memory.give_back(memoryview(frame))
    again = [memory.take(MIB) for _ in range(10)]
    assert sum(any(each is frame for frame in frames) for each in again) == 4
