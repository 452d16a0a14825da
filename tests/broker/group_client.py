"""Calls handlers of the group APIs, with a real coordinator over a log in memory."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from broker.answers import answer_of
from broker.sessions import SESSION
from coordination.memory_log import KnownTopics, MemoryLog, lead_all, new_coordinator
from coordination.settings import Settings
from drumlin.broker.apis.served import SERVED
from drumlin.broker.context import RequestContext
from drumlin.broker.loop.later import begun
from drumlin.broker.traffic.listener_counts import ListenerCounts
from drumlin.clock import SystemClock
from drumlin.config.broker import BrokerConfig
from drumlin.coordination.producer_ids import ProducerIds
from drumlin.metadata.image import BrokerState, ClusterImage, Endpoint, PartitionState, TopicState
from drumlin.metadata.names import GROUP_METADATA
from drumlin.metadata.store.store import ProducerIdBlock
from drumlin.wire.messages import (
    encode_request,
    encode_response,
    parse_request,
    parse_request_header,
    parse_response,
)
from rig.data.messages import request_shape

TOPIC_ID = uuid.UUID(int=11)


class Client:
    """Calls handlers as the router does, with a round trip through the encoders."""

    def __init__(self, broker: Any) -> None:
        self.broker = broker

    async def ask(self, api: str, version: int, **fields: Any) -> Any:
        return await self.send(api, version, **fields)

    def send(self, api: str, version: int, **fields: Any) -> Awaitable[Any]:
        """The handler has run when this returns, up to what it waits for."""
        shape = request_shape(api, version)
        name = "".join(part.capitalize() for part in api.split("_"))
        message = shape(f"{name}Request", **fields)
        frame = b"".join(bytes(part) for part in encode_request(api, version, 1, "c", message))[4:]
        handler = import_module(f"drumlin.broker.handlers.{api}")
        parse = getattr(handler, "parse", partial(parse_request, api))
        header = parse_request_header(frame)
        request = parse(version, memoryview(frame), header.size)
        connection = SimpleNamespace(
            peer_host="127.0.0.1", session=SESSION, counts=ListenerCounts()
        )
        context = RequestContext(self.broker, connection, header, SESSION)  # type: ignore[arg-type]
        answer = handler.handle(context, request)
        return asyncio.ensure_future(self._finish(api, version, begun(answer)))

    async def _finish(self, api: str, version: int, answer: Any) -> Any:
        answer = await answer_of(answer)
        frame = b"".join(bytes(part) for part in encode_response(api, version, 1, answer))
        return parse_response(api, version, frame[4:])[1]


def with_client(run: Callable[[Client], Awaitable[None]]) -> None:
    async def main() -> None:
        log = MemoryLog(4)
        settings = Settings(group_initial_rebalance_delay_ms=0, offsets_commit_timeout_ms=50)
        topics = KnownTopics()
        topics.put("t", 2, TOPIC_ID)
        coordinator = new_coordinator(log, settings, SystemClock(), topics)
        broker = SimpleNamespace(
            node_id=1,
            authorizer=None,
            quotas=None,
            config=BrokerConfig.load({}),
            groups=coordinator,
            share_groups=SimpleNamespace(is_share_group=lambda _: False),
            coordinators={GROUP_METADATA: coordinator},
            metadata=SimpleNamespace(image=image_of_topic()),
            producer_ids=ProducerIds(_block),
            log=log,
        )
        coordinator.start()
        lead_all(coordinator, log)
        for partition in range(4):
            await coordinator._partitions.when_ready(partition)
        try:
            await asyncio.wait_for(run(Client(broker)), 30)
        finally:
            await coordinator.close()

    asyncio.run(main())


def image_of_topic() -> ClusterImage:
    image = ClusterImage("cluster")
    image.put_broker(BrokerState(1, None, (Endpoint("PLAINTEXT", "localhost", 9092),)))
    for name, topic_id, count in (("t", TOPIC_ID, 2), (GROUP_METADATA, uuid.UUID(int=13), 4)):
        partitions = tuple(PartitionState(index, 1, 0, (1,), (1,)) for index in range(count))
        image.put_topic(TopicState(name, topic_id, partitions))
    return image


async def _block() -> ProducerIdBlock:
    return ProducerIdBlock(4_000, 1_000)


def ms(duration_ms: int) -> timedelta:
    return timedelta(milliseconds=duration_ms)


def versions(api: str) -> range:
    lowest, highest = SERVED[api]
    return range(lowest, highest + 1)
