"""Calls that are cancelled at each of their steps: nothing is lost, doubled or left."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from aio.conftest import Scenario
from aio.steps import cut_at_every_step
from drumlin import aio
from drumlin.client.transactions.errors import OutcomeUnknown
from rig.brokers.drumlin_server import DrumlinServer


async def _some(items: AsyncIterator[Any]) -> None:
    """Take a few items, and leave the others."""
    count = 0
    async for _ in items:
        count += 1
        if count == 3:
            break


async def _values(client: aio.Client, topic: str) -> Counter[str]:
    table = await client.read(topic, decode="utf8", isolation="read_committed")
    return Counter(table["value"].to_pylist())


def test_reading(run: Callable[[Scenario], None]) -> None:
    async def scenario(client: aio.Client, topic: str) -> None:
        rows = {"value": [f"{each}" for each in range(300)]}
        await client.append(rows, topic, batch_bytes=500)
        small = {"max_bytes_per_batch": 500}
        await cut_at_every_step(lambda: client.read(topic, **small))  # type: ignore[arg-type]
        await cut_at_every_step(lambda: _some(client.read_batches(topic, **small)))  # type: ignore[arg-type]
        await cut_at_every_step(lambda: client.snapshot(topic))

    run(scenario)


def test_polling(run: Callable[[Scenario], None]) -> None:
    async def scenario(client: aio.Client, topic: str) -> None:
        found: list[str] = []

        async def poll() -> None:
            batch = await consumer.poll(timeout_ms=5_000)
            assert batch is not None
            found.extend(batch["value"].to_pylist())

        numbers = [f"{each}" for each in range(600)]
        await client.append({"value": numbers}, topic, batch_bytes=500)
        places = [(topic, each) for each in range(3)]
        async with client.consumer(assign=places, max_records=7, decode="utf8") as consumer:
            await cut_at_every_step(poll)
            while len(found) < len(numbers):
                await poll()
        assert Counter(found) == Counter(numbers)

    run(scenario)


@pytest.mark.deep
def test_writing(run: Callable[[Scenario], None]) -> None:
    async def scenario(client: aio.Client, topic: str) -> None:
        number = itertools.count()
        accepted: list[str] = []

        async def append() -> None:
            values = [f"{next(number)}" for _ in range(100)]
            await client.append({"value": values}, topic, batch_bytes=500)
            accepted.extend(values)

        await cut_at_every_step(append)
        found = await _values(client, topic)
        assert set(found.values()) == {1}
        assert found.keys() >= set(accepted)
        other = f"{topic}-sent"
        await client.create_topic(other)
        accepted.clear()

        async def send() -> None:
            async with client.writer(other, linger_ms=1, buffer_bytes=2_000) as writer:
                for _ in range(5):
                    value = f"{next(number):500}"
                    delivery = await writer.send(value)
                    accepted.append(value)
                await delivery
                await writer.flush()

        await cut_at_every_step(send)
        async with client.writer(other) as writer:  # it comes after what others have sent
            await writer.send("the last")
        assert await _values(client, other) == Counter([*accepted, "the last"])

    run(scenario)


@pytest.mark.deep
def test_transactions(run: Callable[[Scenario], None]) -> None:
    async def scenario(client: aio.Client, topic: str) -> None:
        number = itertools.count()
        committed: list[str] = []
        begun: list[tuple[aio.Transaction, list[str]]] = []

        async def write() -> None:
            values = [f"{next(number)}" for _ in range(3)]
            async with client.transaction(topic) as transaction:
                begun.append((transaction, values))
                await transaction.append({"value": values[:2]}, topic)
                writer = await transaction.writer(topic)
                await writer.send(values[2])
                await transaction.send_offsets({(topic, 0): 1}, topic)

        async def check(is_done: bool) -> None:
            while begun:
                transaction, values = begun.pop()
                for _ in range(20):
                    if transaction.state != "unknown":
                        break
                    try:
                        await transaction.commit()
                    except OutcomeUnknown:
                        continue
                assert transaction.state in ("committed", "aborted")
                assert transaction.state == "committed" or not is_done
                committed.extend(values if transaction.state == "committed" else ())

        await cut_at_every_step(write, check)
        await client.transaction(topic)  # aborts what is open
        assert await _values(client, topic) == Counter(committed)

    run(scenario)


@pytest.mark.deep
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups(run: Callable[[Scenario], None], protocol: Any) -> None:
    """No member is left in the group."""

    async def scenario(client: aio.Client, topic: str) -> None:
        async def consume() -> None:
            options: dict[str, Any] = {"max_records": 1, "idle_timeout_ms": 200}
            async with client.consumer(
                [topic], group=topic, protocol=protocol, **options
            ) as consumer:
                async for _ in consumer:
                    await consumer.commit()
                    break

        await client.append({"value": ["x"] * 1000}, topic)
        await cut_at_every_step(consume)
        assert (await client.describe_group(topic)).members == ()

    run(scenario)


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_connecting(group_broker: DrumlinServer) -> None:
    """No descriptor is left."""

    async def connect() -> None:
        async with aio.connect(group_broker.address) as client:
            await client.list_topics()

    async def main() -> None:
        await connect()
        before = _descriptors()
        await cut_at_every_step(connect)
        assert _descriptors() == before

    asyncio.run(main())
