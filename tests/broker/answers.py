"""What a router answers, now or later."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from drumlin.broker.loop.later import Later

T = TypeVar("T")


async def answer_of(started: T | Later[T], timeout_s: float = 20.0) -> T:
    """An answer, waited for where it comes later."""
    if not isinstance(started, Later):
        return started
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def take(later: Later[T]) -> None:
        try:
            future.set_result(later.result())
        except Exception as error:
            future.set_exception(error)

    started.when_settled(take)
    return await asyncio.wait_for(future, timeout_s)


def content_of(parts: Any) -> bytes:
    """The bytes of an answer, whose files are let go."""
    content = []
    for part in parts:
        if hasattr(part, "fileno"):
            content.append(part.read())
            part.release()
        else:
            content.append(bytes(part))
    frame = b"".join(content)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return frame
