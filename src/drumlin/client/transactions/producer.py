"""The producer of one transaction. Appends and writers hand it their batches.

Batches carry the transaction's producer id and epoch, which never change. In each partition their
sequences begin at 0, or continue those of the previous transaction of the epoch. If a batch cannot
be delivered, the transaction can only be aborted, and nothing more is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Final

from drumlin.client.arguments import ACKS_ALL
from drumlin.client.topic_partition import TopicPartition
from drumlin.client.transactions.participants import Participants
from drumlin.client.transactions.requests import OpenTransaction
from drumlin.client.write.partition_sender import Batch, PartitionSender, ProducerIdentity
from drumlin.client.write.producer import DeliveryMode, Producer
from drumlin.peer.broker_connections import BrokerConnections

_MODE: Final = DeliveryMode(ACKS_ALL, is_idempotent=True)


class TransactionalProducer(Producer):
    """The senders of one transaction. Used in the loop only."""

    def __init__(
        self,
        connections: BrokerConnections,
        participants: Participants,
        opened: OpenTransaction,
        sequences: Mapping[TopicPartition, int],
    ) -> None:
        super().__init__(connections)
        self._sequences = sequences
        self._participants = participants
        self._opened = opened
        self.put_count = 0
        self._unsettled: set[Future[Any]] = set()
        self._is_settled = asyncio.Event()
        self._is_settled.set()

    @property
    def failure(self) -> Exception | None:
        """The error after which the transaction can only be aborted."""
        return self._closed_by

    @property
    def sequences(self) -> dict[TopicPartition, int]:
        """The sequences with which the next transaction of this epoch begins."""
        sent = {
            TopicPartition(topic, number): each.next_sequence
            for (topic, number, _), each in self._senders.items()
        }
        return {**self._sequences, **sent}

    def put(self, topic: str, partition: int, mode: DeliveryMode, batch: Batch) -> None:  # noqa: ARG002
        """Deliver a batch after those put earlier for the same partition."""
        self.put_count += 1
        self._unsettled.add(batch.done)
        self._is_settled.clear()
        batch.done.add_done_callback(self._settle)
        # Two senders of one partition would count its sequences twice.
        super().put(topic, partition, _MODE, batch)

    def fail(self, error: Exception) -> None:
        """Accept and send no more batches. Only the first error is reported."""
        if self._closed_by is None:
            self._closed_by = error
            for sender in self._senders.values():
                sender.end(error)
            self._tell_dependents(error)

    async def settled(self) -> None:
        """Wait until every batch is acknowledged or has failed."""
        await self._is_settled.wait()

    def close(self) -> None:
        super().close()
        self._participants.close()

    def _new_sender(self, topic: str, partition: int, mode: DeliveryMode) -> PartitionSender:
        async def identify(_: ProducerIdentity | None) -> ProducerIdentity:
            await self._participants.add(topic, partition)
            return ProducerIdentity(self._opened.producer_id, self._opened.epoch)

        return PartitionSender(
            self._connections,
            topic,
            partition,
            mode.acks,
            identify,
            is_idempotent=True,
            transactional_id=self._opened.transactional_id,
            first_sequence=self._sequences.get(TopicPartition(topic, partition), 0),
        )

    def _settle(self, done: Future[Any]) -> None:
        self._unsettled.discard(done)
        loop = asyncio.get_running_loop()
        error = done.exception()
        if isinstance(error, Exception):
            # Not at once: a sender is changing its state. That sender sends nothing more by itself.
            loop.call_soon(self.fail, error)
        loop.call_soon(self._tell_settled)  # after the failure, so that no commit misses it

    def _tell_settled(self) -> None:
        if not self._unsettled:
            self._is_settled.set()
