"""The speed at which logs grow, from the offsets of some moments of the past."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

#: The windows to look back, the longest first.
DAY_S: Final = 86_400.0
HOUR_S: Final = 3_600.0


class Window(NamedTuple):
    """The offset of the first record in a window that ends now; None if there is no record."""

    seconds: float
    first_offset: int | None


def bytes_per_s(
    size_bytes: int, start_offset: int, end_offset: int, windows: Iterable[Window]
) -> float:
    """The speed in the longest window that begins within the log.

    A window that begins before the log says too little: what the log had then is removed, or it
    did not exist. Records count as large as the log's are on average.
    """
    records = end_offset - start_offset
    if records <= 0:
        return 0.0
    for window in windows:
        first = end_offset if window.first_offset is None else window.first_offset
        if first > start_offset:
            return (end_offset - first) * size_bytes / records / window.seconds
    return 0.0
