"""With `log.flush.interval.messages=1` nothing is answered that a power failure would undo."""

from __future__ import annotations

import asyncio
from pathlib import Path

from broker.in_process import running
from broker.raw_transactions import RawProducer
from drumlin.broker.start.broker import Broker
from drumlin.broker.topics.topics import create_automatically
from rig.data.messages import render
from rig.data.raw import RawClient

SETTINGS = {
    "log_flush_interval_messages": "1",
    "offsets_topic_num_partitions": "1",
    "transaction_state_log_num_partitions": "1",
}


def durable_up_to(broker: Broker, topic: str) -> int:
    return broker.partitions.get(topic, 0).log.recovery_point


def test_what_coordinators_have_answered_is_on_disk(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, **SETTINGS) as broker:
            await create_automatically(broker, "t")
            await asyncio.to_thread(use, broker)

    asyncio.run(main())


def use(broker: Broker) -> None:
    with RawClient(broker.listeners[0].port, "raw", 20) as client:
        producer = RawProducer(client, "id", version=12)
        producer.init()
        assert durable_up_to(broker, "__transaction_state") == 1
        assert producer.send("t", 0)["error_code"] == "none"
        assert durable_up_to(broker, "__transaction_state") == 2  # its transaction has begun
        producer.end(commit=True)
        assert durable_up_to(broker, "__transaction_state") >= 3  # it will be committed
        client.ask("find_coordinator", 4, key_type=0, coordinator_keys=["g"])
        for offset in range(1, 4):
            position = {"partition_index": 0, "committed_offset": offset}
            answer = client.ask(
                "offset_commit",
                8,
                group_id="g",
                generation_id_or_member_epoch=-1,
                topics=[{"name": "t", "partitions": [position]}],
            )
            assert render(answer)["topics"][0]["partitions"][0]["error_code"] == "none"
            assert durable_up_to(broker, "__consumer_offsets") == offset
