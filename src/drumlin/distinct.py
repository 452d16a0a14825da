"""The distinct items among very many, found by code that gives way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable
from itertools import islice
from typing import Final, TypeVar

from drumlin.turns import give_way

Item = TypeVar("Item", bound=Hashable)
T = TypeVar("T")

_LOOKED_AT_TOGETHER: Final = 500


async def counted(items: Iterable[Item]) -> dict[Item, int]:
    """The number of occurrences of each item, in the order of first occurrences."""
    found: dict[Item, int] = {}
    left = iter(items)
    while some := tuple(islice(left, _LOOKED_AT_TOGETHER)):
        for item in some:
            found[item] = found.get(item, 0) + 1
        await give_way()
    return found


async def each_once(items: Iterable[Item], do: Callable[[Item], Awaitable[T]]) -> list[T]:
    """The results of `do`, called once for each distinct item."""
    results = []
    for item in await counted(items):
        results.append(await do(item))
        await give_way()
    return results
