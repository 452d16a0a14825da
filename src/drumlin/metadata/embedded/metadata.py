"""`EmbeddedMetadata`: the store of a single broker, with the controller in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final

from drumlin.config.topic import LogConfig
from drumlin.metadata.embedded.controller import Controller
from drumlin.metadata.embedded.partition_states import Outcomes
from drumlin.metadata.embedded.sqlite import SqliteMetadata
from drumlin.metadata.image import BrokerState, PartitionId, Resource
from drumlin.metadata.rules.decisions import Target, check_can_unregister
from drumlin.metadata.rules.election_counts import ElectionCounts
from drumlin.metadata.rules.isr_requests import IsrRequest
from drumlin.metadata.rules.leadership import NO_EPOCH, Returned
from drumlin.metadata.store.changes import Change
from drumlin.metadata.store.store import NOTHING_LACKING, Adoption, Alteration


class EmbeddedMetadata:
    """See `store.MetadataStore` for the contracts of its methods."""

    #: Broker epochs are not needed: the store is beside the logs, and as old as they are.
    broker_epoch: Final = NO_EPOCH
    last_broker_epoch: Final = None

    def __init__(
        self, store: SqliteMetadata, node_id: int, configs_of: Callable[[str], LogConfig]
    ) -> None:
        """`configs_of`: returns a topic's configuration."""
        self._store = store
        self._node_id = node_id
        self._controller = Controller(store, [node_id], configs_of, self._publish)
        #: A future that is done when listeners have handled the last change of brokers or
        #: partitions.
        self._followed: asyncio.Future[None] | None = None
        # These methods do not need the controller.
        self.image = store.image
        self.deleted_topics = store.deleted_topics
        self.on_change = store.on_change
        self.create_topic = store.create_topic
        self.add_partitions = store.add_partitions
        self.partition_count = store.partition_count
        self.delete_topic = store.delete_topic
        self.was_deleted = store.was_deleted
        self.was_any_deleted = store.was_any_deleted
        self.note_folders_left = store.note_folders_left
        self.next_producer_id_block = store.next_producer_id_block
        self.close = store.close

    def _publish(self, change: Change, quiet_for: int | None) -> None:
        if quiet_for is None:
            self._followed = self._store.listeners.tell(change)

    async def _follow(self) -> None:
        """Wait until listeners have handled the changes so far."""
        if self._followed is not None and not self._followed.done():
            await asyncio.wait([self._followed])

    @property
    def adoption(self) -> Adoption | None:
        return self._store.adoption

    @property
    def elections(self) -> ElectionCounts:
        return self._controller.elections

    @property
    def controller_queue(self) -> int:
        return self._controller.queue

    async def register_broker(
        self, broker: BrokerState, *, lacking: Mapping[PartitionId, Returned] = NOTHING_LACKING
    ) -> None:
        await self._controller.register(broker, lacking)
        await self._follow()

    async def unregister_broker(self, node_id: int) -> None:
        check_can_unregister(node_id, is_alive=node_id == self._node_id, is_registered=False)

    def register_no_more(self) -> None:
        """Nothing to do, as the broker registers only once."""

    async def hand_over(self) -> None:
        """Nothing to do, as there is no other broker."""

    async def leave_isrs(self, partitions: Collection[PartitionId]) -> None:
        await self._controller.leave(self._node_id, dict.fromkeys(partitions, Returned(None)))
        await self._follow()

    async def advance_leader_epochs(
        self, partitions: Collection[PartitionId] | None = None
    ) -> None:
        await self._controller.advance(self._node_id, partitions)

    async def alter_isrs(self, requests: Mapping[PartitionId, IsrRequest]) -> Outcomes:
        outcomes = await self._controller.alter_isrs(self._node_id, requests)
        await self._follow()
        return outcomes

    async def reassign(
        self, targets: Mapping[PartitionId, Target | None], *, may_change_factor: bool = True
    ) -> Outcomes:
        outcomes = await self._controller.reassign(targets, may_change_factor=may_change_factor)
        await self._follow()
        return outcomes

    async def elect_leaders(
        self, partitions: Collection[PartitionId], *, is_unclean: bool
    ) -> Outcomes:
        outcomes = await self._controller.elect_leaders(partitions, is_unclean=is_unclean)
        await self._follow()
        return outcomes

    async def alter_configs(self, resource: Resource, alteration: Alteration) -> None:
        await self._controller.alter_configs(resource, alteration)
        await self._follow()
