"""How many there are of each: a name is in it as long as there is one."""

from __future__ import annotations


def add(counts: dict[str, int], name: str, difference: int) -> None:
    """There are so many more, or fewer, by that name; never fewer than none."""
    count = counts.get(name, 0) + difference
    if count:
        counts[name] = count
    else:
        del counts[name]
