"""The event loop of a client's core, as the client's calls see it.

A call is plain code that waits for the core by `run`. Two kinds of loop carry it: a thread's own
(`LoopThread`), for synchronous programs, and the one in which an asyncio program calls
(`drumlin.aio`). So what a call does is written once, and only the waiting differs. Whatever else
blocks or computes long goes through here, too: conditions, futures and work on many bytes.
"""

from __future__ import annotations

import asyncio
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from types import TracebackType
from typing import Any, Protocol, TypeVar

from drumlin.client.errors import ClientError

T = TypeVar("T")


class ClosedMeanwhile(ClientError):
    """The client was closed during a call, which may have taken effect."""


class Condition(Protocol):
    """What calls use of a `threading.Condition`."""

    def __enter__(self) -> object: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> object: ...

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool: ...

    def notify_all(self) -> None: ...


class CoreLoop(ABC):
    """A loop, and how other threads reach it. A subclass says where it runs, and how it ends."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._process_id = os.getpid()
        self._lock = threading.Lock()
        self._is_stopping = False
        #: The future that each thread waits for in `run`.
        self._awaited: dict[int, Future[Any]] = {}

    @property
    def is_running(self) -> bool:
        return not self._is_stopping and os.getpid() == self._process_id

    @property
    @abstractmethod
    def may_wait(self) -> bool:
        """Whether the caller may wait: not in a callback, which would wait for itself."""

    @abstractmethod
    def check_may_wait(self) -> None:
        """Check that the caller may wait.

        Raises:
            ClientError: it may not.
        """

    # -- the core ------------------------------------------------------------------------

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop and wait for its result; an interrupt cancels it."""
        future = self.submit(coroutine, waits=True)
        caller = threading.get_ident()
        self._awaited[caller] = future
        try:
            return future.result()
        except CancelledError:
            raise ClosedMeanwhile("this client was closed meanwhile") from None
        except BaseException:
            future.cancel()
            raise
        finally:
            del self._awaited[caller]

    def interrupt(self, caller: threading.Thread) -> None:
        """Cancel another thread's call of `run`, if there is one: it raises `ClosedMeanwhile`."""
        self._interrupt(caller.ident or 0)

    def _interrupt(self, caller: int) -> None:
        awaited = self._awaited.get(caller)
        if awaited is not None:
            awaited.cancel()

    def submit(self, coroutine: Coroutine[Any, Any, T], *, waits: bool = False) -> Future[T]:
        """Run a coroutine in the loop, without waiting; with `waits`, the caller waits later."""
        try:
            self._check_process()
            if waits:
                self.check_may_wait()
            with self._lock:
                self._check()
                return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except ClientError:
            coroutine.close()
            raise

    def call_soon(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a plain function in the loop, without waiting, and even if `stop` follows."""
        self._check_process()
        with self._lock:
            self._check()
            self._loop.call_soon_threadsafe(function, *arguments)

    def call(self, function: Callable[[], T]) -> T:
        """Call a plain function in the loop, after earlier ones, and return its result."""

        async def call() -> T:
            return function()

        return self.run(call())

    # -- what else waits or takes long ---------------------------------------------------

    @abstractmethod
    def stop(self) -> None:
        """Cancel the coroutines of the client in the loop."""

    @abstractmethod
    def condition(self) -> Condition:
        """A condition whose waiters wait as in `run`."""

    @abstractmethod
    def wait(self, futures: Sequence[Future[Any]]) -> None:
        """Wait until all are done."""

    @abstractmethod
    def compute(self, function: Callable[[], T], size_bytes: int) -> T:
        """The result of work on so many bytes, which must not hold up the loop."""

    @abstractmethod
    def iterate(self, items: Iterator[T], size_bytes: int) -> Iterator[T]:
        """Items that are computed one by one from so many bytes, as with `compute`."""

    @abstractmethod
    def in_order(
        self, work: Callable[[T], None], size_of: Callable[[T], int]
    ) -> Callable[[T], None]:
        """`work`, as a function that may return before it is done: one item after the other."""

    @abstractmethod
    def as_caller(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function from the loop, in a place where it may compute and take locks."""

    def _check_process(self) -> None:
        if os.getpid() != self._process_id:
            raise ClientError("this client was opened before a fork: connect again in the child")

    def _check(self) -> None:
        if self._is_stopping:
            raise ClientError("this client is closed")


async def done_in_loop(future: Future[Any]) -> None:
    """Wait until a future of another thread is done. A cancellation leaves it alone."""
    loop = asyncio.get_running_loop()
    waiter = asyncio.Event()
    future.add_done_callback(lambda _: loop.call_soon_threadsafe(waiter.set))
    await waiter.wait()
