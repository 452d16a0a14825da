"""One transaction, in the caller's loop."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from drumlin.aio.as_in_sync import awaited, opened
from drumlin.aio.callers_loop import CallersLoop
from drumlin.aio.waiting_code import waiting
from drumlin.aio.writer import Writer
from drumlin.client.transactions import transaction


class Transaction:
    """One transaction. In an `async with` it commits, or aborts if the block raises.

    A cancelled block raises, too. `state` is as with the synchronous client's.
    """

    def __init__(self, loop: CallersLoop, core: transaction.Transaction) -> None:
        self._loop = loop
        self._core = core

    append = awaited(transaction.Transaction.append)
    writer = opened(transaction.Transaction.writer, Writer)
    send_offsets = awaited(transaction.Transaction.send_offsets)
    commit = awaited(transaction.Transaction.commit)
    abort = awaited(transaction.Transaction.abort)

    @property
    def transactional_id(self) -> str:
        """The transactional id with which this transaction was begun."""
        return self._core.transactional_id

    @property
    def producer_id(self) -> int:
        """The producer id that the coordinator has assigned to the transactional id."""
        return self._core.producer_id

    @property
    def epoch(self) -> int:
        """The producer epoch, which fences all earlier producers of the transactional id."""
        return self._core.epoch

    @property
    def timeout_ms(self) -> int:
        """The time from the first write after which the broker aborts an open transaction."""
        return self._core.timeout_ms

    @property
    def state(self) -> str:
        """ "open", or the outcome."""
        return self._core.state

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await waiting(self._core.__exit__, kind, error, traceback)

    def __repr__(self) -> str:
        return repr(self._core)
