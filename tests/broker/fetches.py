"""Fetch requests to a broker without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from broker.answers import answer_of, content_of
from broker.in_process import running
from broker.sessions import SESSION
from drumlin.broker.loop.later import Later
from drumlin.broker.router import Router
from drumlin.broker.start.broker import Broker
from drumlin.broker.traffic.listener_counts import ListenerCounts
from drumlin.metadata.image import PartitionState
from drumlin.replication.partition import Partition
from drumlin.wire.messages import encode_request, parse_response, schema_versions
from rig.data.messages import build

TOPIC = "fetched"
VERSIONS = range(4, schema_versions("fetch")[1] + 1)


def peer() -> Any:
    """What a handler sees of a connection."""
    return SimpleNamespace(
        peer_host="127.0.0.1", session=SESSION, counts=ListenerCounts(), closed=False
    )


class Fetches:
    """Has a broker answer requests."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.router = Router(broker)

    @property
    def partition(self) -> Any:
        return self.broker.partitions.get(TOPIC, 0)

    def part(self, partition: int, offset: int, **fields: Any) -> dict[str, Any]:
        part = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1000}
        part |= {"current_leader_epoch": -1, "last_fetched_epoch": -1, "log_start_offset": -1}
        return part | fields

    def topic(self, name: str, *parts: dict[str, Any]) -> dict[str, Any]:
        state = self.broker.metadata.image.topics.get(name)
        topic_id = None if state is None else state.topic_id
        return {"topic": name, "topic_id": topic_id, "partitions": list(parts)}

    def frame_of(
        self, version: int, topics: list[dict[str, Any]], number: int = 1, **fields: Any
    ) -> memoryview:
        """A request for any topics."""
        if version >= 15 and "replica_id" in fields:
            fields["replica_state"] = {"replica_id": fields.pop("replica_id")}
        limits = {"replica_id": -1, "max_bytes": 1 << 20, "min_bytes": 1, "session_epoch": -1}
        message = build("fetch", version, limits | {"topics": topics} | fields)
        return memoryview(b"".join(encode_request("fetch", version, number, "tester", message))[4:])

    def frame(self, version: int, offset: int, number: int = 1, **fields: Any) -> memoryview:
        """A request for the one partition."""
        part = self.part(0, offset)
        part |= {name: fields.pop(name) for name in list(fields) if name in part}
        return self.frame_of(version, [self.topic(TOPIC, part)], number, **fields)

    def start(self, frame: memoryview) -> Any:
        """Parts, or what is settled with them later."""
        return self.router.dispatch(peer(), frame)

    def now(self, frame: memoryview) -> bytes:
        """The answer to what is answered at once."""
        parts = self.start(frame)
        assert not isinstance(parts, Later)
        return content_of(parts)

    async def answer(self, frame: memoryview) -> bytes:
        return content_of(await answer_of(self.start(frame)))

    async def response(self, version: int, frame: memoryview) -> Any:
        """The answer, parsed."""
        content = await self.answer(frame)
        return parse_response("fetch", version, content[4:])[1]


Scenario = Callable[[Fetches], Coroutine[Any, Any, None]]


def with_broker(scenario: Scenario, log_dir: Path, partitions: int = 1, **settings: str) -> None:
    """Run a scenario with a broker that has the topic."""

    async def run() -> None:
        async with running(log_dir, **settings) as broker:
            await broker.metadata.create_topic(TOPIC, [[1]] * partitions, {})
            await scenario(Fetches(broker))

    asyncio.run(run())


def begin_epoch(partition: Partition, leader_epoch: int) -> None:
    """Begin a new leader epoch of a partition that has one replica."""
    partition.begin_leader_epoch(PartitionState(partition.index, 1, leader_epoch, (1,), (1,)))
