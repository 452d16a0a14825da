"""Very many items, each once: gathered by work that gives way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable
from itertools import islice
from typing import Final, TypeVar

from drumlin.turns import give_way

Item = TypeVar("Item", bound=Hashable)
T = TypeVar("T")

_LOOKED_AT_TOGETHER: Final = 500


async def counted(items: Iterable[Item]) -> dict[Item, int]:
    """How often each of the items comes, in the order in which they come first."""
    found: dict[Item, int] = {}
    left = iter(items)
    while some := tuple(islice(left, _LOOKED_AT_TOGETHER)):
        for item in some:
            found[item] = found.get(item, 0) + 1
        await give_way()
    return found


async def each_once(items: Iterable[Item], do: Callable[[Item], Awaitable[T]]) -> list[T]:
    """What `do` comes to for each of the items, however often it is named."""
    results = []
    for item in await counted(items):
        results.append(await do(item))
        await give_way()
    return results
