"""The producer shared by a client's appends and writers: its id, and a sender per partition."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Self
from weakref import WeakMethod

from drumlin.background import shielded
from drumlin.client.arguments import ACKS_ALL, acks_number
from drumlin.client.errors import DeliveryFailed, as_delivery_failed
from drumlin.client.write.partition_sender import Batch, PartitionSender, ProducerIdentity
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.retry import CREATED_TOPIC_PATIENCE_S
from drumlin.peer.rights import refusal
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.init_producer_id import InitProducerIdRequest

#: The maximum age of known partitions, as in Kafka's metadata.max.age.ms.
_PARTITIONS_FOR_S: Final = 300.0

#: A method that fails the records that wait for a producer, and accepts no more.
GiveUp = Callable[[Exception], object]


class DeliveryMode(NamedTuple):
    """The mode of delivery: acks, and whether it is idempotent."""

    acks: int
    is_idempotent: bool

    @classmethod
    def of(cls, acks: object, retries: int | None) -> Self:
        """The mode for these options. Without retries, which could duplicate, it is not idempotent.

        Raises:
            ValueError: no such acks.
        """
        number = acks_number(acks)
        return cls(number, number == ACKS_ALL and retries != 0)


class Producer:
    """Routes batches to senders. Used in the loop only."""

    def __init__(self, connections: BrokerConnections) -> None:
        self._connections = connections
        self._senders: dict[tuple[str, int, DeliveryMode], PartitionSender] = {}
        self._identity: asyncio.Task[ProducerIdentity] | None = None
        self._closed_by: Exception | None = None
        self._dependents: set[WeakMethod[GiveUp]] = set()

    def put(self, topic: str, partition: int, mode: DeliveryMode, batch: Batch) -> None:
        """Deliver a batch after those put earlier for the same partition."""
        try:
            self._sender(topic, partition, mode).put(batch)
        except Exception as error:  # noqa: BLE001 - callers that wait for the batch must see it
            if not batch.done.done():
                batch.done.set_exception(as_delivery_failed(topic, partition, error))

    def _sender(self, topic: str, partition: int, mode: DeliveryMode) -> PartitionSender:
        if self._closed_by is not None:
            raise self._closed_by
        sender = self._senders.get((topic, partition, mode))
        if sender is None:
            sender = self._new_sender(topic, partition, mode)
            self._senders[topic, partition, mode] = sender
        return sender

    def _new_sender(self, topic: str, partition: int, mode: DeliveryMode) -> PartitionSender:
        return PartitionSender(
            self._connections,
            topic,
            partition,
            mode.acks,
            self._identify,
            is_idempotent=mode.is_idempotent,
        )

    def attach(self, give_up: GiveUp) -> None:
        """Call `give_up` when this producer closes, if its object still exists then."""
        if self._closed_by is not None:
            give_up(self._closed_by)
        else:
            self._dependents.add(WeakMethod(give_up, self._dependents.discard))

    def _tell_dependents(self, error: Exception) -> None:
        for each in list(self._dependents):
            give_up = each()
            if give_up is not None:
                give_up(error)

    def close(self) -> None:
        """Fail all batches that are not delivered yet."""
        self._closed_by = DeliveryFailed("the client was closed before the records were written")
        self._tell_dependents(self._closed_by)
        for sender in self._senders.values():
            sender.fail_all(self._closed_by)

    async def partitions(
        self, topic: str, at_least: int = 0, max_age_s: float = _PARTITIONS_FOR_S
    ) -> list[int]:
        """The partitions of a topic; a missing topic is created if the broker does that.

        Refreshes the metadata if it knows fewer than `at_least` partitions, as some may have been
        added, or if its metadata is older than `max_age_s`.
        """
        known = self._connections.view.topics.get(topic)
        if (
            known is None
            or len(known.partitions) < at_least
            or time.monotonic() > known.seen_at + max_age_s
        ):
            await self._connections.retrying(
                lambda: self._connections.refresh((topic,), create_missing=True),
                missing_s=CREATED_TOPIC_PATIENCE_S,
            )
        return list(self._connections.view.topics[topic].partitions)

    async def _identify(self, spent: ProducerIdentity | None) -> ProducerIdentity:
        """The identity with which senders start; a new one if the epochs of `spent` are used up."""
        task = self._identity
        if task is not None and task.done():
            failed = task.cancelled() or task.exception() is not None
            if failed or (spent and task.result().producer_id == spent.producer_id):
                task = None
        if task is None:
            task = self._identity = asyncio.ensure_future(self._init_producer_id())
        return await shielded(task)

    async def _init_producer_id(self) -> ProducerIdentity:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout=ZERO)

        async def attempt() -> Any:
            connection = await self._connections.any()
            response = await connection.request("init_producer_id", request)
            if response.error_code is not ErrorCode.none:
                raise refusal("init_producer_id", response.error_code, "an idempotent producer")
            return response

        response = await self._connections.retrying(attempt)
        return ProducerIdentity(response.producer_id, response.producer_epoch)
