"""The buffer of fetched records that wait for the user, and its memory limit.

A piece is the records of one partition in one fetch response. The pieces of a response share its
frame, whose memory is freed when the last piece is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from drumlin.client.consumer.positions import Positions
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.frame_memory import FrameMemory


@dataclass(slots=True)
class Frame:
    """The frame of one response. `pieces` counts the pieces that are not done."""

    size_bytes: int
    pieces: int
    is_reusable: bool = True  # False once a piece was dropped: a thread may be reading it


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Whole record batches of one partition; records before `start_offset` are skipped."""

    place: TopicPartition
    version: int  # of the partition's state; a piece with another version is stale
    start_offset: int
    end_offset: int
    leader_epoch: int  # of the last batch
    fetched_of_epoch: int  # of the leader that answered
    ended_s: float  # in the loop's time, when the log was known to end at `start_offset` or before
    records: memoryview
    aborted: Sequence[tuple[int, int]]
    frame: Frame


class FetchBuffer:
    """The buffer, used in the loop. The user's thread only reads the records of its piece."""

    def __init__(self, limit_bytes: int, memory: FrameMemory) -> None:
        self._limit_bytes = limit_bytes
        self._memory = memory
        self._pieces: deque[Piece] = deque()
        self._used_bytes = 0

    @property
    def free_bytes(self) -> int:
        """Bytes that may be fetched: the limit minus the bytes buffered or in flight."""
        return self._limit_bytes - self._used_bytes

    def reserve(self, size_bytes: int) -> None:
        """Reserve memory for a response."""
        self._used_bytes += size_bytes

    def give_up(self, size_bytes: int) -> None:
        """Release a reservation, as the response has arrived or failed."""
        self._used_bytes -= size_bytes

    def put(self, pieces: Sequence[Piece]) -> None:
        """Add the pieces of a response."""
        if pieces:
            self._used_bytes += pieces[0].frame.size_bytes
            self._pieces.extend(pieces)

    def first(self, positions: Positions) -> Piece | None:
        """The oldest piece that is still wanted. It stays in the buffer until it is `done`."""
        while self._pieces:
            piece = self._pieces[0]
            if positions.get(piece.place, piece.version) is not None:
                return piece
            self._pieces.popleft()
            self._drop(piece)
        return None

    def drop_unwanted(self, positions: Positions) -> None:
        """Drop pieces of partitions that were revoked or repositioned."""
        kept: deque[Piece] = deque()
        for piece in self._pieces:
            if positions.get(piece.place, piece.version) is not None:
                kept.append(piece)
            else:
                self._drop(piece)
        self._pieces = kept

    def done(self, piece: Piece) -> None:
        """Remove the first piece: the user's thread has read its records."""
        if self._pieces and self._pieces[0] is piece:
            self._pieces.popleft()
            self._release(piece)
            if piece.frame.pieces == 0 and piece.frame.is_reusable:
                self._memory.give_back(piece.records)

    def _drop(self, piece: Piece) -> None:
        piece.frame.is_reusable = False
        self._release(piece)

    def _release(self, piece: Piece) -> None:
        piece.frame.pieces -= 1
        if piece.frame.pieces == 0:
            self._used_bytes -= piece.frame.size_bytes
