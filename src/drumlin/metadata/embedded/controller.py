"""The controller of the brokers of one machine, in the process that owns their store.

The controller registers brokers, changes partitions on their requests, and elects leaders that are
alive and in sync. It knows nothing of channels: each call names the broker that makes the request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Final
from uuid import UUID

from drumlin.config.topic import LogConfig
from drumlin.metadata.embedded.partition_states import Outcomes, PartitionStates, Wanted
from drumlin.metadata.embedded.sqlite import SqliteMetadata
from drumlin.metadata.image import (
    NO_LEADER,
    BrokerState,
    PartitionId,
    PartitionState,
    Resource,
    ResourceType,
    TopicState,
)
from drumlin.metadata.rules import decisions
from drumlin.metadata.rules.decisions import Alive, Decision, Target, TopicRules
from drumlin.metadata.rules.election_counts import ElectionCounts
from drumlin.metadata.rules.election_log import BY_REQUEST
from drumlin.metadata.rules.isr_requests import IsrRequest
from drumlin.metadata.rules.leadership import Returned, is_settled
from drumlin.metadata.store.changes import BrokersChanged, PartitionsChanged
from drumlin.metadata.store.store import Alteration
from drumlin.wire.error_codes import ErrorCode, KafkaError

_log = logging.getLogger(__name__)

#: The pause before a stopping broker hands over: all brokers may be stopping at once, after a
#: signal to each.
_TOGETHER_S: Final = 0.3
#: The epoch of a single broker: its store is as old as its logs, so no epochs are needed.
_ONLY_EPOCH: Final = 0
#: Keys of topics and brokers that determine which replicas may lead.
_LEADER_KEYS: Final = frozenset({"min.insync.replicas", "unclean.leader.election.enable"})


class Controller:
    """See the module."""

    def __init__(
        self,
        store: SqliteMetadata,
        node_ids: Collection[int],
        configs_of: Callable[[str], LogConfig],
        publish: Callable[[BrokersChanged | PartitionsChanged, int | None], None],
    ) -> None:
        """
        Args:
            node_ids: the ids of all brokers. No broker is served before all are registered.
            configs_of: returns a topic's configuration.
            publish: called in the turn in which the image shows a change of brokers or partitions,
                with the id of a broker that already knows of the change. The store reports other
                changes.
        """
        self._store = store
        self._image = store.image
        self._node_ids = frozenset(node_ids)
        self._publish = publish
        self._states = PartitionStates(store, configs_of, publish)
        self._missing = set(node_ids)
        self._all_there = asyncio.Event()
        self._is_adopted = asyncio.Event()
        self._is_stopping = False
        if not store.is_new:
            self._is_adopted.set()

    @property
    def elections(self) -> ElectionCounts:
        return self._states.elections

    @property
    def queue(self) -> int:
        """The number of changes that wait to be made."""
        return self._states.waiting

    def now(self) -> float:
        """The current time, for `remove`."""
        return self.elections.clock.monotonic()

    def stop(self) -> None:
        """Elect no more leaders, as all brokers are about to stop."""
        self._is_stopping = True

    # -- brokers -----------------------------------------------------------------------

    async def register(self, broker: BrokerState, lacking: Mapping[PartitionId, Returned]) -> int:
        """Register a broker; returns its broker epoch. See `MetadataStore.register_broker`."""
        node_id = broker.node_id
        await self.leave(node_id, lacking)
        epoch = await self._next_epoch(node_id)
        self._image.put_broker(replace(broker, epoch=epoch))
        self._brokers_changed()
        await self._await_others(node_id)
        return epoch

    async def _next_epoch(self, node_id: int) -> int:
        if len(self._node_ids) == 1:
            return _ONLY_EPOCH
        return await self._store.next_broker_epoch(node_id)

    async def _await_others(self, node_id: int) -> None:
        """Wait until all brokers have started, so that new topics use all of them."""
        is_start = bool(self._missing)
        self._missing.discard(node_id)
        if self._missing:
            await self._all_there.wait()
        else:
            await self._settle(is_start=is_start)
            self._all_there.set()
        if node_id != min(self._node_ids):
            await self._is_adopted.wait()  # adopted logs may raise the next producer id

    async def remove(self, node_id: int, since: float) -> None:
        """Elect other leaders for a broker whose process was found to have ended at `since`."""
        if self._image.brokers.get(node_id) is None:
            return
        self._image.remove_broker(node_id)
        self._brokers_changed()
        if not self._is_stopping:
            try:
                await self._settle(since=since)
            except KafkaError as error:  # tried again when a broker comes or goes
                _log.error("no leaders were elected in place of broker %d: %s", node_id, error)

    def _brokers_changed(self) -> None:
        self._image.controller_id = min(self._image.brokers, default=NO_LEADER)
        self._publish(BrokersChanged(), None)

    async def leave(self, node_id: int, lacking: Mapping[PartitionId, Returned]) -> None:
        """Note partitions in which a broker may lack records."""
        if lacking:
            await self._rewrite(decisions.replica_returned(lacking, node_id), lacking)

    async def hand_over(self, node_id: int) -> int | None:
        """Controlled shutdown of a broker; returns its new broker epoch, None if unchanged."""
        if len(self._node_ids) == 1:
            return None  # there is no other broker
        await asyncio.sleep(_TOGETHER_S)
        broker = self._image.brokers.get(node_id)
        if self._is_stopping or broker is None:
            return None
        # No leader knows the new epoch, so none adds the broker to an ISR again (KIP-903).
        epoch = await self._next_epoch(node_id)
        self._image.put_broker(replace(broker, epoch=epoch))
        decide = decisions.leadership_handed_over(node_id)
        await self._rewrite(decide, lambda state: node_id in state.isr and len(state.isr) > 1)
        return epoch

    async def note_adopted(self, first_producer_id: int) -> None:
        await self._store.note_adopted(first_producer_id)
        self._is_adopted.set()

    # -- partitions --------------------------------------------------------------------

    async def advance(self, node_id: int, partitions: Collection[PartitionId] | None) -> None:
        """See `MetadataStore.advance_leader_epochs`; the broker is not notified."""

        def is_led(state: PartitionState) -> bool:
            return state.leader == node_id

        wanted = is_led if partitions is None else partitions
        await self._rewrite(decisions.leader_epoch_begun(node_id), wanted, quiet_for=node_id)

    async def alter_isrs(
        self, node_id: int, requests: Mapping[PartitionId, IsrRequest]
    ) -> Outcomes:
        outcomes = await self._states.rewrite(decisions.isr_altered(requests, node_id), requests)
        moving = [each for each, state in outcomes.items() if _is_moving(state)]
        if moving:
            await self._rewrite(decisions.reassignment_completed, moving)
        return outcomes

    async def elect_leaders(
        self, partitions: Collection[PartitionId], *, is_unclean: bool
    ) -> Outcomes:
        decide = decisions.leader_elected(is_unclean=is_unclean)
        return await self._states.rewrite(decide, partitions, why=BY_REQUEST)

    async def reassign(
        self, targets: Mapping[PartitionId, Target | None], *, may_change_factor: bool
    ) -> Outcomes:
        decide = decisions.replicas_moved(targets, may_change_factor=may_change_factor)
        return await self._states.rewrite(decide, targets)

    async def _settle(
        self,
        topics: Collection[UUID] | None = None,
        *,
        is_start: bool = False,
        since: float | None = None,
    ) -> None:
        """Replace dead leaders, remove dead ISR members, complete reassignments."""
        settle = decisions.settled_at_start if is_start else decisions.leader_settled

        def is_wanted(state: PartitionState) -> bool:
            if is_start and state.leader != state.replicas[0]:
                return True
            return state.is_reassigned or not is_settled(state, self._image.brokers)

        def decide(
            partition: PartitionId, state: PartitionState, rules: TopicRules, alive: Alive
        ) -> PartitionState:
            after = settle(partition, state, rules, alive)
            return decisions.reassignment_completed(partition, after, rules, alive)

        await self._rewrite(decide, is_wanted, topics=topics, since=since)

    async def settle_new(self, topic: TopicState, first_index: int = 0) -> None:
        """Settle new partitions, as a broker may have died while they were created."""
        new = topic.partitions[first_index:]
        if any(each.leader not in self._image.brokers for each in new):
            await self._settle([topic.topic_id])

    async def _rewrite(
        self,
        decide: Decision,
        wanted: Wanted,
        *,
        topics: Collection[UUID] | None = None,
        quiet_for: int | None = None,
        since: float | None = None,
    ) -> None:
        """Change partitions; a refused change is not an error.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        outcomes = await self._states.rewrite(
            decide, wanted, topics=topics, quiet_for=quiet_for, since=since
        )
        for error in outcomes.values():
            if isinstance(error, KafkaError) and error.code is ErrorCode.kafka_storage_error:
                raise error

    async def alter_configs(self, resource: Resource, alteration: Alteration) -> None:
        """See `MetadataStore.alter_configs`; the change may allow another replica to lead."""
        changes: Mapping[str, str | None] = {}

        def noted(current: Mapping[str, str]) -> Mapping[str, str | None]:
            nonlocal changes
            changes = alteration(current)
            return changes

        await self._store.alter_configs(resource, noted)
        if not _LEADER_KEYS.isdisjoint(changes):
            is_topic = resource.type is ResourceType.TOPIC
            topic = self._image.topics.get(resource.name) if is_topic else None
            await self._settle(None if topic is None else [topic.topic_id])


def _is_moving(outcome: PartitionState | KafkaError) -> bool:
    return isinstance(outcome, PartitionState) and outcome.is_reassigned
