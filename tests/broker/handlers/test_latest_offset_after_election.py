"""ListOffsets of a leader that does not know yet how far consumers may have read (KIP-207)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.in_process import running
from drumlin.broker.start.broker import Broker
from drumlin.metadata.image import BrokerState
from rig.data.batches import Batch, Rec
from rig.data.messages import render
from rig.data.raw import RawClient

LATEST, EARLIEST = -1, -2
_FIRST_MS, _SECOND_MS = 1_700_000_000_000, 1_700_000_001_000


def produce(client: RawClient, timestamp: int) -> None:
    records = Batch((Rec(),), timestamp=timestamp).encode()
    data = [{"name": "t", "partition_data": [{"index": 0, "records": records}]}]
    client.ask("produce", 9, acks=1, timeout=9000, topic_data=data)


def listed(client: RawClient, version: int, timestamp: int, replica_id: int = -1) -> Any:
    """The offset, or the error."""
    about = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
    topics = [{"name": "t", "partitions": [about]}]
    answer = render(client.ask("list_offsets", version, replica_id=replica_id, topics=topics))
    (partition,) = answer["topics"][0]["partitions"]
    is_told = partition["error_code"] == "none"
    return partition["offset"] if is_told else partition["error_code"]


async def lead_anew(broker: Broker) -> None:
    """As if a follower were in sync that has not fetched: it may have led meanwhile."""
    partition = broker.partitions.get("t", 0)
    (state,) = broker.metadata.image.topics["t"].partitions
    shared = replace(state, replicas=(1, 2), isr=(1, 2))
    partition.begin_leader_epoch(replace(shared, leader_epoch=partition.leader_epoch + 1))


@pytest.mark.parametrize(
    ("version", "refusal"), [(4, "leader_not_available"), (5, "offset_not_available")]
)
def test_only_what_may_be_more_by_then_is_refused(
    tmp_path: Path, version: int, refusal: str
) -> None:
    async def run() -> None:
        async with running(tmp_path) as broker:
            await broker.metadata.create_topic("t", [[1]], {})
            client = await asyncio.to_thread(RawClient, broker.listeners[0].port)
            await asyncio.to_thread(produce, client, _FIRST_MS)
            await lead_anew(broker)
            await asyncio.to_thread(produce, client, _SECOND_MS)
            assert await asyncio.to_thread(listed, client, version, LATEST) == 1
            await lead_anew(broker)

            async def told(timestamp: int, replica_id: int = -1) -> Any:
                return await asyncio.to_thread(listed, client, version, timestamp, replica_id)

            assert await told(LATEST) == refusal
            assert await told(LATEST, 2) == 2
            assert await told(EARLIEST) == 0
            assert await told(_FIRST_MS) == 0
            assert await told(_SECOND_MS) == refusal
            assert await told(_SECOND_MS + 1) == refusal
            broker.metadata.image.put_broker(BrokerState(2, None, (), 0))
            broker.partitions.get("t", 0).follower_fetched(2, 0, 2, 0)
            assert await told(LATEST) == 2
            assert await told(_SECOND_MS) == 1
            client.close()

    asyncio.run(run())
