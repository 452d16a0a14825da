"""Calls with the parameters and the documentation of the synchronous client's.

A call here is made of the synchronous one, so that the two cannot drift apart: neither in their
parameters, nor in what they do. An object that has them has the synchronous one as `_core`, and
its loop as `_loop`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from drumlin.aio.callers_loop import CallersLoop
from drumlin.aio.iteration import Iteration
from drumlin.aio.waiting_code import wait_for, waiting

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
S = TypeVar("S")
Opened = TypeVar("Opened", bound=AbstractAsyncContextManager[Any])


def awaited(
    method: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """The call as a coroutine, which waits in the caller's task."""

    @functools.wraps(method)
    async def call(self: Any, /, *args: P.args, **options: P.kwargs) -> T:
        result: T = await waiting(method, self._core, *args, **options)
        return result

    return call


def awaited_in_thread(
    method: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """The call as a coroutine, for one that computes more than it waits."""

    @functools.wraps(method)
    async def call(self: Any, /, *args: P.args, **options: P.kwargs) -> T:
        result: T = await self._loop.in_thread(method, self._core, *args, **options)
        return result

    return call


def at_once(
    method: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[Any, P], T]:
    """The call as it is: it neither asks a broker nor waits."""

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **options: P.kwargs) -> T:
        return method(self._core, *args, **options)

    return call


def iterated(
    method: Callable[Concatenate[Any, P], Iterator[T]],
) -> Callable[Concatenate[Any, P], AsyncIterator[T]]:
    """The call as one that returns an asynchronous iterator. It checks its arguments at once."""

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **options: P.kwargs) -> AsyncIterator[T]:
        items = method(self._core, *args, **options)
        return Iteration(self._loop, lambda: items, waiting)

    return call


def iterated_in_thread(
    method: Callable[Concatenate[Any, P], Iterator[T]],
) -> Callable[Concatenate[Any, P], AsyncIterator[T]]:
    """The same, for a call that computes more than it waits. It begins with the first item."""

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **options: P.kwargs) -> AsyncIterator[T]:
        loop: CallersLoop = self._loop
        return Iteration(loop, lambda: method(self._core, *args, **options), loop.in_thread)

    return call


def opened(
    method: Callable[Concatenate[Any, P], T],
    kind: Callable[[CallersLoop, T], Opened],
    *callbacks: str,
) -> Callable[Concatenate[Any, P], Opening[Opened]]:
    """The call as one whose result is awaited, or used in an `async with`.

    Options that are `callbacks` may be coroutine functions.
    """

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **options: P.kwargs) -> Opening[Opened]:
        for name in options.keys() & set(callbacks):
            options[name] = _awaiting(options[name])

        async def open_it() -> Opened:
            core = await waiting(method, self._core, *args, **options)
            return kind(self._loop, core)

        return Opening(open_it)

    return call


def _awaiting(callback: object) -> object:
    """A callback of the core that calls this one, and waits for what it returns."""
    if not callable(callback):
        return callback

    def tell(*args: Any) -> None:
        answer = callback(*args)
        if inspect.isawaitable(answer):
            wait_for(answer)

    return tell


def like(
    method: Callable[Concatenate[Any, P], Any],
) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], R]]:
    """Decorate a call whose parameters and documentation are those of the synchronous one."""

    def decorate(call: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
        return functools.wraps(method)(call)

    return decorate


class Opening(Generic[Opened]):
    """What is being opened: await it, or use it in an `async with`, which closes it."""

    def __init__(self, open_it: Callable[[], Coroutine[Any, Any, Opened]]) -> None:
        self._open = open_it
        self._opened: Opened | None = None

    def __await__(self) -> Generator[Any, None, Opened]:
        return self._open().__await__()

    async def __aenter__(self) -> Opened:
        self._opened = await self._open()
        await self._opened.__aenter__()
        return self._opened

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        assert self._opened is not None
        return await self._opened.__aexit__(kind, error, traceback)
