"""Every kind of call of `drumlin.aio`, against a real broker."""

from __future__ import annotations

import asyncio
import contextvars
import uuid
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from aio.conftest import Scenario
from drumlin import aio
from drumlin.client.errors import BrokerUnreachable, ClientError, DeliveryFailed, UnknownTopic
from drumlin.client.transactions.errors import TransactionOver
from rig.brokers.drumlin_server import DrumlinServer
from rig.ports import free_ports


def _rows(count: int, size_bytes: int = 10) -> dict[str, list[Any]]:
    return {
        "key": [f"{each}" for each in range(count)],
        "value": [f"{each}".ljust(size_bytes) for each in range(count)],
    }


def test_topics_and_groups(run: Callable[[Scenario], None]) -> None:
    async def scenario(client: aio.Client, topic: str) -> None:
        assert topic in await client.list_topics("aio-.*")
        assert not await client.create_topic(topic, if_not_exists=True)
        assert await client.offsets(topic) == {0: 0, 1: 0, 2: 0}
        await client.commit_offsets(topic, {(topic, 0): 0})
        assert (await client.describe_group(topic)).state == "Empty"
        await client.delete_group(topic)
        with pytest.raises(UnknownTopic):
            await client.describe_topics(["missing"])
        with pytest.raises(TypeError, match="it is called 'partitions' here"):
            await client.create_topic(topic, num_partitions=3)
        await client.delete_topic(topic)

    run(scenario)


def test_appending_and_reading(run: Callable[[Scenario], None]) -> None:
    async def scenario(client: aio.Client, topic: str) -> None:
        report = await client.append(_rows(1000, 1000), topic, compression="lz4")
        assert report.record_count == 1000
        table = await client.read(topic, decode="utf8")
        assert sorted(table["key"].to_pylist()) == sorted(f"{each}" for each in range(1000))
        pieces = [each async for each in client.read_batches(topic, max_bytes_per_batch=1 << 16)]
        assert len(pieces) >= 3
        assert pa.Table.from_batches(pieces).num_rows == 1000
        records = [each async for some in client.read_records(topic) for each in some]
        assert len({each.key for each in records}) == 1000
        some = [each.num_rows async for each in client.read_range(topic, 0, 0, 10)]
        assert sum(some) == 10
        assert (await client.snapshot(topic)).num_rows == 1000
        states = [each.num_rows async for each in client.snapshot_batches(topic)]
        assert sum(states) == 1000
        assert (await client.restore(topic, f"{topic}-then")).record_count == 1000
        with pytest.raises(ValueError, match="start"):
            client.read_batches(topic, start="yesterday")  # type: ignore[arg-type]

    run(scenario)


def test_an_iteration_that_is_left(run: Callable[[Scenario], None]) -> None:
    """It fetches no more: by `break`, by `aclose`, or as the client is closed."""

    async def scenario(client: aio.Client, topic: str) -> None:
        await client.append(_rows(1000, 1000), topic)
        async for _ in client.read_batches(topic, max_bytes_per_batch=1 << 16):
            break
        batches = client.read_batches(topic, max_bytes_per_batch=1 << 16)
        await anext(batches)
        await batches.aclose()
        assert [each async for each in batches] == []
        global left
        left = client.read_batches(topic, max_bytes_per_batch=1 << 16)
        await anext(left)

    run(scenario)
    with pytest.raises(ClientError, match="closed"):
        asyncio.run(anext(left))  # type: ignore[arg-type]


def test_a_writer(run: Callable[[Scenario], None]) -> None:
    async def scenario(client: aio.Client, topic: str) -> None:
        told = []
        async with client.writer(
            topic,
            batch_bytes=200_000,
            buffer_bytes=400_000,
            on_delivery=lambda *each: told.append(each),
        ) as writer:
            for each in range(2_000):
                delivery = await writer.send(b"x" * 1000, key=f"{each}")
            await writer.flush()
            assert delivery.done()
            assert writer.acknowledged == 2_000
            with pytest.raises(ValueError, match="has no partition 3"):
                await writer.send("x", partition=3)
            await client.add_partitions(topic, 4)
            placed = await (await writer.send("x", partition=3))
            assert (placed.topic, placed.partition, placed.offset) == (topic, 3, 0)
            with pytest.raises(ClientError, match="await"):
                (await writer.send("x")).result()
        assert len(told) == 2_002
        with pytest.raises(ClientError, match="this writer is closed"):
            await writer.send("x")
        table = await client.read(topic, decode="utf8")
        for partition in range(3):
            rows = table.filter(pa.compute.equal(table["partition"], partition))
            keys = [int(key) for key in rows["key"].to_pylist() if key is not None]
            assert keys == sorted(keys)  # in order, although large batches are encoded elsewhere

    run(scenario)


