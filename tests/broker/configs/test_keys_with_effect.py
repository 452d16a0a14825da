"""Keys whose effect shows in nothing else: each makes a broker behave otherwise."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.conftest import Ask
from broker.in_process import running
from drumlin.broker.start.broker import Broker
from drumlin.storage.recovery import loader
from rig.data.batches import batch
from rig.data.messages import render
from rig.data.raw import RawClient
from rig.waiting import wait_until

_FETCH: dict[str, Any] = {"replica_id": -1, "max_bytes": 1 << 20, "min_bytes": 0, "max_wait": 0}


def with_broker(directory: Path, script: Callable[[Ask], Any], **settings: str) -> Any:
    """What a script finds out of a broker with these settings, over a connection."""

    def run(port: int) -> Any:
        with RawClient(port) as client:
            return script(lambda api, version, **fields: render(client.ask(api, version, **fields)))

    async def main() -> Any:
        async with running(directory, **settings) as broker:
            return await asyncio.to_thread(run, broker.listeners[0].port)

    return asyncio.run(main())


def create(ask: Ask, name: str, count: int = 1, replicas: int = 1, **configs: str) -> str:
    pairs = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    topic = {
        "name": name,
        "num_partitions": count,
        "replication_factor": replicas,
        "configs": pairs,
    }
    (answer,) = ask("create_topics", 7, topics=[topic], timeout=9000)["topics"]
    return str(answer["error_code"])


def produce(ask: Ask, name: str, records: bytes, partition: int = 0) -> None:
    of_topic = {"name": name, "partition_data": [{"index": partition, "records": records}]}
    (answer,) = ask("produce", 9, acks=1, timeout=9000, topic_data=[of_topic])["responses"]
    assert answer["partition_responses"][0]["error_code"] == "none"


def fetch(ask: Ask, name: str, count: int, **fields: Any) -> Any:
    partitions = [
        {"partition": index, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        for index in range(count)
    ]
    topics = [{"topic": name, "partitions": partitions}]
    return ask("fetch", 11, **_FETCH, topics=topics, **fields)


def configured(ask: Ask, topic: str, key: str) -> str:
    resource = {"resource_type": 2, "resource_name": topic, "configuration_keys": [key]}
    (answer,) = ask("describe_configs", 4, resources=[resource])["results"]
    return str(answer["configs"][0]["value"])


def test_the_rack_is_told(tmp_path: Path) -> None:
    def script(ask: Ask) -> None:
        (broker,) = ask("metadata", 9, topics=[])["brokers"]
        assert broker["rack"] == "r1"

    with_broker(tmp_path, script, broker_rack="r1")


def test_a_fetch_gets_no_more_than_fetch_max_bytes(tmp_path: Path) -> None:
    def script(ask: Ask) -> None:
        create(ask, "t", 3)
        for partition in range(3):
            produce(ask, "t", batch(b"x" * 900), partition)
        (topic,) = fetch(ask, "t", 3, session_epoch=-1)["responses"]
        found = [each["partition_index"] for each in topic["partitions"] if each["records"]]
        assert found == [0]  # the next one would pass the limit

    with_broker(tmp_path, script, fetch_max_bytes="1024")


def test_fetch_sessions_have_as_many_slots(tmp_path: Path) -> None:
    def script(ask: Ask) -> None:
        create(ask, "t")
        sessions = [fetch(ask, "t", 1, session_epoch=0)["session_id"] for _ in range(3)]
        assert sessions[0] != 0
        assert sessions[1:] == [0, 0]  # none is free, and none is old enough to go

    with_broker(tmp_path, script, max_incremental_fetch_session_cache_slots="1")


def test_the_default_number_of_replicas(tmp_path: Path) -> None:
    def script(ask: Ask) -> None:
        assert create(ask, "t", replicas=-1) == "invalid_replication_factor"
        assert create(ask, "t", replicas=1) == "none"

    with_broker(tmp_path, script, default_replication_factor="2")


@pytest.mark.parametrize(
    ("topic", "key"),
    [
        ("__consumer_offsets", "offsets_topic_segment_bytes"),
        ("__transaction_state", "transaction_state_log_segment_bytes"),
        ("__share_group_state", "share_coordinator_state_topic_segment_bytes"),
    ],
)
def test_segments_of_internal_topics(tmp_path: Path, topic: str, key: str) -> None:
    def script(ask: Ask) -> None:
        ask("metadata", 9, topics=[{"name": topic}], allow_auto_topic_creation=True)
        wait_until(lambda: configured(ask, topic, "segment.bytes") == "7654321", "the topic")

    with_broker(tmp_path, script, **{key: "7654321"})


def test_idle_producers_are_forgotten(tmp_path: Path) -> None:
    wanted = [{"name": "t", "partition_indexes": [0]}]

    def producers(ask: Ask) -> list[Any]:
        (topic,) = ask("describe_producers", 0, topics=wanted)["topics"]
        return list(topic["partitions"][0]["active_producers"])

    def script(ask: Ask) -> None:
        create(ask, "t")
        produce(ask, "t", batch(b"x", producer_id=7, producer_epoch=0, base_sequence=0))
        wait_until(lambda: not producers(ask), "the producer to be forgotten")

    with_broker(
        tmp_path,
        script,
        producer_id_expiration_ms="1",
        producer_id_expiration_check_interval_ms="50",
    )


def test_the_level_of_gzip(tmp_path: Path) -> None:
    def script(ask: Ask) -> None:
        text = b"".join(b"%d * %d = %d; " % (each, each, each * each) for each in range(3000))
        sizes = []
        for level in ("1", "9"):
            create(ask, f"t{level}", compression_type="gzip", compression_gzip_level=level)
            produce(ask, f"t{level}", batch(text))
            (topic,) = fetch(ask, f"t{level}", 1, session_epoch=-1)["responses"]
            sizes.append(len(topic["partitions"][0]["records"]))
        assert sizes[0] != sizes[1]
        assert max(sizes) < len(text)

    with_broker(tmp_path, script)


def test_the_send_buffer(tmp_path: Path) -> None:
    async def size(broker: Broker) -> int:
        port = broker.listeners[0].port

        def ask() -> None:
            client.ask("metadata", 9, topics=[])

        with RawClient(port) as client:
            await asyncio.to_thread(ask)
            (connection,) = broker.server._connections
            with socket.socket(fileno=os.dup(connection._channel.fileno())) as sock:
                return sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)

    async def main(**settings: str) -> int:
        async with running(tmp_path, **settings) as broker:
            return await size(broker)

    small = asyncio.run(main(socket_send_buffer_bytes="8192"))
    assert small in (8192, 16384)  # Linux tells twice what was asked for
    assert asyncio.run(main()) > small


def test_logs_are_loaded_by_so_many_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three logs are loaded at the same moment, or the barrier breaks."""

    async def fill() -> None:
        async with running(tmp_path) as broker:
            await broker.metadata.create_topic("t", [[1]] * 6, {})

    asyncio.run(fill())
    together, load = threading.Barrier(3, timeout=20), loader._load

    def load_together(*arguments: Any) -> Any:
        together.wait()
        return load(*arguments)

    monkeypatch.setattr(loader, "_load", load_together)

    async def start() -> None:
        async with running(tmp_path, num_recovery_threads_per_data_dir="3") as broker:
            assert len(broker.logs) == 6

    asyncio.run(start())
