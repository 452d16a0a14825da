"""Very many items, each once and counted, in a collection that grows without a pause.

A dictionary of hundreds of thousands is moved in one go whenever it becomes too small, which takes
longer than a turn of the event loop. So items are spread over many small ones, in a way that
a client cannot foresee, once there are more than a few. Where something is kept of each, the next
dictionary takes what the last one has no room for.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator
from itertools import chain, islice
from typing import Any, Final, Generic, TypeVar

from drumlin.turns import Work, give_way, let_go

Item = TypeVar("Item", bound=Hashable)
Value = TypeVar("Value")
T = TypeVar("T")

_SHARDS: Final = 64
_SALT: Final = secrets.randbits(60)
_LOOKED_AT_TOGETHER: Final = 500
#: The first key of each dictionary. One in which there is nothing to be looked at for garbage is
#: taken out of what is looked at, and put back as new with the next tuple that comes into it: so
#: each look would walk along all of them. This key has them stay, and be frozen.
_SEEN: Final = type("_Seen", (), {})()
#: Entries of one dictionary: resizing one of this size takes two milliseconds.
_TOGETHER_MAX: Final = 40_000


class Distinct(Generic[Item]):
    """The items in the order in which they came first."""

    __slots__ = ("_in_order", "_shards")

    def __init__(self) -> None:
        self._in_order: list[Item] = []
        self._shards: list[dict[Any, int]] = [{_SEEN: 0}]  # there are few items in most requests

    def __len__(self) -> int:
        return len(self._in_order)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._in_order)

    def __contains__(self, item: object) -> bool:
        return item in _shard_of(self._shards, item)

    def times(self, item: Item) -> int:
        """How often it has come."""
        return _shard_of(self._shards, item).get(item, 0)

    def add(self, items: Iterable[Item]) -> Work[None]:
        """Add the items that are not there yet, and count the others."""
        put = self._in_order.append
        left = iter(items)
        while some := tuple(islice(left, _LOOKED_AT_TOGETHER)):
            shards = self._shards
            for item in some:
                shard = _shard_of(shards, item)
                if item in shard:
                    shard[item] += 1
                else:
                    shard[item] = 1
                    put(item)
            if len(shards) == 1 and len(self._in_order) >= _LOOKED_AT_TOGETHER:
                self._spread()
            yield

    def _spread(self) -> None:
        (alone,), self._shards = self._shards, [{_SEEN: 0} for _ in range(_SHARDS)]
        for item in self._in_order:
            _shard_of(self._shards, item)[item] = alone[item]

    def let_go(self) -> Work[None]:
        """Empty it; all at once, that would take longer than a turn."""
        yield from let_go(self._in_order, *self._shards)


def _shard_of(shards: list[dict[Any, int]], item: object) -> dict[Any, int]:
    return shards[hash((_SALT, item)) % len(shards)]


def distinct(items: Iterable[Item]) -> Work[Distinct[Item]]:
    """Each of the items once."""
    found = Distinct[Item]()
    yield from found.add(items)
    return found


class Growing(Generic[Item, Value]):
    """A value for each item, in the order in which the items were first added."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[dict[Item, Value]] = [{}]

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __iter__(self) -> Iterator[Item]:
        return chain.from_iterable(self._parts)

    def __contains__(self, item: object) -> bool:
        return any(item in part for part in self._parts)

    def __getitem__(self, item: Item) -> Value:
        return next(part for part in self._parts if item in part)[item]

    def __setitem__(self, item: Item, value: Value) -> None:
        for part in self._parts:
            if item in part:
                break
        else:
            part = self._parts[-1]
            if len(part) >= _TOGETHER_MAX:
                part = {}
                self._parts.append(part)
        part[item] = value

    def setdefault(self, item: Item, value: Value) -> Value:
        for part in self._parts:
            if item in part:
                return part[item]
        self[item] = value
        return value

    def items(self) -> Iterator[tuple[Item, Value]]:
        return chain.from_iterable(part.items() for part in self._parts)

    def let_go(self) -> Work[None]:
        """Empty it; all at once, that would take longer than a turn."""
        yield from let_go(*self._parts)


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
