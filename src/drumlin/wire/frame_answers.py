"""What lanes need of any frame: its correlation id, and the same answer under another one."""

from __future__ import annotations

import struct
from typing import Final

#: Of an answer: its length without this field, and the correlation id.
FRAME_START: Final = struct.Struct(">ii")
_CORRELATION_ID: Final = struct.Struct(">i")
_CORRELATION_ID_POSITION: Final = 4  # of a request, without its length prefix


def correlation_id_of(frame: memoryview) -> int:
    """Of a request without its length prefix."""
    return int(_CORRELATION_ID.unpack_from(frame, _CORRELATION_ID_POSITION)[0])


class AnswerTemplate:
    """Answers that are the same as an example but for their correlation id."""

    __slots__ = ("_rest", "_size")

    def __init__(self, example: bytes) -> None:
        """`example` is a frame with its length prefix."""
        self._size, _ = FRAME_START.unpack_from(example)
        self._rest = example[FRAME_START.size :]

    def fill(self, correlation_id: int) -> bytes:
        """The frame, with its length prefix."""
        return FRAME_START.pack(self._size, correlation_id) + self._rest
