"""The findings that a reader of log files yields, and access to the files' bytes.

A reader walks one file in order and yields dictionaries for its content and `Problem`s for faults.
Damage never raises; a file that cannot be opened does. Nothing here writes or repairs.
"""

from __future__ import annotations

import contextlib
import mmap
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from drumlin.records.batch.batch import Buffer

_BASE_OFFSET: Final = re.compile(r"[0-9]{1,20}")


class Problem(NamedTuple):
    """A fault in a log file, and its position."""

    path: Path
    position: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}: position {self.position}: {self.message}"


Item = dict[str, Any] | Problem
Reader = Callable[..., Iterator[Item]]


@contextlib.contextmanager
def mapped(path: Path) -> Iterator[Buffer]:
    """The bytes of a file, up to its size when it was opened."""
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            yield b""
            return
        with (
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapping,
            memoryview(mapping) as view,
        ):
            yield view


def base_offset_of(path: Path) -> int:
    """The base offset in a segment file's name; 0 for a file that is not named by an offset."""
    stem = path.name.split(".")[0]
    return int(stem) if _BASE_OFFSET.fullmatch(stem) else 0
