"""Collections of very many distinct items, which grow without a long pause.

A dictionary of hundreds of thousands of items is resized in one go, which takes longer than a turn
of the event loop. `Distinct` spreads its items over many small dictionaries, by a salted hash that
clients cannot predict. `Growing` begins another dictionary when the last one is full.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import chain, islice
from typing import Any, Final, Generic, TypeVar

from drumlin.turns import Work, let_go

Item = TypeVar("Item", bound=Hashable)
Value = TypeVar("Value")
T = TypeVar("T")

_SHARDS: Final = 64
_SALT: Final = secrets.randbits(60)
_LOOKED_AT_TOGETHER: Final = 500
#: The first key of each dictionary. The garbage collector untracks a dictionary of untracked
#: objects, and tracks it again, as a young object, when a tuple is added: each young collection
#: would visit all of them. With this key they stay tracked, grow old, and can be frozen.
_SEEN: Final = type("_Seen", (), {})()
#: The entries of one dictionary: resizing one of this size takes two milliseconds.
_TOGETHER_MAX: Final = 40_000


class Distinct(Generic[Item]):
    """A set of items in the order of insertion, with a count for each."""

    __slots__ = ("_in_order", "_shards")

    def __init__(self) -> None:
        self._in_order: list[Item] = []
        self._shards: list[dict[Any, int]] = [{_SEEN: 0}]  # one is enough for most requests

    def __len__(self) -> int:
        return len(self._in_order)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._in_order)

    def __contains__(self, item: object) -> bool:
        return item in _shard_of(self._shards, item)

    def times(self, item: Item) -> int:
        """How often the item was added."""
        return _shard_of(self._shards, item).get(item, 0)

    def add(self, items: Iterable[Item]) -> Work[None]:
        """Add new items, and count those that are there already."""
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
        """Remove all items in turns, since freeing them at once takes longer than a turn."""
        yield from let_go(self._in_order, *self._shards)


def _shard_of(shards: list[dict[Any, int]], item: object) -> dict[Any, int]:
    return shards[hash((_SALT, item)) % len(shards)]


def distinct(items: Iterable[Item]) -> Work[Distinct[Item]]:
    """The distinct items, counted."""
    found = Distinct[Item]()
    yield from found.add(items)
    return found


def each_once(items: Iterable[Item], do: Callable[[Item], Work[T]]) -> Work[list[T]]:
    """The results of `do` for the distinct items, in their order."""
    wanted = yield from distinct(items)
    results = []
    for item in wanted:
        results.append((yield from do(item)))
        yield
    yield from wanted.let_go()
    return results


class Growing(Generic[Item, Value]):
    """A mapping in the order of insertion."""

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
        """Remove all items in turns, since freeing them at once takes longer than a turn."""
        yield from let_go(*self._parts)
