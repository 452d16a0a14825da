"""Calls that are cancelled at random moments: nothing is lost silently or doubled."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import drumlin
from aio.conftest import Scenario
from drumlin import aio
from drumlin.client.transactions.errors import OutcomeUnknown


async def _cut(call: Coroutine[Any, Any, Any], longest_s: float) -> bool:
    """Await a call that is cancelled at a random moment; returns whether it was done before."""
    try:
        async with asyncio.timeout(random.random() * longest_s):
            await call
    except TimeoutError:
        return False
    return True


async def _values(client: aio.Client, topic: str, **options: Any) -> Counter[int]:
    table = await client.read(topic, decode="utf8", **options)
    return Counter(int(value) for value in table["value"].to_pylist())


def test_sends(run: Callable[[Scenario], None]) -> None:
    async def scenario(client: aio.Client, topic: str) -> None:
        accepted, acknowledged = set(), set()
        padding = " " * 1000

        async def send(number: int) -> None:
            delivery = await writer.send(f"{number}{padding}", key=f"{number}")
            accepted.add(number)
            await delivery
            acknowledged.add(number)

        async with client.writer(topic, linger_ms=1, buffer_bytes=20_000) as writer:
            await asyncio.gather(*(_cut(send(number), 0.2) for number in range(1000)))
            assert await _cut(writer.flush(), 60)
        assert acknowledged < accepted
        assert await _values(client, topic) == Counter(accepted)

    run(scenario)


def test_appends(run: Callable[[Scenario], None]) -> None:
    """What a cancelled append has handed over is written once, whole batches of it."""

    async def scenario(client: aio.Client, topic: str) -> None:
        done = []
        for each in range(30):
            numbers = range(each * 1000, each * 1000 + 1000)
            rows = {"value": [f"{number:50}" for number in numbers], "p": [each % 2] * 1000}
            append = client.append(rows, topic, partition="p", batch_bytes=5000)
            if await _cut(append, 0.04):
                done += numbers
        await client.append({"value": ["-1", "-2"], "p": [0, 1]}, topic, partition="p")
        found = await _values(client, topic)
        assert set(found.values()) == {1}
        assert found.keys() >= {*done, -1, -2}
        for partition in range(2):
            offsets = await client.read(topic, [partition], decode="utf8")
            values = [int(value) for value in offsets["value"].to_pylist()]
            assert values[:-1] == sorted(values[:-1])
            assert values[-1] == -1 - partition

    run(scenario)


def test_polls(run: Callable[[Scenario], None]) -> None:
    """Neither a record nor a rebalance is lost, with a second member that comes and goes."""

    async def scenario(client: aio.Client, topic: str) -> None:
        await client.append({"value": [f"{each}" for each in range(3000)]}, topic)
        found: Counter[int] = Counter()

        async def consume() -> None:
            options = {"group": topic, "max_records": 50, "commit_interval_ms": None}
            async with client.consumer([topic], **options, decode="utf8") as consumer:
                while len(found) < 3000:

                    async def poll() -> None:
                        batch = await consumer.poll()
                        if batch is not None:
                            found.update(int(value) for value in batch["value"].to_pylist())

                    await _cut(poll(), 0.005)
                    if random.random() < 0.1:
                        await _cut(consumer.commit(), 0.005)
                await consumer.commit()

        async with asyncio.timeout(60):
            await asyncio.gather(consume(), consume())
        ends = await client.offsets(topic)
        committed = await client.committed_offsets(topic)
        assert {place.partition: each.offset for place, each in committed.items()} == ends
        # Revoked before it was committed: at least once. Without the second member, exactly once.
        places = [(topic, each) for each in range(3)]
        async with client.consumer(assign=places, max_records=50) as consumer:
            consumed: list[bytes] = []
            while len(consumed) < 3000:

                async def poll() -> None:
                    batch = await consumer.poll()
                    assert batch is not None
                    consumed.extend(batch["value"].to_pylist())

                await _cut(poll(), 0.005)
        assert len(set(consumed)) == 3000

    run(scenario)


def test_iterations(run: Callable[[Scenario], None]) -> None:
    async def scenario(client: aio.Client, topic: str) -> None:
        await client.append({"value": [f"{each}" for each in range(5000)]}, topic, batch_bytes=2000)
        found = []
        batches = client.read_batches(topic, max_bytes_per_batch=4000, decode="utf8")

        async def step() -> None:
            try:
                batch = await anext(batches)
            except StopAsyncIteration:
                found.append(-1)
            else:
                found.extend(int(value) for value in batch["value"].to_pylist())

        while -1 not in found:
            await _cut(step(), 0.003)
        assert sorted(found) == [*range(-1, 5000)]

    run(scenario)


def test_transactions(run: Callable[[Scenario], None]) -> None:
    """All of one that was committed is there, and nothing of another."""

    async def scenario(client: aio.Client, topic: str) -> None:
        written: list[int] = []

        async def write(first: int) -> None:
            numbers = range(first, first + 20)
            rows = {"value": [f"{each}" for each in numbers]}
            transaction = await client.transaction(topic)
            try:
                async with transaction:
                    await transaction.append(rows, topic)
                    writer = await transaction.writer(topic)
                    await writer.send(f"{first + 20}")
                    await transaction.send_offsets({(topic, 0): first}, topic)
            finally:
                while transaction.state == "unknown":  # cancelled while it was committed
                    try:
                        await transaction.commit()
                    except OutcomeUnknown:
                        continue
                if transaction.state == "committed":
                    written.extend([*numbers, first + 20])

        await write(0)
        started = time.monotonic()
        await write(100)
        longest_s = 2 * (time.monotonic() - started)
        cuts = {True: 0, False: 0}
        first = 200
        while min(cuts.values()) < 5:
            cuts[await _cut(write(first), longest_s)] += 1
            first += 100
        async with client.transaction(topic) as transaction:
            await transaction.append({"value": ["-1"]}, topic)
        values = await _values(client, topic, isolation="read_committed")
        assert values == Counter([*written, -1])

    run(scenario)


@pytest.mark.deep
def test_the_client_is_as_good_as_new(run: Callable[[Scenario], None]) -> None:
    async def scenario(client: aio.Client, topic: str) -> None:
        async def calls(number: int) -> None:
            name = f"{topic}-{number}"
            await client.create_topic(name)
            await client.topic_configs(name)
            async with client.transaction(name) as transaction:
                await transaction.append({"value": ["x"]}, name)
            async with client.consumer([name], group=name) as consumer:
                await consumer.poll()
            await client.snapshot(name)
            await client.delete_topic(name)

        for each in range(8):
            await _cut(calls(each), 0.3)
        await calls(100)
        with drumlin.connect(client._core.bootstrap) as other:
            assert other.list_topics(f"{topic}-.*") == await client.list_topics(f"{topic}-.*")

    run(scenario)
