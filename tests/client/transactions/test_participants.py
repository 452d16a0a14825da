"""The partitions of a transaction, as a scripted coordinator refuses them."""

from __future__ import annotations

import asyncio
import gc
from typing import Any, cast

import pytest

from drumlin.client.transactions.participants import Participants
from drumlin.client.transactions.requests import OpenTransaction
from drumlin.wire.error_codes import ErrorCode, KafkaError


class _Refusing:
    """A coordinator that refuses each request, once it may answer."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def ask(self, *_: Any) -> None:
        self.asked.set()
        await self.may_answer.wait()
        raise KafkaError(ErrorCode.transactional_id_authorization_failed)


def test_a_refusal_that_nobody_waits_for_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        coordinator = _Refusing()
        participants = Participants(cast(Any, coordinator), OpenTransaction("an-id", 7, 0))
        waiting = asyncio.ensure_future(participants.add("a-topic", 0))
        await coordinator.asked.wait()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        coordinator.may_answer.set()
        for _ in range(5):
            await asyncio.sleep(0)
        with pytest.raises(KafkaError):  # whoever asks again is refused again
            await participants.add("a-topic", 0)

    asyncio.run(scenario())
    gc.collect()
    assert not caplog.messages
