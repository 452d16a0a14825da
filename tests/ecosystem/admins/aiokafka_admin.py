"""aiokafka's AIOKafkaAdminClient."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from ecosystem.admins.steps import Steps

_RECORDS = 40


def run(address: str, topic: str, group: str) -> dict[str, str]:
    """What came of each step."""
    steps = Steps(lambda error: type(error).__name__)
    asyncio.run(_run(steps, address, topic, group))
    methods = {
        name for name, _ in inspect.getmembers(AIOKafkaAdminClient) if not name.startswith("_")
    }
    assert methods - steps.tried == {"close", "start"}, "not tried"
    return steps.outcomes


async def _run(steps: Steps, address: str, topic: str, group: str) -> None:
    loop = asyncio.get_running_loop()
    admin = AIOKafkaAdminClient(bootstrap_servers=address, request_timeout_ms=60_000)
    await admin.start()

    async def step(name: str, act: Callable[[], Awaitable[Any]], check: Any = None) -> None:
        def once() -> Any:
            return asyncio.run_coroutine_threadsafe(_awaited(act), loop).result()

        await asyncio.to_thread(steps, name, once, check)

    of_topic = ConfigResource(ConfigResourceType.TOPIC, topic)
    of_broker = ConfigResource(ConfigResourceType.BROKER, "1")
    compacted = NewTopic(topic, 3, 1, topic_configs={"cleanup.policy": "compact"})
    replaced = ConfigResource(ConfigResourceType.TOPIC, topic, configs={"retention.ms": "1234"})
    await step("create_topics", lambda: admin.create_topics([compacted]))
    await step("create_partitions", lambda: admin.create_partitions({topic: NewPartitions(4)}))
    await step("list_topics", admin.list_topics, lambda said: topic in said)
    await step(
        "describe_topics",
        lambda: admin.describe_topics([topic]),
        lambda said: len(said[0]["partitions"]) == 4,
    )
    await step("describe_cluster", admin.describe_cluster)
    await step(
        "describe_configs",
        lambda: admin.describe_configs([of_topic]),
        lambda said: "compact" in str(said),
    )
    await step("describe_configs, broker", lambda: admin.describe_configs([of_broker]))
    await step("alter_configs", lambda: admin.alter_configs([replaced]))
    consumer = await _fill_and_read(address, topic, group)
    await step("list_consumer_groups", admin.list_consumer_groups, lambda said: group in str(said))
    await step(
        "describe_consumer_groups",
        lambda: admin.describe_consumer_groups([group]),
        lambda said: "Stable" in str(said),
    )
    await step("find_coordinator", lambda: admin.find_coordinator(group), lambda said: said == 1)
    await consumer.stop()
    await step(
        "list_consumer_group_offsets",
        lambda: admin.list_consumer_group_offsets(group),
        lambda said: sum(each.offset for each in said.values()) == _RECORDS,
    )
    first = {TopicPartition(topic, 0): RecordsToDelete(before_offset=4)}
    await step("delete_records", lambda: admin.delete_records(first))
    await step("delete_topics", lambda: admin.delete_topics([topic]))
    await admin.close()


async def _awaited(act: Callable[[], Awaitable[Any]]) -> Any:
    return await act()


async def _fill_and_read(address: str, topic: str, group: str) -> AIOKafkaConsumer:
    async with AIOKafkaProducer(bootstrap_servers=address) as producer:
        for number in range(_RECORDS):
            key = b"%d" % number
            await producer.send_and_wait(topic, key, key=key, partition=number % 4)
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=address, group_id=group, auto_offset_reset="earliest"
    )
    await consumer.start()
    left = _RECORDS
    while left:
        left -= sum(map(len, (await consumer.getmany(timeout_ms=2000)).values()))
    await consumer.commit()
    return consumer
