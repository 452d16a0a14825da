"""What is imported and compiled when a version of an API is first asked for: in a thread.

It takes tens of milliseconds, in which nobody else would be served; and whoever sends one request
of each version would have it done hundreds of times. Start-up pays for none of it. A connection
whose next request has to wait asks `is_prepared`, and is called when it can go on.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import struct
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Final

from drumlin.broker.served import SERVED
from drumlin.turns import Pace
from drumlin.wire.messages import API_KEYS, prepare

if TYPE_CHECKING:
    from drumlin.broker.threads import Threads

_log = logging.getLogger(__name__)
_API_AND_VERSION: Final = struct.Struct(">hh")  # what a frame starts with
_NAMES: Final = {API_KEYS[name]: name for name in SERVED}


def handler_module(api: str) -> ModuleType:
    """The module that answers the API, imported if it was not."""
    return importlib.import_module(f"drumlin.broker.handlers.{api}")


class FirstUse:
    """Knows which versions can be dispatched at once."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._prepared: set[bytes] = set()  # the first bytes of frames
        self._waiting: dict[bytes, list[Callable[[], None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def is_prepared(self, frame: memoryview, go_on: Callable[[], None]) -> bool:
        """Whether the request in the frame can be dispatched; if not, `go_on` tells when."""
        start = bytes(frame[: _API_AND_VERSION.size])
        if start in self._prepared:
            return True
        named = _named(start)
        if named is None:
            return True  # to be refused
        waiting = self._waiting.get(start)
        if waiting is None:
            self._waiting[start] = [go_on]
            task = asyncio.get_running_loop().create_task(self._prepare(start, *named))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            waiting.append(go_on)
        return False

    async def _prepare(self, start: bytes, api: str, version: int) -> None:
        try:
            await self._threads.making(_prepare, api, version)
        except Exception:  # noqa: BLE001  whoever dispatches it will meet it, too
            _log.exception("%s v%d cannot be prepared", api, version)
        self._prepared.add(start)
        pace = Pace()
        for go_on in self._waiting.pop(start):
            go_on()  # may start several requests: a thousand of them are no single turn
            await pace.give_way()


def _named(start: bytes) -> tuple[str, int] | None:
    """The API and version that a frame begins with; None if they are not answered."""
    if len(start) < _API_AND_VERSION.size:
        return None
    key, version = _API_AND_VERSION.unpack(start)
    api = _NAMES.get(key)
    if api is None:
        return None
    lowest, highest = SERVED[api]
    if lowest <= version <= highest:
        return api, version
    return None


def _prepare(api: str, version: int) -> None:
    module = handler_module(api)
    if not hasattr(module, "answer"):
        prepare(api, version, is_read=not hasattr(module, "parse"))
