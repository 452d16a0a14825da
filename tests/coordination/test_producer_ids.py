"""Producer ids: never twice, also when many ask at once, and after a crash."""

from __future__ import annotations

import asyncio

import pytest

from drumlin.coordination.producer_ids import ProducerIds
from drumlin.metadata.store.store import ProducerIdBlock
from drumlin.wire.error_codes import ErrorCode, KafkaError


class Store:
    """Hands out blocks of three; what is taken stays taken, as in a store on disk."""

    def __init__(self) -> None:
        self.blocks = 0
        self.broken = False

    async def next_block(self) -> ProducerIdBlock:
        await asyncio.sleep(0)
        if self.broken:
            raise KafkaError(ErrorCode.kafka_storage_error)
        self.blocks += 1
        return ProducerIdBlock((self.blocks - 1) * 3, 3)


def test_many_at_once_get_different_ones() -> None:
    async def run() -> None:
        store = Store()
        ids = ProducerIds(store.next_block)
        given = await asyncio.gather(*(ids.next_id() for _ in range(10)))
        assert sorted(given) == list(range(10))
        assert store.blocks == 4

    asyncio.run(run())


def test_a_crash_loses_ids_but_gives_none_twice() -> None:
    async def run() -> None:
        store = Store()
        first = await ProducerIds(store.next_block).next_id()
        second = await ProducerIds(store.next_block).next_id()
        assert (first, second) == (0, 3)

    asyncio.run(run())


def test_a_store_that_fails_is_asked_again() -> None:
    async def run() -> None:
        store = Store()
        ids = ProducerIds(store.next_block)
        store.broken = True
        with pytest.raises(KafkaError):
            await ids.next_id()
        store.broken = False
        assert await ids.next_id() == 0

    asyncio.run(run())
