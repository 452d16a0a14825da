"""Frames: the same whatever pieces the stream comes in; nothing but MalformedMessage."""

import random

import pytest

from drumlin.wire.error_codes import MalformedMessage
from drumlin.wire.frames import FrameReader


def receive(reader: FrameReader, data: bytes, rng: random.Random | None = None) -> list[bytes]:
    frames: list[bytes] = []
    position = 0
    while position < len(data):
        memory = reader.writable()
        assert len(memory) > 0
        limit = len(memory) if rng is None else rng.randrange(1, 70_000)
        piece = data[position : position + min(len(memory), limit)]
        memory[: len(piece)] = piece
        frames += [bytes(frame) for frame in reader.received(len(piece))]
        position += len(piece)
    return frames


def receive_scattered(reader: FrameReader, data: bytes, rng: random.Random) -> list[bytes]:
    frames: list[bytes] = []
    position = 0
    while position < len(data):
        start = position
        most = rng.randrange(1, 200_000)
        for memory in reader.buffers():
            piece = data[position : min(position + len(memory), start + most)]
            memory[: len(piece)] = piece
            position += len(piece)
        frames += [bytes(frame) for frame in reader.received(position - start)]
    return frames


def prefixed(frames: list[bytes]) -> bytes:
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


@pytest.mark.parametrize("seed", range(30))
def test_any_split_gives_the_same_frames(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.choice([0, 1, 10, 300, 65_531, 65_532, 65_533, 70_000, 3 << 20]) for _ in range(9)]
    sizes.append(rng.choice([4 << 20, 5 << 20]))
    frames = [rng.randbytes(size) for size in sizes]
    assert receive(FrameReader(100 << 20), prefixed(frames), rng) == frames
    assert receive_scattered(FrameReader(100 << 20), prefixed(frames), rng) == frames


def test_byte_by_byte() -> None:
    frames = [b"abc", b"", b"x" * 200]
    reader = FrameReader(1000)
    received: list[bytes] = []
    for byte in prefixed(frames):
        reader.writable()[0] = byte
        received += [bytes(frame) for frame in reader.received(1)]
    assert received == frames


@pytest.mark.parametrize("size", [-1, -(2**31), 1001, 2**31 - 1])
def test_a_length_out_of_bounds_is_malformed(size: int) -> None:
    with pytest.raises(MalformedMessage, match=r"socket\.request\.max\.bytes"):
        receive(FrameReader(1000), size.to_bytes(4, "big", signed=True))


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_a_frame_that_comes_alone_is_its_own_memory(size: int) -> None:
    reader, frame = FrameReader(1000), bytes(range(256)) * 4
    (first,) = receive(reader, prefixed([frame[:size]]))
    (second,) = receive(reader, prefixed([b"x" * size]))
    assert (bytes(first), bytes(second)) == (frame[:size], b"x" * size)


def test_a_frame_above_the_maximum_is_malformed_although_it_is_whole() -> None:
    with pytest.raises(MalformedMessage, match=r"socket\.request\.max\.bytes"):
        receive(FrameReader(1000), prefixed([bytes(1001)]))


def test_an_announced_frame_costs_nothing_until_it_arrives() -> None:
    reader = FrameReader(100 << 20)
    receive(reader, (100 << 20).to_bytes(4, "big") + b"a" * 100)
    assert len(reader.writable()) <= 1 << 20
    assert reader.held_bytes <= 1 << 20


def test_what_has_arrived_of_a_huge_frame_is_not_copied_again() -> None:
    """Copying megabytes, or filling as many with zeros, would hold everybody up."""
    reader = FrameReader(100 << 20)
    receive(reader, (20 << 20).to_bytes(4, "big") + b"a")
    memory = reader.writable().obj
    rooms = []
    while reader.missing_bytes:
        writable = reader.writable()
        assert writable.obj is memory
        rooms.append(reader.held_bytes)
        (*_, frame) = [None, *reader.received(len(writable))]
    assert len(rooms) > 3, "it is not trusted with all of it at once"
    assert frame is not None
    assert (frame.obj, len(frame), frame.readonly) == (memory, 20 << 20, False)
    assert not reader.held_bytes


def test_what_came_before_a_bad_length_is_still_given_out() -> None:
    reader = FrameReader(1000)
    assert receive(reader, prefixed([b"abc"]) + b"\xff" * 8) == [b"abc"]
    with pytest.raises(MalformedMessage):
        receive(reader, b"x")


def _limit_of(api_key: int) -> int | None:
    """As for requests: some may be as large as any."""
    return None if api_key == 0 else 20_000 * api_key


def _begun(api_key: int, size: int) -> bytes:
    return size.to_bytes(4, "big") + api_key.to_bytes(2, "big")


def test_a_request_too_large_for_its_api_is_refused_before_it_arrives() -> None:
    for api_key, size in ((1, 20_001), (2, 40_001), (0, 100_001)):
        reader = FrameReader(100_000, limit_of=_limit_of)
        with pytest.raises(MalformedMessage):
            receive(reader, _begun(api_key, size))
        assert reader.held_bytes == 0


@pytest.mark.parametrize("seed", range(10))
def test_requests_within_the_limits_of_their_apis(seed: int) -> None:
    rng = random.Random(seed)
    pairs = [(1, 20_000), (2, 40_000), (0, 100_000), (1, 16_384), (3, 16_385), (2, 2)]
    rng.shuffle(pairs)
    frames = [key.to_bytes(2, "big") + rng.randbytes(size - 2) for key, size in pairs]
    assert receive(FrameReader(100_000, limit_of=_limit_of), prefixed(frames), rng) == frames
    received = receive_scattered(FrameReader(100_000, limit_of=_limit_of), prefixed(frames), rng)
    assert received == frames


def test_the_api_of_a_large_request_may_come_later_than_its_length() -> None:
    reader = FrameReader(100_000, limit_of=_limit_of)
    assert receive(reader, prefixed([b"abc"]) + _begun(1, 20_001)[:5]) == [b"abc"]
    with pytest.raises(MalformedMessage, match="API key 1 allows 20000"):
        receive(reader, b"\1")
