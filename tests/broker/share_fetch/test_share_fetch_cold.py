"""Share fetches whose records are not in memory: read in threads, and each still given once."""

from __future__ import annotations

import asyncio
import errno
import random
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from broker.in_process import running
from drumlin.broker.share_fetch import fetch
from drumlin.storage.files.files import Files
from drumlin.wire.error_codes import ErrorCode
from rig.data.batches import batch
from rig.data.raw import RawClient

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


def _set_up(client: RawClient, partitions: int = 1) -> Any:
    """`_BATCHES` of them in a single partition, or two in each."""
    asked = {"name": "topic", "num_partitions": partitions, "replication_factor": 1}
    created = client.ask("create_topics", 7, topics=[asked], timeout=10_000)
    topic_id = created.topics[0].topic_id
    begun = [{"partition": each, "state_epoch": 1, "start_offset": 0} for each in range(partitions)]
    topics = [{"topic_id": topic_id, "partitions": begun}]
    client.ask("initialize_share_group_state", 0, group_id="group", topics=topics)
    for _ in range(_BATCHES if partitions == 1 else 2):
        records = batch(*[b"v"] * _SIZE)
        data = [{"index": each, "records": records} for each in range(partitions)]
        topic_data = [{"name": "topic", "partition_data": data}]
        client.ask("produce", 9, acks=-1, timeout=10_000, topic_data=topic_data)
    return topic_id


def _fetch(
    client: RawClient, topic_id: Any, epoch: int, partitions: Iterable[int], max_records: int
) -> Any:
    named = [{"partition_index": each, "acknowledgement_batches": []} for each in partitions]
    answer = client.ask(
        "share_fetch",
        2,
        group_id="group",
        member_id="member",
        share_session_epoch=epoch,
        max_wait=10_000,
        min_bytes=1,
        max_bytes=1 << 20,
        max_records=max_records,
        batch_size=_SIZE,
        topics=[{"topic_id": topic_id, "partitions": named}],
        forgotten_topics_data=[],
    )
    assert answer.error_code == ErrorCode.none
    return answer


def _fetch_all(client: RawClient, topic_id: Any) -> list[int]:
    given: list[int] = []
    for epoch in range(_BATCHES):
        answer = _fetch(client, topic_id, epoch, [0], _SIZE)
        for each in answer.responses[0].partitions[0].acquired_records:
            given += range(each.first_offset, each.last_offset + 1)
    return given


def test_many_cold_partitions_are_read_together_and_never_on_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 20
    reads: list[tuple[int, bool]] = []
    read_batches = fetch.read_batches

    def noted(*arguments: Any, may_block: bool, **options: Any) -> Any:
        reads.append((threading.get_ident(), may_block))
        if not may_block:
            raise BlockingIOError(errno.EAGAIN, "not in memory")
        return read_batches(*arguments, may_block=may_block, **options)

    async def run() -> None:
        async with running(tmp_path, share_coordinator_state_topic_num_partitions="1") as broker:
            with RawClient(broker.listeners[0].port) as client:
                topic_id = await asyncio.to_thread(_set_up, client, count)
                monkeypatch.setattr(fetch, "read_batches", noted)
                answer = await asyncio.to_thread(
                    _fetch, client, topic_id, 0, range(count), max_records=count * _SIZE * 3
                )
                given = {
                    each.partition_index: sum(
                        part.last_offset - part.first_offset + 1 for part in each.acquired_records
                    )
                    for each in answer.responses[0].partitions
                }
                assert given == dict.fromkeys(range(count), 2 * _SIZE)
        loop = threading.get_ident()
        assert [may_block for thread, may_block in reads if thread == loop] == [False] * count
        assert [may_block for thread, may_block in reads if thread != loop] == [True] * count

    asyncio.run(run())
