"""Waiting for a condition with a limit: the only way a test here lets time pass."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], what: str, timeout_s: float = 60.0) -> T:
    """The first truthy value of `condition`; fails naming `what` when none comes in time."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s:g} s in vain for {what}")
        time.sleep(0.02)


async def eventually(condition: Callable[[], Any], timeout_s: float = 60.0) -> None:
    """Wait on the event loop for a condition, which may have to be awaited itself.

    Raises:
        TimeoutError: it did not come true in time.
    """
    async with asyncio.timeout(timeout_s):
        while True:
            value = condition()
            if await value if inspect.isawaitable(value) else value:
                return
            await asyncio.sleep(0.01)
