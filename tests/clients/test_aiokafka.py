"""aiokafka: an asyncio client that speaks the protocol in pure Python."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

pytestmark = pytest.mark.clients

Name = Callable[[str], str]


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(60):
            await scenario()

    asyncio.run(within())


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_round_trip(bootstrap: str, unique: Name, codec: str | None) -> None:
    topic = unique("topic")

    async def scenario() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, compression_type=codec, enable_idempotence=True
        ) as producer:
            for number in range(100):
                await producer.send(
                    topic, value=b"%d" % number, key=b"k", headers=[("h", b"%d" % number)]
                )
            await producer.flush()
        async with AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            found = [await consumer.getone() for _ in range(100)]
        assert [int(each.value) for each in found] == list(range(100))
        assert [each.headers for each in found] == [(("h", b"%d" % n),) for n in range(100)]

    run(scenario)


def test_group_goes_on_after_a_commit(bootstrap: str, unique: Name) -> None:
    topic, group = unique("topic"), unique("group")
    settings: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }

    async def scenario() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            await admin.create_topics([NewTopic(topic, 2, 1)])
        finally:
            await admin.close()
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for number in range(40):
                await producer.send_and_wait(topic, b"%d" % number, partition=number % 2)
        async with AIOKafkaConsumer(topic, **settings) as consumer:
            first = [await consumer.getone() for _ in range(30)]
            await consumer.commit()
        async with AIOKafkaConsumer(topic, **settings) as consumer:
            second = [await consumer.getone() for _ in range(10)]
            partitions = [TopicPartition(topic, each) for each in range(2)]
            ends = await consumer.end_offsets(partitions)
        assert sorted(int(each.value) for each in first + second) == list(range(40))
        assert list(ends.values()) == [20, 20]

    run(scenario)
