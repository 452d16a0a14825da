"""The findings that a reader of log files yields, and the way to their bytes.

A reader walks one file in order: dictionaries for what is there, `Problem`s for what cannot be
right. Damage never raises; a file that cannot be opened does. Nothing here writes or repairs.
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
    """Something that no healthy log contains, and where."""

    path: Path
    position: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}: position {self.position}: {self.message}"


Item = dict[str, Any] | Problem
Reader = Callable[..., Iterator[Item]]


@contextlib.contextmanager
def mapped(path: Path) -> Iterator[Buffer]:
    """The bytes of a file, as many as it had when it was opened."""
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
    """The offset that a file of a segment is named by; 0 for a file with a name of its own."""
    stem = path.name.split(".")[0]
    return int(stem) if _BASE_OFFSET.fullmatch(stem) else 0
