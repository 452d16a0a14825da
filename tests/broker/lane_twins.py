"""Two brokers without sockets, of which only one has lanes: both are to say and do the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from broker.answers import answer_of
from broker.in_process import running
from drumlin.broker.broker import Broker
from drumlin.broker.router import Router
from drumlin.clock import ManualClock
from drumlin.metadata.image import Resource, ResourceType
from drumlin.wire.errors import MalformedMessage
from drumlin.wire.messages import encode_request
from rig.messages import build

NOW_MS = 1_700_000_000_000


def request(
    api: str, version: int, number: int = 1, client_id: str | None = "c", **fields: Any
) -> bytes:
    """A frame without its length prefix; `number` is its correlation id."""
    message = build(api, version, fields)
    return b"".join(encode_request(api, version, number, client_id, message))[4:]


class _NoLanes(dict[bytes, Any]):
    """Lanes that are never there."""

    def __setitem__(self, kind: bytes, lane: Any) -> None:
        pass


class Twin:
    """A broker without sockets: frames in, answers out."""

    def __init__(self, broker: Broker, lanes: dict[bytes, Any]) -> None:
        self.broker = broker
        self.router = Router(broker)
        self.connection: Any = SimpleNamespace(
            lanes=lanes, listener_name="PLAINTEXT", peer_host="127.0.0.1"
        )

    async def ask(self, frame: bytes, *, is_writable: bool) -> bytes | str | None:
        memory = memoryview(bytearray(frame) if is_writable else frame)
        try:
            parts = await answer_of(self.router.dispatch(self.connection, memory))
        except MalformedMessage:
            return "closed"
        return None if parts is None else b"".join(parts)

    async def create(self, topic: str, topic_id: UUID) -> None:
        await self.broker.metadata.create_topic(topic, [[1], [1]], {}, topic_id)

    async def delete(self, topic: str) -> None:
        await self.broker.metadata.delete_topic(self.broker.metadata.image.topics[topic].topic_id)

    async def configure(self, topic: str, key: str, value: str | None) -> None:
        resource = Resource(ResourceType.TOPIC, topic)
        await self.broker.metadata.alter_configs(resource, lambda _: {key: value})

    async def load_groups(self) -> None:
        """Have a coordinator of groups that has loaded."""
        frame = request("find_coordinator", 4, key_type=0, coordinator_keys=["any"])
        await self.ask(frame, is_writable=True)
        partitions = self.broker.groups._partitions
        for partition in partitions.partitions():
            assert await partitions.when_ready(partition) is not None

    def recognises(self, frame: bytes) -> bool:
        return any(lane.recognises(memoryview(frame)) for lane in self.connection.lanes.values())

    def logs(self) -> dict[str, bytes]:
        return {
            log.name: b"".join(path.read_bytes() for path in sorted(log.directory.glob("*.log")))
            for log in self.broker.logs
        }


def both(scenario: Callable[[Twin, Twin], Any], directory: Path) -> None:
    """Run a scenario with two brokers, of which only the first has lanes."""

    async def run() -> None:
        clock = ManualClock(NOW_MS)
        async with (
            running(directory / "lanes", clock=clock) as one,
            running(directory / "none", clock=clock) as other,
        ):
            await scenario(Twin(one, {}), Twin(other, _NoLanes()))

    asyncio.run(run())
