"""How many there are of each: a name is in it as long as there is one."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)


def add(counts: dict[Name, int], name: Name, difference: int) -> None:
    """There are so many more, or fewer, by that name; never fewer than none."""
    count = counts.get(name, 0) + difference
    if count:
        counts[name] = count
    else:
        del counts[name]


def add_all(counts: dict[Name, int], names: Iterable[Name], difference: int) -> None:
    """As `add`, of each name: there may be thousands."""
    get = counts.get
    for name in names:
        count = get(name, 0) + difference
        if count:
            counts[name] = count
        else:
            del counts[name]
