"""Changes of partition states that any broker makes: as a leader, a replica, or for an operator.

Decisions are made on the stored states, and writes fenced by the broker's registration.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from drumlin.metadata.image import PartitionId, PartitionState, TopicState
from drumlin.metadata.rules import decisions
from drumlin.metadata.rules.decisions import Decision
from drumlin.metadata.rules.election_log import BY_CONFIG, BY_REQUEST
from drumlin.metadata.rules.isr_requests import IsrRequest
from drumlin.metadata.rules.leadership import NO_EPOCH, Returned
from drumlin.metadata.store.mutations import find_partitions
from drumlin.metadata.zookeeper.leadership.rewriting import rewrite_in_parts
from drumlin.metadata.zookeeper.parts import Parts
from drumlin.metadata.zookeeper.states.partition_states import unwritten
from drumlin.metadata.zookeeper.states.states import Place, Rewritten
from drumlin.metadata.zookeeper.znodes import layout
from drumlin.metadata.zookeeper.znodes.operations import BrokerFence
from drumlin.wire.error_codes import KafkaError

Outcomes = dict[PartitionId, PartitionState | KafkaError]


class OwnStates:
    """Changes of partition states by one store's broker."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._image = parts.image
        self._node_id = parts.config.node_id

    async def alter_isrs(self, requests: Mapping[PartitionId, IsrRequest]) -> Outcomes:
        """See `store.MetadataStore.alter_isrs`."""
        written = await self._rewrite(requests, decisions.isr_altered(requests, self._node_id))
        return written.outcomes(requests)

    async def elect_leaders(
        self, partitions: Collection[PartitionId], *, is_unclean: bool
    ) -> Outcomes:
        """See `store.MetadataStore.elect_leaders`."""
        decide = decisions.leader_elected(is_unclean=is_unclean)
        return (await self._rewrite(partitions, decide, why=BY_REQUEST)).outcomes(partitions)

    async def advance(self, partitions: Collection[PartitionId] | None) -> None:
        """See `store.MetadataStore.advance_leader_epochs`."""
        node_id = self._node_id
        if partitions is None:
            partitions = await find_partitions(self._image, lambda it: it.leader == node_id)
        places = await self._parts.places(partitions)
        decide = decisions.leader_epoch_begun(self._node_id)
        written = await rewrite_in_parts(self._parts, places, decide, self._parts.writer)
        led = {
            partition: state
            for partition, state in written.stored.items()
            if state.leader == self._node_id  # others are reported when their notification is read
        }
        await self._parts.states.take(led, is_told=False)
        for error in written.errors.values():
            raise error

    async def complete(self, topic: TopicState, missing: Collection[str]) -> TopicState:
        """Write the states of new partitions with these paths, which did not fit into one
        transaction.

        In the returned topic, the states of these partitions count as older than any stored one.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        topic = unwritten(
            topic,
            {
                each.index
                for each in topic.partitions
                if layout.state_path(topic.name, each.index) in missing
            },
        )
        rules = self._parts.rules(topic.name)
        places = [
            Place(topic.topic_id, rules, each)
            for each in topic.partitions
            if each.partition_epoch == NO_EPOCH
        ]
        parts = self._parts
        written = await rewrite_in_parts(parts, places, decisions.unchanged, parts.writer)
        await self._parts.states.take(written.stored)
        for error in written.errors.values():
            raise error
        return topic

    async def leave(self, lacking: Mapping[PartitionId, Returned], fence: BrokerFence) -> None:
        """Note that this broker may lack records in these partitions.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        decide = decisions.replica_returned(lacking, self._node_id)
        self._check(await self._rewrite(lacking, decide, fence))

    async def hand_over(self, fence: BrokerFence) -> None:
        """See `store.MetadataStore.hand_over`; `fence` has the new broker epoch."""
        node_id = self._node_id
        replicated = await find_partitions(
            self._image, lambda it: node_id in it.isr and len(it.isr) > 1
        )
        decide = decisions.leadership_handed_over(node_id)
        self._check(await self._rewrite(replicated, decide, fence))

    def _check(self, written: Rewritten) -> None:
        if written.failure is not None:
            raise written.failure
        for error in written.errors.values():
            self._parts.report(str(error))

    async def _rewrite(
        self,
        partitions: Iterable[PartitionId],
        decide: Decision,
        fence: BrokerFence | None = None,
        why: str = BY_CONFIG,
    ) -> Rewritten:
        """Change states, and wait until listeners have handled the changes."""
        places = await self._parts.places(partitions)
        written = await rewrite_in_parts(
            self._parts, places, decide, lambda: self._parts.writer(fence), why=why
        )
        for telling in await self._parts.states.take(written.stored):
            await telling
        return written
