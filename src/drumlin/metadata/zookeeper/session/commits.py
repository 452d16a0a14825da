"""Reads and transactions for the event loop, made in one thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from drumlin.metadata.zookeeper.session.failures import client_error, translated
from drumlin.metadata.zookeeper.session.session import Conflict, Session
from drumlin.metadata.zookeeper.znodes.operations import Fence, Operation, Transaction, transactions
from drumlin.ready_threads import ready_threads
from drumlin.together import Together
from drumlin.zookeeper.connection import ZooKeeperFailure

T = TypeVar("T")
#: The number of attempts of a mutation that conflicts with others.
ATTEMPTS: Final = 10


class Commits:
    """The thread that uses one store's session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._thread = ready_threads(1, "metadata")
        self._is_closed = False
        self._together: Together[None, Transaction, None] = Together(self._commit_all)

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """The result of `function`, called in the thread with the session and `args`.

        Raises:
            ZooKeeperFailure: the session has been closed.
        """
        return await self._in_thread(function, self.session, *args)

    async def commit(self, operations: Iterable[Operation], fence: Fence) -> None:
        """Commit all operations of a mutation, together with other waiting mutations.

        If they need several transactions, the first ones may be committed even if this raises.

        Raises:
            Conflict: a node is not as expected; if that is a node of the first transaction, nothing
                was done.
            KafkaError: KAFKA_STORAGE_ERROR: the outcome is unknown; NOT_CONTROLLER: nothing was
                done.
        """
        for each in await self._transactions(operations, fence):
            await self._together.ask(None, each)

    async def commit_first(self, operations: Iterable[Operation], fence: Fence) -> frozenset[str]:
        """Like `commit`, for the operations that fit into one transaction; returns the paths of the
        others.
        """
        first, *others = await self._transactions(operations, fence)
        await self._together.ask(None, first)
        return frozenset(each.path for part in others for each in part)

    async def _transactions(
        self, operations: Iterable[Operation], fence: Fence
    ) -> list[list[Operation]]:
        return await translated(self._in_thread(_listed, operations, fence))

    async def _commit_all(
        self, _: None, waiting: Sequence[Transaction]
    ) -> Sequence[Exception | None]:
        outcomes = await translated(self.run(_commit_all, waiting))
        return [None if each is None else client_error(each) for each in outcomes]

    async def _in_thread(self, function: Callable[..., T], *args: Any) -> T:
        if self._is_closed:
            raise ZooKeeperFailure("the broker has closed its session with ZooKeeper")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, function, *args)

    async def close(self) -> None:
        """Close the session after the requests in progress; refuse later ones."""
        self.session.stop_waiting()
        await self._together.settle()
        self._is_closed = True
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self.session.close)
        self._thread.shutdown()


def _listed(operations: Iterable[Operation], fence: Fence) -> list[list[Operation]]:
    return list(transactions(operations, fence.checks))


def _commit_all(
    session: Session, transactions: Sequence[Transaction]
) -> list[Conflict | ZooKeeperFailure | None]:
    return session.commit_all(transactions)
