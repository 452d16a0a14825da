"""Which small files are worth merging. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

T = TypeVar("T")
#: A file is small below this size.
SMALL_BYTES: Final = 32 << 20
#: The size of merged files, about.
LARGE_BYTES: Final = 128 << 20
#: Fewer are left alone: what was merged before would be written again for each new file.
FEW: Final = 8


def worth_merging(files: Iterable[tuple[T, int]]) -> Iterator[list[T]]:
    """Groups of small files, each to become one; in the given order.

    Args:
        files: files of one partition of a table, and their sizes in bytes.
    """
    small = [(file, size) for file, size in files if size < SMALL_BYTES]
    if len(small) < FEW:
        return
    group, group_bytes = list[T](), 0
    for file, size in small:
        if group and group_bytes + size > LARGE_BYTES:
            yield group
            group, group_bytes = [], 0
        group.append(file)
        group_bytes += size
    if len(group) > 1:
        yield group