def test_a_consumer(run: Callable[[Scenario], None]) -> None:
    async def scenario(client: aio.Client, topic: str) -> None:
        assigned: list[Any] = []

        async def on_assigned(partitions: Any) -> None:
            await asyncio.sleep(0)
            assigned.extend(partitions)
            seen.append(_variable.get())

        seen: list[str] = []
        _variable.set("the task's")
        await client.append(_rows(100), topic)
        consumer = await client.consumer([topic], group=topic, on_assigned=on_assigned)
        batch = await consumer.poll()
        assert batch is not None
        assert len(assigned) == 3
        assert seen == ["the task's"]
        assert consumer.assignment == set(assigned)
        consumer.pause()
        assert await consumer.poll(timeout_ms=10) is None
        consumer.resume()
        consumer.seek(topic, 0, "earliest")
        assert await consumer.position(topic, 0) == 0
        await consumer.commit({(topic, 0): 1})
        assert (await consumer.committed([(topic, 0)]))[topic, 0].offset == 1
        await consumer.close()
        async with client.consumer([topic], idle_timeout_ms=200) as consumer:
            keys = [each async for batch in consumer for each in batch["key"].to_pylist()]
        assert len(set(keys)) == len(keys) == 100

    run(scenario)


_variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")


def test_a_consumer_that_is_left_open(run: Callable[[Scenario], None]) -> None:
    async def scenario(client: aio.Client, topic: str) -> None:
        global left
        left = await client.consumer([topic], group=topic)
        assert await left.poll(timeout_ms=50) is None

    run(scenario)
    with pytest.raises(ClientError, match="closed"):
        asyncio.run(left.poll())


def test_transactions(run: Callable[[Scenario], None]) -> None:
    async def scenario(client: aio.Client, topic: str) -> None:
        async with client.transaction(topic) as transaction:
            await transaction.append(_rows(10), topic)
            writer = await transaction.writer(topic)
            await writer.send("by itself")
            await transaction.send_offsets({(topic, 0): 5}, topic)
        assert transaction.state == "committed"
        with pytest.raises(TransactionOver):
            await transaction.append(_rows(1), topic)
        with pytest.raises(ZeroDivisionError):
            async with client.transaction(topic) as transaction:
                await transaction.append(_rows(10), topic)
                raise ZeroDivisionError
        assert transaction.state == "aborted"
        assert (await client.read(topic, isolation="read_committed")).num_rows == 11
        assert (await client.committed_offsets(topic, require_stable=True))[topic, 0].offset == 5
        global left
        left = await client.transaction(topic)
        await left.append(_rows(10), topic)

    run(scenario)
    assert left.state == "aborted"


def test_calls_at_the_same_time(run: Callable[[Scenario], None]) -> None:
    """They wait together, and the loop turns meanwhile."""

    async def scenario(client: aio.Client, topic: str) -> None:
        await asyncio.gather(*(client.append(_rows(10), topic) for _ in range(50)))
        tables = await asyncio.gather(*(client.read(topic) for _ in range(20)))
        assert {each.num_rows for each in tables} == {500}
        places = [(topic, each) for each in range(3)]
        consumers = [await client.consumer(assign=places, start="latest") for _ in range(20)]
        polls = [asyncio.ensure_future(each.poll()) for each in consumers]
        with pytest.raises(ClientError, match="polled"):
            await asyncio.sleep(0)
            await consumers[0].poll()
        await asyncio.gather(*(each.position(topic, 0) for each in consumers))
        await client.append({"value": ["x"], "p": [0]}, topic, partition="p")
        batches = await asyncio.gather(*polls)
        assert [each.num_rows for each in batches] == [1] * 20

    run(scenario)


