"""Decides which small files are worth merging. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

T = TypeVar("T")
#: A smaller file counts as small.
SMALL_BYTES: Final = 32 << 20
#: The approximate size of merged files.
LARGE_BYTES: Final = 128 << 20
#: Fewer files are not merged: otherwise each new file would cause another rewrite.
FEW: Final = 8


def worth_merging(files: Iterable[tuple[T, int]]) -> Iterator[list[T]]:
    """Groups of small files, each to be merged into one file; in the given order.

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
