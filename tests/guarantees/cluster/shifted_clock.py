"""`drumlin` with a wall clock that somebody else moves: `python -P shifted_clock.py FILE server …`.

The file holds how far it is off, in milliseconds. Deadlines are measured with another clock, which
runs on, as that of a machine does when its time is set.
"""

from __future__ import annotations

import mmap
import struct
import sys
import time
from pathlib import Path
from typing import Final

_OFF: Final = struct.Struct("=q")


def shift(path: Path, off_ms: int) -> None:
    """Move the clock of the broker that has this file, at once if it runs."""
    path.touch()
    with path.open("r+b", buffering=0) as file:
        file.write(_OFF.pack(off_ms))


def main() -> None:
    from drumlin.cli.main import main as drumlin
    from drumlin.clock import SystemClock

    with Path(sys.argv.pop(1)).open("rb") as file:
        shown = mmap.mmap(file.fileno(), _OFF.size, access=mmap.ACCESS_READ)

    def wall_ms(_: SystemClock) -> int:
        return time.time_ns() // 1_000_000 + int(_OFF.unpack_from(shown)[0])

    SystemClock.wall_ms = wall_ms  # type: ignore[method-assign]
    drumlin()


if __name__ == "__main__":
    main()
