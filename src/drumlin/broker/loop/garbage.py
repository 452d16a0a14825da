"""Control of Python's cyclic garbage collection: when it runs, and which objects it examines.

A full collection stops all threads, a quarter of a millisecond for each thousand objects: with
5,000 partitions, a hundred milliseconds. But objects that have survived a full collection usually
live long. So they are frozen, that is, left out of later collections, and each collection examines
only objects made since the last one. Frozen objects are freed like all others when nothing refers
to them; only cycles among them would stay. Therefore all objects are examined when far more memory
has been in use for minutes than after the last such collection; memory that one large request takes
for a moment does not count. Examining all objects takes a hundred milliseconds with thousands of
partitions, and seconds with tens of millions of objects. So while a client is connected it is only
done before memory runs out; no long-lived cycles are known. Memory is counted in the allocator's
blocks: to count objects, Python walks through all of them, 40 ms for each million.

A thread that parses a large request makes very many objects, none of them in cycles. Our callback
at the start of a collection is Python code, so other threads may run during it: the collection
would examine all objects that they make meanwhile, for a hundred milliseconds. So while a thread is
`making_many`, all objects are frozen without being examined. The same is done if the event loop ran
meanwhile: then far more objects are new than usually trigger a collection.

All of this concerns the whole process; an application that embeds a broker need not use it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from typing import Any, Final, TypeVar

_log = logging.getLogger(__name__)
#: For `gc.set_threshold`: new objects that trigger a collection of the youngest generation, and
#: collections of a generation that trigger one of the next. At most some 6,500 objects are new to a
#: full collection, which takes 1.5 ms. As each object is examined once in a generation, more
#: collections cost no more.
_THRESHOLDS: Final = (700, 2, 1)
#: New objects that a collection examines; if there are more, they are frozen unexamined.
_NEW_MAX: Final = 10 * _THRESHOLDS[0]
#: Collections of the second generation after which a full one is forced. Python puts it off while
#: few objects are new compared with those that the last full collection examined, which may have
#: been very many.
_PUT_OFF_MAX: Final = 4
_LOOK_INTERVAL_S: Final = 60.0
#: The growth, as a factor and in blocks, after which all objects are examined. An object that may
#: be part of a cycle has two or more blocks.
_BLOCKS_TIMES: Final = 2
_BLOCKS_MORE: Final = 400_000
#: The growth in blocks while a client is connected: some 2.5 GB.
_BLOCKS_MORE_SERVING: Final = 30_000_000
#: The number of consecutive checks that must find so many blocks.
_PATIENCE: Final = 3

Made = TypeVar("Made", bound=Sized)

#: An entry for each thread that is `making_many`.
_makers: Final[list[None]] = []
#: Whether this process has called `begin`: else its garbage collection is left alone.
_has_begun = threading.Event()


@contextmanager
def making_many() -> Iterator[None]:
    """A context in which a thread makes or frees thousands of objects, which no collection
    examines.
    """
    if not _has_begun.is_set():
        yield
        return
    _makers.append(None)
    try:
        yield
    finally:
        gc.freeze()
        _makers.pop()


def settled(made: Made) -> Made:
    """Freeze and return `made`, very many new objects, so that no collection examines them.

    Otherwise the next three collections would examine them, at 10 to 30 ns for each object.
    """
    if len(made) > _NEW_MAX and _has_begun.is_set():
        gc.freeze()
    return made


class GarbageCollection:
    """Full collections. Call `begin` once long-lived objects are made, then `keep_looking`."""

    def __init__(self) -> None:
        self._in_use = 0
        self._found_many = 0

    def begin(self) -> None:
        """Freeze the present objects, so that full collections are short from now on."""
        gc.set_threshold(*_THRESHOLDS)
        gc.callbacks.append(self._collected)
        _has_begun.set()
        _collect_all()
        self._in_use = sys.getallocatedblocks()

    async def keep_looking(self, is_serving: Callable[[], bool]) -> None:
        """Runs until it is cancelled. `is_serving`: whether a client is connected."""
        while True:
            await asyncio.sleep(_LOOK_INTERVAL_S)
            self.look(is_serving=is_serving())

    def look(self, *, is_serving: bool) -> None:
        """Collect among all objects if memory has grown much, and had grown at the last checks,
        too."""
        blocks = sys.getallocatedblocks()
        more = _BLOCKS_MORE_SERVING if is_serving else _BLOCKS_MORE
        if blocks <= _BLOCKS_TIMES * self._in_use + more:
            self._found_many = 0
            return
        self._found_many += 1
        if self._found_many < _PATIENCE:
            return
        self._found_many = 0
        gc.unfreeze()
        found = _collect_all()
        self._in_use = sys.getallocatedblocks()
        _log.info("of %d blocks %d stay; %d objects were in cycles", blocks, self._in_use, found)

    def _collected(self, phase: str, info: dict[str, Any]) -> None:
        is_full = phase == "stop" and info["generation"] == len(_THRESHOLDS) - 1
        new, _, put_off = gc.get_count()
        if is_full or _makers or new > _NEW_MAX or put_off > _PUT_OFF_MAX:
            gc.freeze()


def _collect_all() -> int:
    """Collect among all objects and freeze the survivors; returns how many were in cycles.

    Python puts off a full collection until the new objects are a quarter of those that survived the
    one before: after a collection of all objects, until there are tens of thousands, which would
    take ten milliseconds. So another collection follows at once: it finds no objects and resets the
    count.
    """
    found = gc.collect()
    gc.collect()
    return found
