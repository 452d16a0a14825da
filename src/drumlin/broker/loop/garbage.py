"""When Python collects cyclic garbage, and which objects it examines.

Whichever thread begins a full collection, all threads wait for it, a quarter of a millisecond for
each thousand objects: with 5,000 partitions that is a hundred milliseconds. But what has survived
one mostly lives on. So it is frozen, that is, left out of later collections, and each examines
only the objects made since the last one. Frozen objects go as all others do when nothing refers to
them; only cycles among them would stay. All objects are examined, too, once much more memory is in
use than when all of it was known to be needed, and has been for minutes: what one large request
takes for a moment is no reason to stop the broker. That takes a hundred milliseconds with
thousands of partitions, and seconds with tens of millions of objects. So as long as a client is
connected it is a last resort, before memory runs out: no cycles are known that live long. Memory
is counted in the allocator's blocks, as to count the objects, Python walks along all of them: 40
ms for each million.

A thread that reads a large request makes very many objects, none of which are in cycles. Python
examines all of them at once if they are made while it calls our callback of a collection, as that
is Python code, during which other threads run: a hundred milliseconds. So while a thread is
`making_many`, all objects are frozen without being examined. The same is done if the event loop ran
meanwhile: then far more objects are new than begin a collection.

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
#: Objects that have come, and then collections of the young ones, and then of the less young: at
#: most some 6,500 objects are new to a full collection, which makes 1.5 ms. As each is looked at
#: once in a generation, more collections cost no more.
_THRESHOLDS: Final = (700, 2, 1)
#: Of those that have come; more are not looked at.
_NEW_MAX: Final = 10 * _THRESHOLDS[0]
#: Collections of the less young since the last full one. Python puts that off as long as few are
#: new beside those that the one before has looked at, which may have been very many.
_PUT_OFF_MAX: Final = 4
_LOOK_INTERVAL_S: Final = 60.0
#: Blocks; an object that may be part of a circle has two or more.
_BLOCKS_TIMES: Final = 2
_BLOCKS_MORE: Final = 400_000
#: While a client is connected: some 2.5 GB.
_BLOCKS_MORE_SERVING: Final = 30_000_000
#: Consecutive looks that must find this many.
_PATIENCE: Final = 3

Made = TypeVar("Made", bound=Sized)

#: An entry for each that is `making_many`.
_makers: Final[list[None]] = []
#: Whether any of this was asked for in this process: else it is the user's own.
_has_begun = threading.Event()


@contextmanager
def making_many() -> Iterator[None]:
    """While a thread makes or frees thousands of objects, no collection examines them."""
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
    """Return `made`, very many new objects, frozen: no collection is to examine them.

    The next three would, as they are young: 10 to 30 ns for each object, three times.
    """
    if len(made) > _NEW_MAX and _has_begun.is_set():
        gc.freeze()
    return made


class GarbageCollection:
    """`begin` it when what lives as long as the process is there; `keep_looking` from then on."""

    def __init__(self) -> None:
        self._in_use = 0
        self._found_many = 0

    def begin(self) -> None:
        """From now on full collections are short."""
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
        """Collect among all objects if there may be much to find, and was the last times."""
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
        _log.info("of %d blocks %d stay; %d objects were in circles", blocks, self._in_use, found)

    def _collected(self, phase: str, info: dict[str, Any]) -> None:
        is_full = phase == "stop" and info["generation"] == len(_THRESHOLDS) - 1
        new, _, put_off = gc.get_count()
        if is_full or _makers or new > _NEW_MAX or put_off > _PUT_OFF_MAX:
            gc.freeze()


def _collect_all() -> int:
    """Collect, and freeze what lives; how many objects were in circles.

    Python puts off a full collection until a quarter as many objects are new to it as survived the
    one before: after one of everything, until there are tens of thousands, which would be ten
    milliseconds. So another one follows, which nothing is left for.
    """
    found = gc.collect()
    gc.collect()
    return found
