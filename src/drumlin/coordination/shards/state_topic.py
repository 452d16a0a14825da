"""The coordinator's view of the topic in which it keeps its state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from drumlin.records.batch.batch import Buffer
from drumlin.storage.producers.verification import NOT_REQUIRED, Verification

#: A future: done when all in-sync replicas have the appended records, or failed with `KafkaError`.
Confirmation = asyncio.Future[None]


class LedPartition(Protocol):
    """A partition of the topic that this broker leads, for use in one turn."""

    @property
    def batch_bytes_max(self) -> int:
        """The size of the largest batch that is accepted."""

    @property
    def awaits_confirmation(self) -> bool:
        """Whether appended records need a confirmation before they are safe."""

    def confirm(self) -> Confirmation:
        """A future that is done when all in-sync replicas have all records so far (on disk, if so
        configured).

        Called after an append that needs a confirmation.
        """

    def append_internal(
        self,
        batch: bytearray,
        now_ms: int,
        verification: Verification | None = NOT_REQUIRED,
        reserve_bytes: int = 0,
    ) -> object:
        """Append a batch, synchronously.

        `verification`: for batches of a client's transaction, its verification by the transaction
        coordinator. `reserve_bytes`: a batch is refused if it would be too large with this many
        more bytes.

        Raises:
            KafkaError: the batch was not appended.
        """


@dataclass(frozen=True, slots=True)
class StateTopic:
    """One of the broker's internal topics.

    name: the topic's name.
    find(partition): the current partition; raises `KafkaError` if it is not led here.
    read_batches(partition): the partition from its log start to its end, as buffers of whole
        batches; blocks, so it is called and iterated in a thread.
    partition_count(): None if the topic does not exist yet.
    create(): awaited if the topic is needed but does not exist. When it is done, `become_leader`
        has been called for the partitions that are led here.
    """

    name: str
    find: Callable[[int], LedPartition]
    read_batches: Callable[[int], Iterable[Buffer]]
    partition_count: Callable[[], int | None]
    create: Callable[[], Coroutine[Any, Any, None]]


class StateCoordinator(Protocol):
    """The interface of a coordinator to the broker."""

    def start(self) -> None:
        """Begin to serve."""

    async def close(self) -> None:
        """Drop all state, and end all waiting requests."""

    async def find_partition(self, key: str) -> int:
        """The partition of the coordinator's topic for this key.

        Raises:
            KafkaError: the topic does not exist, and cannot be created.
        """

    def become_leader(self, partition: int, leader_epoch: int) -> None:
        """Load a partition of the coordinator's topic, as this broker leads it now."""

    def resign(self, partition: int) -> None:
        """Drop a partition that another broker leads now, or that was deleted."""

    def topic_deleted(self, topic: str, topic_id: UUID) -> None:
        """Handle the deletion of any topic, usually one of the clients' topics."""
