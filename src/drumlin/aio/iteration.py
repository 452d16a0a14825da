"""An asynchronous iterator made of a plain one, whose code may wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final, Generic, Self, TypeVar

from drumlin.aio.callers_loop import CallersLoop
from drumlin.background import look_at
from drumlin.client.errors import ClientError

T = TypeVar("T")

_END: Final = object()
#: Calls a plain function as a coroutine.
Caller = Callable[..., Coroutine[Any, Any, Any]]


class Iteration(Generic[T]):
    """Items, one after the other. A cancelled `anext` loses none: the next one has its item.

    It stops fetching when it is dropped, or closed with `aclose`.
    """

    def __init__(self, loop: CallersLoop, begin: Callable[[], Iterator[T]], call: Caller) -> None:
        self._loop = loop
        self._begin = begin
        self._call = call
        self._items: Iterator[T] | None = None
        self._next: asyncio.Task[Any] | None = None
        self._is_awaited = False
        self._is_over = False
        self._ended_by: ClientError | None = None
        loop.attach(self, keep=False)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        if self._is_awaited:
            raise ClientError("another task waits for the next item of this iteration")
        if self._next is None:
            if self._ended_by is not None:
                raise self._ended_by
            if self._is_over:
                raise StopAsyncIteration
            self._next = asyncio.ensure_future(self._call(self._advance))
            self._next.add_done_callback(look_at)
        self._is_awaited = True
        try:
            await asyncio.wait([self._next])
        finally:
            self._is_awaited = False
        done, self._next = self._next, None
        self._is_over = True  # after an error, too
        if done.cancelled():
            raise self._ended_by or StopAsyncIteration
        item = done.result()
        if item is _END:
            raise StopAsyncIteration
        self._is_over = False
        return item  # type: ignore[no-any-return]

    def _advance(self) -> object:
        if self._items is None:
            self._items = iter(self._begin())
        return next(self._items, _END)

    async def aclose(self) -> None:
        """Stop fetching. No item comes any more."""
        self._is_over = True
        await self._loop.to_its_end(self._close())

    async def _close(self) -> None:
        pending, items = self._next, self._items
        if pending is not None:
            pending.cancel()
            await asyncio.wait([pending])
        self._items = None
        if items is not None and hasattr(items, "close"):
            await self._call(items.close)

    async def give_up(self) -> None:
        """Stop, as the client is closed."""
        if not self._is_over:
            self._ended_by = ClientError("this client was closed meanwhile")
            await self.aclose()
