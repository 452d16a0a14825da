"""Mistakes of a store that brokers of one machine share: the simulator must find them, too.

Each breaks one rule of the real `Controller`, or of the store that it has. No kill shows that a
reborn leader begins a new leader epoch, and that requests name a partition epoch: the end of a
broker is a new leader epoch, and who has left an ISR is in another broker epoch. They are for power
failures, and for log dirs that fail (`tests/metadata/test_conformance_of_brokers.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from drumlin.metadata.embedded.controller import Controller
from drumlin.metadata.embedded.partition_states import PartitionStates
from drumlin.metadata.embedded.sqlite import SqliteMetadata
from drumlin.metadata.image import PartitionId, PartitionState
from drumlin.metadata.rules import decisions, isr_requests
from drumlin.metadata.rules.leadership import Returned, settled
from replication.simulation.planted.mistakes import Replacement, check_no_process


async def _same_epoch(_: SqliteMetadata, __: int) -> int:
    return 1


async def _do_not_leave(_: Controller, __: int, ___: Mapping[PartitionId, Returned]) -> None:
    return None


_begin_states = PartitionStates.__init__


def _settle_by_anybody(
    state: PartitionState, alive: Collection[int], min_isr: int, *, may_be_unclean: bool = False
) -> PartitionState:
    del may_be_unclean
    return settled(state, alive, min_isr, may_be_unclean=True)


class _NoLock:
    async def __aenter__(self) -> None: ...
    async def __aexit__(self, *_: object) -> None: ...


def _side_by_side(self: PartitionStates, *arguments: Any) -> None:
    _begin_states(self, *arguments)
    self._turn = _NoLock()  # type: ignore[assignment]


async def _commit_later(self: SqliteMetadata, statements: Iterable[Any]) -> None:
    mutation = list(statements)

    async def commit() -> None:
        await asyncio.sleep(0.3)
        await self._commit_all(None, [mutation])

    asyncio.ensure_future(commit())  # noqa: RUF006


MACHINE_MISTAKES: dict[str, tuple[Replacement, ...]] = {
    "a request is not compared with the state": ((isr_requests, "check_request", lambda *_: None),),
    "the ISR grows by any process": ((isr_requests, "check_request", check_no_process),),
    "a reborn broker keeps its broker epoch": ((SqliteMetadata, "next_broker_epoch", _same_epoch),),
    "a reborn broker stays in the ISR": ((Controller, "leave", _do_not_leave),),
    "anybody is elected": ((decisions, "settled", _settle_by_anybody),),
    "changes are decided side by side": ((PartitionStates, "__init__", _side_by_side),),
    "a change is told of before it is stored": ((SqliteMetadata, "commit", _commit_later),),
}
