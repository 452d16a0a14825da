"""Batching of questions: those asked while a request is in flight share the next request.

Owns the order of questions, and the assignment of answers to callers. Requests and retries are up
to `send`.
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
    """Batches questions by lane, such as a broker. Each lane has at most one request in flight.

    Args:
        send: sends the items of a lane in one request; returns the answers in the same order.
        key: the key of an item; no two items of a request have the same key.
        size: the size of an item's part of a request. A request is at most `size_max` large, unless
            it has a single item.
        closed: the error for callers still waiting at `close`.
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
        """Ask a question. Awaiting the answer raises the exception that `send` raises, or returns
        for the item.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        queue = self._queues.get(lane)
        if queue is None:
            queue = self._queues[lane] = deque()
            # Starts in the next turn of the loop, so all questions of this turn share a request.
            self._lanes.spawn(self._ask_all(lane, queue))
        queue.append((item, answer))
        return answer

    async def settle(self) -> None:
        """Wait until all questions are answered."""
        await self._lanes.settle()

    async def close(self) -> None:
        """End all requests; callers waiting for an answer get the error `closed`."""
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
        """Take the items of the next request from the front of the queue, as many as fit."""
        together: list[tuple[Item, asyncio.Future[Answer]]] = []
        keys: set[Hashable] = set()
        size = 0
        while queue:
            item, waiting = queue[0]
            if waiting.done():  # the caller was cancelled
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
