"""What appends and writers of one client share: producer id, and one sender per partition."""

from __future__ import annotations

import asyncio
from typing import Any, Final, Literal

from drumlin.client.errors import ClientError
from drumlin.client.partition_sender import ACKS_ALL, Batch, PartitionSender, ProducerIdentity
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO, Shape

Acks = Literal["all", "leader", "none"]

_ACKS: Final[dict[Acks, int]] = {"all": ACKS_ALL, "leader": 1, "none": 0}


class Producer:
    """Routes batches to senders. Lives in the loop."""

    def __init__(self, connections: BrokerConnections) -> None:
        self._connections = connections
        self._senders: dict[tuple[str, int, int], PartitionSender] = {}
        self._identity: asyncio.Task[ProducerIdentity] | None = None

    def put(self, topic: str, partition: int, acks: Acks, batch: Batch) -> None:
        """Deliver a batch behind all that were put for the same partition."""
        key = (topic, partition, _ACKS[acks])
        sender = self._senders.get(key)
        if sender is None:
            sender = self._senders[key] = PartitionSender(self._connections, *key, self._identify)
        sender.put(batch)

    def close(self) -> None:
        """Give up what is not delivered yet."""
        for sender in self._senders.values():
            sender.fail_all(ClientError("the client was closed before the records were written"))

    async def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic; a missing topic is created if the broker does that."""
        if topic not in self._connections.view.topics:
            await self._connections.retrying(
                lambda: self._connections.refresh((topic,), create_missing=True)
            )
        return list(self._connections.view.topics[topic].partitions)

    async def _identify(self, spent: ProducerIdentity | None) -> ProducerIdentity:
        """The identity that all senders start with; another, if that is the `spent` one."""
        task = self._identity
        if task is not None and task.done():
            failed = task.cancelled() or task.exception() is not None
            if failed or (spent and task.result().producer_id == spent.producer_id):
                task = None
        if task is None:
            task = self._identity = asyncio.ensure_future(self._init_producer_id())
        return await asyncio.shield(task)

    async def _init_producer_id(self) -> ProducerIdentity:
        def build(shape: Shape) -> object:
            return shape("InitProducerIdRequest", transactional_id=None, transaction_timeout=ZERO)

        async def attempt() -> Any:
            connection = await self._connections.any()
            response = await connection.request("init_producer_id", build)
            if response.error_code is not ErrorCode.none:
                raise KafkaError(response.error_code, "init_producer_id")
            return response

        response = await self._connections.retrying(attempt)
        return ProducerIdentity(response.producer_id, response.producer_epoch)
