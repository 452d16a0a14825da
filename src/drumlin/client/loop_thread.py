"""An event loop in a thread of its own, for synchronous callers.

Connections, retries and lingering batches run there while the caller decodes, encodes or does
something else. The thread is a daemon: a program that forgets to close its client can exit.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from drumlin.client.errors import ClientError

T = TypeVar("T")


class ClosedMeanwhile(ClientError):
    """The client was closed during a call, which may have taken effect."""


class LoopThread:
    """A thread with an event loop; it starts at once. `stop` ends it and cancels its coroutines."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._process_id = os.getpid()
        self._lock = threading.Lock()
        self._is_stopping = False
        #: The future that each thread waits for in `run`.
        self._awaited: dict[int, Future[Any]] = {}
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return not self._is_stopping and os.getpid() == self._process_id

    @property
    def may_wait(self) -> bool:
        """Whether the caller may wait: not in a callback, which would wait for itself."""
        return threading.current_thread() is not self._thread

    def check_may_wait(self) -> None:
        """Check that the caller may wait.

        Raises:
            ClientError: in a callback.
        """
        if not self.may_wait:
            raise ClientError(
                "a callback in the client's own thread must not wait for the client: "
                "it would wait for itself"
            )

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
        awaited = self._awaited.get(caller.ident or 0)
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

    def stop(self) -> None:
        """Cancel the coroutines in the loop, and end the thread."""
        self.check_may_wait()
        with self._lock:
            if self._is_stopping:
                return
            self._is_stopping = True
        asyncio.run_coroutine_threadsafe(_cancel_all(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _check_process(self) -> None:
        if os.getpid() != self._process_id:
            raise ClientError("this client was opened before a fork: connect again in the child")

    def _check(self) -> None:
        if self._is_stopping:
            raise ClientError("this client is closed")


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
