"""The memory of a response is used again only when all that lies in it was read."""

from __future__ import annotations

from drumlin.client.consumer.fetching.fetch_buffer import FetchBuffer, Frame, Piece
from drumlin.client.consumer.positions import Positions
from drumlin.peer.frame_memory import FrameMemory


class Noting(FrameMemory):
    """Notes what comes back."""

    def __init__(self) -> None:
        super().__init__()
        self.given_back: list[memoryview] = []

    def give_back(self, part: memoryview) -> None:
        self.given_back.append(part)


def filled(partitions: int) -> tuple[FetchBuffer, Noting, Positions]:
    """A response of 100 bytes with records of some partitions."""
    memory, positions = Noting(), Positions()
    buffer = FetchBuffer(1000, memory)
    frame = Frame(100, partitions)
    places = [("t", number) for number in range(partitions)]
    positions.add(places)
    records = memoryview(bytearray(100))
    buffer.put(
        [
            Piece(each, positions.of(each).version, 0, 1, 0, 0, 0.0, records, (), frame)
            for each in places
        ]
    )
    return buffer, memory, positions


def test_the_last_piece_gives_it_back() -> None:
    buffer, memory, positions = filled(2)
    for left in (1, 0):
        assert buffer.free_bytes == 900
        piece = buffer.first(positions)
        assert piece is not None
        buffer.done(piece)
        assert len(memory.given_back) == (0 if left else 1)
    assert buffer.free_bytes == 1000


def test_a_piece_that_is_dropped_may_be_read_still() -> None:
    buffer, memory, positions = filled(2)
    positions.of(("t", 0)).go_to(5)
    piece = buffer.first(positions)
    assert piece is not None
    assert piece.place == ("t", 1)
    buffer.done(piece)
    assert not memory.given_back
    assert buffer.free_bytes == 1000


def test_what_nobody_wants_any_more_takes_no_room() -> None:
    buffer, memory, positions = filled(3)
    positions.remove([("t", 0), ("t", 1), ("t", 2)])
    buffer.drop_unwanted(positions)
    assert buffer.free_bytes == 1000
    assert not memory.given_back
