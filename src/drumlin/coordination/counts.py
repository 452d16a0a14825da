"""Counts by name: the dictionary has a name while its count is above zero."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)


def add(counts: dict[Name, int], name: Name, difference: int) -> None:
    """Add a difference, which may be negative, to the count of a name, which must not become
    negative.
    """
    count = counts.get(name, 0) + difference
    if count:
        counts[name] = count
    else:
        del counts[name]


def add_all(counts: dict[Name, int], names: Iterable[Name], difference: int) -> None:
    """Like `add`, for each of these names, of which there may be thousands."""
    get = counts.get
    for name in names:
        count = get(name, 0) + difference
        if count:
            counts[name] = count
        else:
            del counts[name]