def test_a_client_that_is_closed_meanwhile(group_broker: DrumlinServer) -> None:
    async def main() -> None:
        client = await aio.connect(group_broker.address)
        topic = f"aio-{uuid.uuid4().hex[:12]}"
        await client.create_topic(topic)
        consumer = await client.consumer(assign=[(topic, 0)])
        writer = await client.writer(topic, linger_ms=60_000)
        delivery = await writer.send("x")
        waiting = [
            asyncio.ensure_future(each)
            for each in (consumer.poll(), consumer.position(topic, 0), _wait_for(delivery))
        ]
        await consumer.position(topic, 0)
        await asyncio.gather(client.close(), client.close())
        poll, position, outcome = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(poll, ClientError)
        assert position == 0
        assert isinstance(outcome, DeliveryFailed)
        for call in (client.partitions(topic), writer.send("x"), consumer.poll()):
            with pytest.raises(ClientError, match="closed"):
                await call
        assert "closed" in repr(client)

    asyncio.run(main())


async def _wait_for(delivery: Any) -> Any:
    return await delivery


@pytest.mark.parametrize("after_s", [0, 0.02])
def test_a_client_that_is_closed_while_it_reads_and_writes(
    run: Callable[[Scenario], None], after_s: float
) -> None:
    """No call waits for ever, and nothing goes on without the client."""

    async def scenario(client: aio.Client, topic: str) -> None:
        await client.append(_rows(3_000, 1000), topic)
        other = await aio.connect(client._core.bootstrap)
        batches = other.read_batches(topic, max_bytes_per_batch=10_000)
        calls = (
            other.read(topic, max_bytes_per_batch=10_000),
            anext(batches),
            other.snapshot(topic),
            other.restore(topic, f"{topic}-then"),
            other.append(_rows(3_000, 1000), topic, batch_bytes=10_000),
        )
        tasks = [asyncio.ensure_future(each) for each in calls]
        await asyncio.sleep(after_s)
        async with asyncio.timeout(30):
            await other.close()
            for each in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(each, ClientError) or not isinstance(each, BaseException)

    run(scenario)


class _Transport:
    """A transport that is no `asyncio.Transport`, as that of uvloop."""

    def __init__(self, theirs: asyncio.Transport) -> None:
        self._theirs = theirs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._theirs, name)


def test_another_kind_of_loop(group_broker: DrumlinServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        connect = loop.create_connection

        async def create_connection(make: Any, *where: Any, **options: Any) -> Any:
            protocol = make()
            theirs = protocol.connection_made
            monkeypatch.setattr(protocol, "connection_made", lambda its: theirs(_Transport(its)))
            return await connect(lambda: protocol, *where, **options)

        monkeypatch.setattr(loop, "create_connection", create_connection)
        async with aio.connect(group_broker.address) as client:
            await client.list_topics()

    asyncio.run(main())


def test_a_client_belongs_to_its_loop(group_broker: DrumlinServer) -> None:
    async def main() -> aio.Client:
        return await aio.connect(group_broker.address, check=False)

    async def close() -> None:
        await client.close()

    client = asyncio.run(main())
    with pytest.raises(ClientError, match="another event loop"):
        asyncio.run(client.list_topics())
    with pytest.raises(RuntimeError, match="no running event loop"):
        aio.Client(group_broker.address)


def test_nobody_there() -> None:
    async def main() -> None:
        async with aio.connect(f"127.0.0.1:{free_ports(1)[0]}"):
            raise AssertionError

    with pytest.raises(BrokerUnreachable, match="refused"):
        asyncio.run(main())


def test_the_loop_turns_while_many_bytes_are_computed(run: Callable[[Scenario], None]) -> None:
    async def scenario(client: aio.Client, topic: str) -> None:
        turns = 0

        async def turn() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        turning = asyncio.create_task(turn())
        await client.append(_rows(20_000, 1000), topic, compression="gzip")
        assert turns > 100
        turning.cancel()

    run(scenario)
