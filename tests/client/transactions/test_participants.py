"""The partitions of a transaction, whose callers may have given up when the coordinator answers."""

from __future__ import annotations

import asyncio
import gc
from typing import Any, cast

import pytest

from drumlin.client.transactions.coordinator import TransactionCoordinator
from drumlin.client.transactions.participants import Participants
from drumlin.client.transactions.requests import OpenTransaction
from drumlin.wire.error_codes import ErrorCode, KafkaError


class _Coordinator:
    """It refuses every request once it `may_answer`."""

    def __init__(self) -> None:
        self.may_answer, self.is_asked = asyncio.Event(), asyncio.Event()

    async def ask(self, *_: Any) -> Any:
        self.is_asked.set()
        await self.may_answer.wait()
        raise KafkaError(ErrorCode.invalid_txn_state, "refused")


def _participants(coordinator: _Coordinator) -> Participants:
    identity = OpenTransaction("an-id", 7, 0)
    return Participants(cast("TransactionCoordinator", coordinator), identity)


def test_a_refusal_for_which_no_caller_waits_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def give_up() -> None:
        coordinator = _Coordinator()
        adding = asyncio.create_task(_participants(coordinator).add("t", 0))
        await coordinator.is_asked.wait()
        adding.cancel()
        await asyncio.wait([adding])
        coordinator.may_answer.set()
        for _ in range(5):  # the refusal arrives in a later turn
            await asyncio.sleep(0)

    asyncio.run(give_up())
    gc.collect()
    assert "never retrieved" not in caplog.text


def test_closing_ends_an_addition_that_is_not_yet_sent() -> None:
    async def close_at_once() -> None:
        participants = _participants(_Coordinator())
        adding = asyncio.create_task(participants.add("t", 0))
        await asyncio.sleep(0)  # it is wanted, and the request is sent in the next turn
        participants.close()
        async with asyncio.timeout(20):
            await asyncio.wait([adding])
        assert adding.cancelled()

    asyncio.run(close_at_once())
