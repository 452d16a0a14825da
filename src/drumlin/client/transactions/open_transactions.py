"""Transactions that are not ended yet: when their client is closed, they are aborted.

Kafka's own producer does the same. Brokers have to answer, so there is a time limit: a transaction
that is not aborted by then is left to its time-out, and that is logged. Nothing is raised, as a
client is often closed because of another exception.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from typing import Protocol

from drumlin.client.errors import ClientError
from drumlin.client.loop_thread import LoopThread
from drumlin.client.transactions.errors import OutcomeUnknown, TransactionError
from drumlin.peer.retry import Deadline

_log = logging.getLogger(__name__)


class Abandoned(Protocol):
    """A transaction, as far as this module knows it."""

    @property
    def transactional_id(self) -> str: ...

    def _await_end(self, timeout_ms: float) -> None:
        """If a thread is about to end it, wait for that."""

    async def _abandon(self) -> bool:
        """In the loop: abort it, if it is open and no thread is about to end it.

        Tells whether there was anything to abort. Raises as an abort does.
        """


class OpenTransactions:
    """The last transaction of each id. May be used by all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_id: dict[str, Abandoned] = {}

    def add(self, transaction: Abandoned) -> None:
        """Note that it has begun, which fences an earlier one under the same id."""
        with self._lock:
            self._by_id[transaction.transactional_id] = transaction

    def discard(self, transaction: Abandoned) -> None:
        """Note that it has ended."""
        with self._lock:
            if self._by_id.get(transaction.transactional_id) is transaction:
                del self._by_id[transaction.transactional_id]

    def abort(self, thread: LoopThread, limit_ms: float) -> None:
        """The client is being closed."""
        deadline = Deadline(limit_ms)
        with self._lock:
            left = list(self._by_id.values())
        for each in left:
            each._await_end(deadline.remaining_s * 1000)
        if left:
            thread.run(_abort(left, deadline))


async def _abort(transactions: Sequence[Abandoned], deadline: Deadline) -> None:
    aborts = [asyncio.ensure_future(each._abandon()) for each in transactions]
    _, late = await asyncio.wait(aborts, timeout=deadline.remaining_s)
    for abort in late:
        abort.cancel()
    ends = await asyncio.gather(*aborts, return_exceptions=True)
    for transaction, end in zip(transactions, ends, strict=True):
        name = transaction.transactional_id
        if end is True:
            _log.warning("transaction %r: open when its client was closed, and so aborted", name)
        elif isinstance(end, asyncio.CancelledError | ClientError) and not _is_over(end):
            why = str(end) or "no answer in time"
            _log.warning(
                "transaction %r: left to its time-out, its client is closed: %s", name, why
            )


def _is_over(error: BaseException) -> bool:
    return isinstance(error, TransactionError) and not isinstance(error, OutcomeUnknown)
