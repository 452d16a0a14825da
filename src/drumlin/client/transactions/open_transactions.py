"""The open transactions of a client, which are aborted when the client is closed.

Kafka's own producer does the same. The abort has a time limit, as brokers may not answer: a
transaction that is not aborted by then is left to its timeout, with a log message. Nothing is
raised, as a client is often closed because of another exception.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from typing import Protocol

from drumlin.client.errors import ClientError
from drumlin.client.loops.core_loop import CoreLoop
from drumlin.client.transactions.errors import OutcomeUnknown, TransactionError
from drumlin.peer.retry import Deadline

_log = logging.getLogger(__name__)


class Abandoned(Protocol):
    """The methods of a transaction that this module uses."""

    @property
    def transactional_id(self) -> str: ...

    def _await_end(self, timeout_ms: float) -> None:
        """Wait if a thread is ending the transaction."""

    async def _abandon(self) -> bool:
        """In the loop: abort the transaction if it is open and no thread is ending it.

        Returns whether there was anything to abort. Raises as an abort does.
        """


class OpenTransactions:
    """The last transaction of each transactional id. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_id: dict[str, Abandoned] = {}

    def add(self, transaction: Abandoned) -> None:
        """Note that a transaction has begun, which fences the earlier one of the same id."""
        with self._lock:
            self._by_id[transaction.transactional_id] = transaction

    def discard(self, transaction: Abandoned) -> None:
        """Note that a transaction has ended."""
        with self._lock:
            if self._by_id.get(transaction.transactional_id) is transaction:
                del self._by_id[transaction.transactional_id]

    def abort(self, thread: CoreLoop, limit_ms: float) -> None:
        """Abort all open transactions, as the client is being closed."""
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
            _log.warning("transaction %r: aborted, as it was open when its client was closed", name)
        elif isinstance(end, asyncio.CancelledError | ClientError) and not _is_over(end):
            why = str(end) or "no answer in time"
            _log.warning(
                "transaction %r: not aborted by its closed client, left to its timeout: %s",
                name,
                why,
            )


def _is_over(error: BaseException) -> bool:
    return isinstance(error, TransactionError) and not isinstance(error, OutcomeUnknown)
