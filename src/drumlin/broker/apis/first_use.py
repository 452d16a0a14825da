"""Importing and compiling the code of an API version on its first use, in a thread.

On the event loop this would stall all clients for tens of milliseconds, hundreds of times if a
client sends one request of each version; at start-up it would delay the start. A connection calls
`is_prepared` for its next request, and is called back when the request can be dispatched.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import struct
from collections.abc import Callable
from types import ModuleType
from typing import Final

from drumlin.broker.apis.served import SERVED
from drumlin.broker.loop.threads import Threads
from drumlin.storage.files.files import NO_DESCRIPTOR
from drumlin.turns import give_way
from drumlin.wire.messages import API_KEYS, prepare

_log = logging.getLogger(__name__)
_API_AND_VERSION: Final = struct.Struct(">hh")  # the start of a frame
_AGAIN_S: Final = 0.1
_NAMES: Final = {API_KEYS[name]: name for name in SERVED}


def handler_module(api: str) -> ModuleType:
    """The module that handles the API, imported if necessary."""
    return importlib.import_module(f"drumlin.broker.handlers.{api}")


class FirstUse:
    """Loads the code of API versions on their first use, and knows which are loaded."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._prepared: set[bytes] = set()  # the first bytes of frames
        self._waiting: dict[bytes, list[Callable[[], None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_short = False  # whether a shortage of file descriptors was logged

    async def close(self) -> None:
        """Prepare nothing more. Connections that still wait are not called back."""
        if self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)

    def is_prepared(self, frame: memoryview, go_on: Callable[[], None]) -> bool:
        """Whether the request can be dispatched; if not, `go_on` is called when it can."""
        start = bytes(frame[: _API_AND_VERSION.size])
        if start in self._prepared:
            return True
        named = _named(start)
        if named is None:
            return True  # dispatching refuses it
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
            while True:
                if await self._is_made(api, version):
                    break
                await asyncio.sleep(_AGAIN_S)
        except Exception:  # noqa: BLE001  dispatching it will meet the error too
            _log.exception("%s v%d cannot be prepared", api, version)
        self._prepared.add(start)
        for go_on in self._waiting.pop(start):
            go_on()  # may start several requests, so give way after each
            await give_way()

    async def _is_made(self, api: str, version: int) -> bool:
        """Load the code. Returns False if there is no free file descriptor now."""
        try:
            await self._threads.making(_prepare, api, version)
        except OSError as error:
            if error.errno not in NO_DESCRIPTOR:
                raise
            if not self._is_short:
                _log.warning("%s v%d waits for a descriptor: %s", api, version, error)
            self._is_short = True
            return False
        self._is_short = False
        return True


def _named(start: bytes) -> tuple[str, int] | None:
    """The API and version at the start of a frame; None if they are not served."""
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
