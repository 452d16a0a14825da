"""Partitions without a log, or with one on a failed dir: as Apache Kafka 4.3 showed them.

There the dir of two of four partitions failed; only leader epochs differ: Kafka's has advanced
already when the partition goes offline, ours when it comes back.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.conftest import Ask
from broker.in_process import running
from drumlin.broker.metrics.replication import standing_of
from drumlin.broker.start import chores
from drumlin.broker.start.broker import Broker
from rig.data.batches import batch
from rig.data.messages import render
from rig.data.raw import RawClient

LEADERLESS = {"leader_id": -1, "isr_nodes": [], "offline_replicas": [1], "replica_nodes": [1]}
LED = {"leader_id": 1, "isr_nodes": [1], "offline_replicas": [], "replica_nodes": [1]}


@pytest.fixture(autouse=True)
def no_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chores, "_PROBE_MS", 3_600_000)


async def asked(broker: Broker, script: Callable[[Ask], Any]) -> Any:
    """What a script finds out over a connection."""

    def run() -> Any:
        with RawClient(broker.listeners[0].port) as client:
            return script(lambda api, version, **fields: render(client.ask(api, version, **fields)))

    return await asyncio.to_thread(run)


def described(ask: Ask) -> tuple[list[Any], list[Any]]:
    """The partitions of `t`, in Metadata and in DescribeTopicPartitions."""
    (topic,) = ask("metadata", 13, topics=[{"name": "t"}])["topics"]
    answer = ask("describe_topic_partitions", 0, topics=[{"name": "t"}], response_partition_limit=9)
    (again,) = answer["topics"]
    assert topic["error_code"] == again["error_code"] == "none"
    return topic["partitions"], again["partitions"]


def errors(ask: Ask, index: int) -> dict[str, str]:
    """How the APIs that need a log answer."""
    records = {"name": "t", "partition_data": [{"index": index, "records": batch(b"x")}]}
    (produced,) = ask("produce", 9, acks=1, timeout=9000, topic_data=[records])["responses"]
    about = {"partition": index, "fetch_offset": 0, "partition_max_bytes": 1000}
    wanted = [{"topic": "t", "partitions": [about]}]
    fetched = ask("fetch", 11, replica_id=-1, session_epoch=-1, max_bytes=1000, topics=wanted)
    answers = {"produce": produced["partition_responses"][0]}
    answers["fetch"] = fetched["responses"][0]["partitions"][0]
    for api, version, name, key, field in (
        ("list_offsets", 7, "name", "partition_index", {"timestamp": -1}),
        ("offset_for_leader_epoch", 4, "topic", "partition", {"leader_epoch": 0}),
        ("delete_records", 2, "name", "partition_index", {"offset": 0}),
    ):
        fields = {"timeout": 9000} if api == "delete_records" else {"replica_id": -1}
        topics = [{name: "t", "partitions": [{key: index, **field}]}]
        (topic,) = ask(api, version, topics=topics, **fields)["topics"]
        answers[api] = topic["partitions"][0]
    return {api: answer["error_code"] for api, answer in answers.items()}


def check(partitions: tuple[list[Any], list[Any]], offline: int) -> None:
    """One of two partitions is offline, the other is not."""
    online = 1 - offline
    in_metadata, in_description = partitions
    assert in_metadata[offline].items() >= LEADERLESS.items()
    assert in_metadata[offline]["error_code"] == "leader_not_available"
    assert in_description[offline].items() >= LEADERLESS.items()
    assert in_description[offline]["error_code"] == "none"
    assert in_description[offline]["eligible_leader_replicas"] == [1]
    assert in_description[offline]["last_known_elr"] == [1]
    assert in_metadata[online].items() >= LED.items()
    assert in_description[online].items() >= LED.items()
    assert in_description[online]["eligible_leader_replicas"] == []
    assert in_metadata[online]["error_code"] == in_description[online]["error_code"] == "none"


def test_a_dir_that_fails_while_the_broker_runs(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path / "a", tmp_path / "b") as broker:
            await broker.metadata.create_topic("t", [[1], [1]], {})
            directory = broker.partitions.get("t", 1).log.log_directory
            directory.fail(OSError(errno.EIO, "Input/output error"), "test")
            check(await asked(broker, described), offline=1)
            assert standing_of(broker).offline_replicas == 1
            codes = await asked(broker, lambda ask: [errors(ask, index) for index in (0, 1)])
            assert set(codes[0].values()) == {"none"}
            assert set(codes[1].values()) == {"kafka_storage_error"}

    asyncio.run(run())


def test_a_dir_that_is_missing_at_the_start(tmp_path: Path) -> None:
    dirs = tmp_path / "a", tmp_path / "b"

    async def run() -> None:
        async with running(*dirs) as broker:
            await broker.metadata.create_topic("t", [[1], [1]], {})
        (offline,) = (index for index in (0, 1) if (dirs[1] / f"t-{index}").exists())
        dirs[1].rename(tmp_path / "elsewhere")
        dirs[1].write_text("a broken disk")
        async with running(*dirs) as broker:
            check(await asked(broker, described), offline)
            assert standing_of(broker).offline_replicas == 1
            codes = await asked(broker, lambda ask: errors(ask, offline))
            assert set(codes.values()) == {"kafka_storage_error"}

    asyncio.run(run())


def test_a_dir_that_is_only_full_keeps_its_leaders(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path) as broker:
            await broker.metadata.create_topic("t", [[1]], {})
            full = OSError(errno.ENOSPC, "No space left on device")
            broker.logs.directories[0].fail(full, "test")
            assert standing_of(broker).offline_replicas == 0
            for (partition,) in await asked(broker, described):
                assert partition.items() >= LED.items()
            codes = await asked(broker, lambda ask: errors(ask, 0))
            assert codes.pop("produce") == "kafka_storage_error"
            assert set(codes.values()) == {"none"}

    asyncio.run(run())
