"""The interface to the states of all share partitions, whichever broker coordinates them.

The methods are those of `ShareCoordinator`, with the same errors: `KafkaError`s for the client.
"""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from drumlin.coordination.shards.pending_answer import Written
from drumlin.coordination.share.state.state import SharePartitionKey, ShareState


class ShareStates(Protocol):
    """All share coordinators of the cluster."""

    async def initialize(
        self, group_id: str, topic_id: UUID, partition: int, state_epoch: int, start_offset: int
    ) -> None: ...
    async def read(
        self, group_id: str, topic_id: UUID, partition: int, leader_epoch: int
    ) -> ShareState: ...
    async def write(
        self, group_id: str, topic_id: UUID, partition: int, state: ShareState
    ) -> None: ...
    def write_at_once(self, key: SharePartitionKey, change: ShareState) -> Written[None] | None: ...
    async def delete(self, group_id: str, topic_id: UUID, partition: int) -> None: ...
    async def summary(self, group_id: str, topic_id: UUID, partition: int) -> ShareState: ...
