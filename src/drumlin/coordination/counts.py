"""Counts by name, in a dictionary without the names whose count is zero."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)


def add(counts: dict[Name, int], name: Name, difference: int) -> None:
    """Add a difference, possibly negative, to a name's count, which must not become negative."""
    count = counts.get(name, 0) + difference
    if count:
        counts[name] = count
    else:
        del counts[name]


def add_all(counts: dict[Name, int], names: Iterable[Name], difference: int) -> None:
    """Like `add`, for each of these names. Fast enough for thousands of names."""
    get = counts.get
    for name in names:
        count = get(name, 0) + difference
        if count:
            counts[name] = count
        else:
            del counts[name]
