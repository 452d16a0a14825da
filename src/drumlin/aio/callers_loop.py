"""The loop of an asyncio program, with a client's core in it.

The core's coroutines run in the task that has called. What computes on many bytes runs in the
loop's pool of threads, and so does a whole call that computes for the most part
(`in_thread`): it reaches the core from there, as it would from any thread.

One thread, the loop's, runs all calls and the core, so nothing here needs a lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future, wait
from typing import Any, Final, Generic, ParamSpec, Protocol, TypeVar
from weakref import WeakSet

from drumlin.aio.waiting_code import may_wait, wait_for
from drumlin.background import shielded
from drumlin.client.errors import ClientError
from drumlin.client.loops.core_loop import ClosedMeanwhile, Condition, CoreLoop, done_in_loop

P = ParamSpec("P")
T = TypeVar("T")

#: Work on fewer bytes takes less time than a thread's turn.
_THREAD_FROM_BYTES: Final = 64 << 10
_INTERRUPT_AGAIN_S: Final = 0.05


class Attached(Protocol):
    """What a client has given out, and what runs in its loop."""

    async def give_up(self) -> None:
        """Stop what runs, as the client is closed."""


class WouldStopLoop(ClientError):
    """Code that waits was called from the loop itself, and not by `waiting`."""


class CallersLoop(CoreLoop):
    """The running loop, from the inside."""

    def __init__(self) -> None:
        super().__init__(asyncio.get_running_loop())
        self._thread_id = threading.get_ident()
        self._soon: deque[Callable[[], object]] = deque()
        self._waits: set[_Wait] = set()
        self._works: set[asyncio.Future[Any]] = set()
        self._ends: set[asyncio.Task[None]] = set()
        self._attached: WeakSet[Attached] = WeakSet()
        self._kept: set[Attached] = set()
        #: The threads of `in_thread` whose callers were cancelled.
        self._interrupted: set[int] = set()

    @property
    def is_inside(self) -> bool:
        """Whether this is the loop's thread."""
        return threading.get_ident() == self._thread_id

    @property
    def may_wait(self) -> bool:
        return may_wait() or not self.is_inside

    def check_may_wait(self) -> None:
        if not self.may_wait:
            raise WouldStopLoop("this would stop the event loop: await the client's own coroutines")

    def check_is_own(self) -> None:
        """Check that the loop which runs now is the one that the client was opened in.

        Raises:
            ClientError: it is another one; or the client is closed.
        """
        self._check_process()
        self._check()
        if asyncio.get_running_loop() is not self._loop:
            raise ClientError("this client was opened in another event loop: open one here")

    # -- the core ------------------------------------------------------------------------

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if not self.is_inside:
            return self._run_from_thread(coroutine)
        try:
            self.check_is_own()
            self.check_may_wait()
        except ClientError:
            coroutine.close()
            raise
        self._call_all()
        return wait_for(self._unless_closed(coroutine))

    async def _unless_closed(self, awaitable: Awaitable[T]) -> T:
        """The result; `stop` interrupts the wait for it, as `asyncio.timeout` would."""
        task = asyncio.current_task()
        assert task is not None
        each = _Wait(task)
        self._waits.add(each)
        try:
            return await awaitable
        except asyncio.CancelledError:
            if each.was_closed():
                raise ClosedMeanwhile("this client was closed meanwhile") from None
            raise
        finally:
            self._waits.discard(each)

    def _run_from_thread(self, coroutine: Coroutine[Any, Any, T]) -> T:
        caller = threading.get_ident()
        if caller in self._interrupted:
            self._interrupted.discard(caller)
            coroutine.close()
            raise ClosedMeanwhile("the call was cancelled")
        return super().run(coroutine)

    def submit(self, coroutine: Coroutine[Any, Any, T], *, waits: bool = False) -> Future[T]:
        if self.is_inside:
            self._call_all()
        return super().submit(coroutine, waits=waits)

    def call_soon(self, function: Callable[..., object], *arguments: object) -> None:
        if not self.is_inside:
            super().call_soon(function, *arguments)
            return
        self._check()
        self._soon.append(lambda: function(*arguments))
        self._loop.call_soon(self._call_all)

    def call(self, function: Callable[[], T]) -> T:
        if not self.is_inside:
            return super().call(function)
        self.check_is_own()
        self._call_all()
        return function()

    def _call_all(self) -> None:
        """Call what was to be called soon, in order."""
        while self._soon:
            self._soon.popleft()()

    def stop(self) -> None:
        self._call_all()
        self._is_stopping = True
        for each in list(self._waits):
            each.close()

    def attach(self, each: Attached, *, keep: bool) -> None:
        """Have this one give up when the client is closed. If it is not kept, it may be dropped."""
        self._attached.add(each)
        if keep:
            self._kept.add(each)

    def detach(self, each: Attached) -> None:
        """Forget one that was closed."""
        self._attached.discard(each)
        self._kept.discard(each)

    async def give_up_attached(self) -> None:
        """Have all that are attached give up. Their errors are nobody's: the client is closed."""
        attached = [each.give_up() for each in list(self._attached)]
        await asyncio.gather(*attached, *self._ends, return_exceptions=True)

    async def settle(self) -> None:
        """Wait for the threads that still work for the client, which was stopped."""
        while self._works:
            for each in list(self._awaited):
                self._interrupt(each)
            await asyncio.wait(self._works, timeout=_INTERRUPT_AGAIN_S)

    # -- what else waits or takes long ---------------------------------------------------

    def condition(self) -> Condition:
        return _LoopCondition(self)

    def wait(self, futures: Sequence[Future[Any]]) -> None:
        if not self.is_inside:
            wait(futures)
            return
        for each in futures:
            self._call_all()
            if not each.done():
                wait_for(self._unless_closed(done_in_loop(each)))

    def compute(self, function: Callable[[], T], size_bytes: int) -> T:
        if size_bytes < _THREAD_FROM_BYTES or not self.is_inside:
            return function()
        return wait_for(self._in_pool(function))

    def iterate(self, items: Iterator[T], size_bytes: int) -> Iterator[T]:
        if size_bytes < _THREAD_FROM_BYTES or not self.is_inside:
            return items
        return self._iterate(items)

    def _iterate(self, items: Iterator[T]) -> Iterator[T]:
        end = object()
        while True:
            item = wait_for(self._in_pool(lambda: next(items, end)))
            if item is end:
                return
            yield item  # type: ignore[misc]

    async def _in_pool(self, function: Callable[[], T]) -> T:
        """The result of a function in a thread. It is done even if the caller is cancelled."""
        work = self.begin_work(function)
        try:
            return await shielded(work)
        finally:
            while not work.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([work])

    def begin_work(self, function: Callable[[], T]) -> asyncio.Future[T]:
        work = self._loop.run_in_executor(None, function)
        self._works.add(work)
        work.add_done_callback(self._works.discard)
        return work

    async def in_thread(self, function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """The result of a call in a thread. A cancellation interrupts it when it next waits."""
        self.check_is_own()
        caller: list[int] = []

        def call() -> T:
            caller.append(threading.get_ident())
            try:
                return function(*args, **options)
            finally:
                self._interrupted.discard(caller[0])

        work = self.begin_work(call)
        try:
            return await shielded(work)
        except asyncio.CancelledError:
            while not work.done():
                for each in caller:
                    self._interrupted.add(each)
                    self._interrupt(each)
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([work], timeout=_INTERRUPT_AGAIN_S)
            raise

    async def to_its_end(self, end: Coroutine[Any, Any, None]) -> None:
        """Await what must not stay half done: if the caller is cancelled, it goes on."""
        work = self._loop.create_task(end)
        self._ends.add(work)
        work.add_done_callback(self._ends.discard)
        await shielded(work)

    def in_order(
        self, work: Callable[[T], None], size_of: Callable[[T], int]
    ) -> Callable[[T], None]:
        return _Queue(self, work, size_of)

    def as_caller(self, function: Callable[..., object], *arguments: object) -> None:
        function(*arguments)


class _Wait:
    """A task that waits for the core."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task = task
        self._cancels_before = task.cancelling()
        self._is_closed = False

    def close(self) -> None:
        """Interrupt the wait, as the client is closed."""
        self._is_closed = True
        self._task.cancel()

    def was_closed(self) -> bool:
        """Whether a cancellation came from `close` alone; then the task is not cancelled."""
        return self._is_closed and self._task.uncancel() <= self._cancels_before


class _LoopCondition:
    """A condition of code in the loop, which nothing else changes: it guards by itself."""

    def __init__(self, loop: CallersLoop) -> None:
        self._loop = loop
        self._waiters: set[asyncio.Event] = set()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        if predicate():
            return True
        return self._loop.run(self._wait_for(predicate, timeout))

    async def _wait_for(self, predicate: Callable[[], bool], timeout: float | None) -> bool:
        changed = asyncio.Event()
        self._waiters.add(changed)
        try:
            async with asyncio.timeout(timeout):
                while not predicate():
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            return predicate()
        finally:
            self._waiters.discard(changed)
        return True

    def notify_all(self) -> None:
        if self._loop.is_inside:
            for each in self._waiters:
                each.set()
        elif self._loop.is_running:
            self._loop.call_soon(self.notify_all)


class _Queue(Generic[T]):
    """Work on items, in order: in the loop while they are small, else in a thread."""

    def __init__(
        self, loop: CallersLoop, work: Callable[[T], None], size_of: Callable[[T], int]
    ) -> None:
        self._loop = loop
        self._work = work
        self._size_of = size_of
        self._items: deque[T] = deque()
        self._is_working = False

    def __call__(self, item: T) -> None:
        if not self._is_working and self._size_of(item) < _THREAD_FROM_BYTES:
            self._work(item)
            return
        self._items.append(item)
        self._begin()

    def _begin(self) -> None:
        if self._items and not self._is_working:
            self._is_working = True
            self._loop.begin_work(self._work_all).add_done_callback(self._ended)

    def _work_all(self) -> None:
        while self._items:
            self._work(self._items.popleft())

    def _ended(self, _: object) -> None:
        self._is_working = False
        self._begin()
