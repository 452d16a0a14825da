"""A call that is cancelled at one of its steps, wherever that is: where it waits for something."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any


class _Cut:
    """Awaits a call, and cancels its own task at one step: while it waits, or once it need not."""

    def __init__(self, call: Coroutine[Any, Any, Any], step: int, *, is_late: bool) -> None:
        self._call = call
        self._step = step
        self._is_late = is_late
        self.steps = 0

    def __await__(self) -> Generator[Any, Any, None]:
        code = self._call.__await__()
        task = asyncio.current_task()
        assert task is not None
        go_on: Callable[[], Any] = lambda: next(code)  # noqa: E731
        while True:
            try:
                awaited = go_on()
            except StopIteration:
                return
            if self.steps == self._step and self._is_late and awaited is not None:
                awaited.add_done_callback(lambda _: task.cancel())
            elif self.steps == self._step:
                asyncio.get_running_loop().call_soon(task.cancel)
            self.steps += 1
            try:
                yield awaited
            except BaseException as raised:
                error = raised
                go_on = lambda: code.throw(error)  # noqa: B023, E731
            else:
                go_on = lambda: next(code)  # noqa: E731


async def cut_at_every_step(
    begin: Callable[[], Coroutine[Any, Any, Any]],
    check: Callable[[bool], Coroutine[Any, Any, None]] | None = None,
) -> None:
    """Begin a call again and again, cancelled at another step each time, until it is done before.

    `check` gets whether the call was done, after each of them.
    """
    for is_late in (False, True):
        step = 0
        while True:
            cut = _Cut(begin(), step, is_late=is_late)

            async def whole(cut: _Cut = cut) -> None:
                await cut

            task = asyncio.create_task(whole())
            async with asyncio.timeout(60):
                await asyncio.wait([task])
            if not task.cancelled():
                task.result()
            if check is not None:
                await check(not task.cancelled())
            if cut.steps <= step:
                break
            step += 1
