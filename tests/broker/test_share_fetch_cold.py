"""Share fetches whose records are not in memory: read in threads, and each still given once."""

from __future__ import annotations

import asyncio
import errno
import random
from pathlib import Path
from typing import Any

import pytest

from broker.in_process import running
from drumlin.storage.files import Files
from drumlin.wire.errors import ErrorCode
from rig.batches import batch
from rig.raw import RawClient

_BATCHES, _SIZE = 30, 20


def test_what_is_not_in_memory_is_given_once_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(1)
    misses = 0
    read_resident_at = Files.read_resident_at

    def cold(self: Files, descriptor: int, length: int, position: int) -> bytes | bytearray:
        """Now and then as if the device had to be asked."""
        nonlocal misses
        if chance.random() < 0.5:
            misses += 1
            raise BlockingIOError(errno.EAGAIN, "not in memory")
        return read_resident_at(self, descriptor, length, position)

    async def run() -> None:
        settings = {"share_coordinator_state_topic_num_partitions": "1"}
        async with running(tmp_path, **settings) as broker:
            port = broker.listeners[0].port
            with RawClient(port) as client:
                topic_id = await asyncio.to_thread(_set_up, client)
                monkeypatch.setattr(Files, "read_resident_at", cold)
                given = await asyncio.to_thread(_fetch_all, client, topic_id)
                assert sorted(given) == list(range(_BATCHES * _SIZE))

    asyncio.run(run())
    assert misses > 0


def _set_up(client: RawClient) -> Any:
    asked = {"name": "topic", "num_partitions": 1, "replication_factor": 1}
    created = client.ask("create_topics", 7, topics=[asked], timeout=10_000)
    topic_id = created.topics[0].topic_id
    begun = [{"partition": 0, "state_epoch": 1, "start_offset": 0}]
    topics = [{"topic_id": topic_id, "partitions": begun}]
    client.ask("initialize_share_group_state", 0, group_id="group", topics=topics)
    for _ in range(_BATCHES):
        data = [{"index": 0, "records": batch(*[b"v"] * _SIZE)}]
        topic_data = [{"name": "topic", "partition_data": data}]
        client.ask("produce", 9, acks=-1, timeout=10_000, topic_data=topic_data)
    return topic_id


def _fetch_all(client: RawClient, topic_id: Any) -> list[int]:
    given: list[int] = []
    partition = {"partition_index": 0, "acknowledgement_batches": []}
    for epoch in range(_BATCHES):
        answer = client.ask(
            "share_fetch",
            2,
            group_id="group",
            member_id="member",
            share_session_epoch=epoch,
            max_wait=10_000,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=_SIZE,
            batch_size=_SIZE,
            topics=[{"topic_id": topic_id, "partitions": [partition]}],
            forgotten_topics_data=[],
        )
        assert answer.error_code == ErrorCode.none
        for each in answer.responses[0].partitions[0].acquired_records:
            given += range(each.first_offset, each.last_offset + 1)
    return given
