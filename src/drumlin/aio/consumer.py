"""A consumer, in the caller's loop."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from drumlin.aio.as_in_sync import at_once, awaited, like
from drumlin.aio.callers_loop import CallersLoop
from drumlin.aio.waiting_code import waiting
from drumlin.client.consumer import consumer
from drumlin.client.errors import ClientError
from drumlin.client.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa


class Consumer:
    """A consumer. Use it in an `async with`, or `close` it before its client.

    One task at a time may poll or iterate. Callbacks run in that task; they may be coroutine
    functions, which are awaited, and may use the consumer but not poll.
    """

    def __init__(self, loop: CallersLoop, core: consumer.Consumer) -> None:
        self._loop = loop
        self._core = core
        loop.attach(self, keep=True)  # its tasks run until it is closed

    poll = awaited(consumer.Consumer.poll)
    commit = awaited(consumer.Consumer.commit)
    committed = awaited(consumer.Consumer.committed)
    position = awaited(consumer.Consumer.position)

    positions = at_once(consumer.Consumer.positions)
    group_metadata = at_once(consumer.Consumer.group_metadata)
    seek = at_once(consumer.Consumer.seek)
    pause = at_once(consumer.Consumer.pause)
    resume = at_once(consumer.Consumer.resume)
    lag = at_once(consumer.Consumer.lag)

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that this consumer reads now."""
        return self._core.assignment

    @property
    def has_assignment(self) -> bool:
        """Whether this consumer has ever had an assignment, even an empty one."""
        return self._core.has_assignment

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The paused partitions: `poll` returns no records from them."""
        return self._core.paused

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> pa.RecordBatch:
        batch = await waiting(next, self._core, None)
        if batch is None:
            raise StopAsyncIteration
        return batch

    @like(consumer.Consumer.close)
    async def close(self, *, leave: bool | None = None) -> None:
        await self._end(lambda: self._core.close(leave=leave))

    async def _end(self, close: Callable[[], None]) -> None:
        self._loop.detach(self)
        await self._loop.to_its_end(waiting(close))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._end(lambda: self._core.__exit__(kind, error, traceback))

    async def give_up(self) -> None:
        """Leave the group, as the client is closed: as if the block had raised."""
        await self._end(lambda: self._core.__exit__(ClientError))

    def __repr__(self) -> str:
        return repr(self._core).replace("drumlin.Consumer", "drumlin.aio.Consumer")
