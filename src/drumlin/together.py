"""What is asked while a request is under way goes together into the next one.

Owns the order in which things are asked, and who waits for which answer. What a request is, and
whether it is sent again, is up to others.
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
    """Questions by lanes: in each of them one request at a time is under way.

    Handed in:
        send(lane, items): asks all of it with one request; the answers in the order of the items.
        key(item): of items with the same key, one goes into a request.
        size(item): of its part of a request; a request is no larger than `size_max`, unless one
            item alone is.
        closed(): the error of who waits when this is closed.
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
        """The answer to come; it fails with what `send` has raised, or says of the item."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        queue = self._queues.get(lane)
        if queue is None:
            queue = self._queues[lane] = deque()
            # It begins in the next turn of the loop: what is asked in this one goes along.
            self._lanes.spawn(self._ask_all(lane, queue))
        queue.append((item, answer))
        return answer

    async def settle(self) -> None:
        """Wait for all that is asked."""
        await self._lanes.settle()

    async def close(self) -> None:
        """Whoever waits for an answer gets the error that was handed in."""
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
                except Exception as error:  # noqa: BLE001  those who wait get it
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
        """What goes into the next request: the first of the queue, as far as they fit."""
        together: list[tuple[Item, asyncio.Future[Answer]]] = []
        keys: set[Hashable] = set()
        size = 0
        while queue:
            item, waiting = queue[0]
            if waiting.done():  # its caller has given up
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
