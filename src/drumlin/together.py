"""Batching of questions: those asked while a request is in flight go into the next request.

Owns the order of the questions, and which caller waits for which answer. Never decides what a
request is, or whether it is retried: `send` does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

from drumlin.background import Background

Lane = TypeVar("Lane", bound=Hashable)
Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Together(Generic[Lane, Item, Answer]):
    """Batches questions by lane, such as a broker; each lane has one request in flight at a time.

    Args:
        send: sends the items of a lane in one request; returns the answers in their order.
        key: the key of an item; a request has no two items with the same key.
        size: the size of an item's part of a request; a request is not larger than `size_max`,
            unless a single item is.
        closed: the error for those still waiting at `close`.
    """

    def __init__(
        self,
        send: Callable[[Lane, Sequence[Item]], Awaitable[Sequence[Answer | Exception]]],
        key: Callable[[Item], Hashable] = id,
        size: Callable[[Item], int] = lambda _: 0,
        size_max: int = 0,
        closed: Callable[[], Exception] = asyncio.InvalidStateError,
    ) -> None:
        self._send, self._key, self._size, self._size_max = send, key, size, size_max
        self._closed = closed
        self._queues: dict[Lane, deque[tuple[Item, asyncio.Future[Answer]]]] = {}
        self._lanes = Background()

    def ask(self, lane: Lane, item: Item) -> asyncio.Future[Answer]:
        """Ask; the answer fails with the exception that `send` raises, or returns for the item."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        queue = self._queues.get(lane)
        if queue is None:
            queue = self._queues[lane] = deque()
            # Starts in the next turn of the loop: all questions of this turn share a request.
            self._lanes.spawn(self._ask_all(lane, queue))
        queue.append((item, answer))
        return answer

    async def settle(self) -> None:
        """Wait until all questions are answered."""
        await self._lanes.settle()

    async def close(self) -> None:
        """End all requests; those waiting for an answer get the error `closed`."""
        await self._lanes.end()

    async def _ask_all(self, lane: Lane, queue: deque[tuple[Item, asyncio.Future[Answer]]]) -> None:
        together: list[tuple[Item, asyncio.Future[Answer]]] = []
        try:
            while queue:
                together = self._take(queue)
                if not together:
                    continue
                try:
                    answers = await self._send(lane, [item for item, _ in together])
                except Exception as error:  # noqa: BLE001  passed on to those waiting
                    _fail(together, error)
                else:
                    for (_, waiting), answer in zip(together, answers, strict=True):
                        if waiting.done():
                            continue
                        if isinstance(answer, Exception):
                            waiting.set_exception(answer)
                        else:
                            waiting.set_result(answer)
        finally:
            del self._queues[lane]
            _fail([*together, *queue], self._closed())

    def _take(
        self, queue: deque[tuple[Item, asyncio.Future[Answer]]]
    ) -> list[tuple[Item, asyncio.Future[Answer]]]:
        """Take the items of the next request: as many from the front of the queue as fit."""
        together: list[tuple[Item, asyncio.Future[Answer]]] = []
        keys: set[Hashable] = set()
        size = 0
        while queue:
            item, waiting = queue[0]
            if waiting.done():  # its caller was cancelled
                queue.popleft()
                continue
            key = self._key(item)
            size += self._size(item)
            if together and (key in keys or size > self._size_max):
                break
            keys.add(key)
            together.append(queue.popleft())
        return together


def _fail(together: Sequence[tuple[object, asyncio.Future[Answer]]], error: Exception) -> None:
    for _, waiting in together:
        if not waiting.done():
            waiting.set_exception(error)
