"""The partitions that this broker follows: their leaders, and the fetchers that copy them.

Keeps the registry and the fetchers in step with the roles that `hosted_partitions.py` assigns.
"""

from __future__ import annotations

from drumlin.metadata.image import NO_LEADER, PartitionState, TopicState
from drumlin.metadata.rules.eligible import remembered
from drumlin.replication.fetchers import Fetchers
from drumlin.replication.followed_partition import FollowedPartition
from drumlin.replication.partition_registry import PartitionRegistry
from drumlin.storage.log.partition_log import PartitionLog


class Followers:
    """See the module."""

    def __init__(self, node_id: int, partitions: PartitionRegistry, fetchers: Fetchers) -> None:
        self._node_id = node_id
        self._partitions = partitions
        self._fetchers = fetchers

    def follow(self, topic: TopicState, state: PartitionState, log: PartitionLog) -> None:
        """Follow the current leader of a partition; if it has none, wait for one."""
        known = self._partitions.find_followed(topic.name, state.index)
        if (
            known is not None
            and known.has(log)
            and known.leader_epoch >= state.leader_epoch
            and known.leader_id == state.leader
        ):
            known.note_in_sync(is_in_sync=self._node_id in state.isr)
            known.may_lead_instead = self._node_id in remembered(state)
            return
        self.forget(topic.name, state.index)
        followed = FollowedPartition(log, state.leader, state.leader_epoch)
        followed.is_in_sync = self._node_id in state.isr
        followed.may_lead_instead = self._node_id in remembered(state)
        self._partitions.add_followed(followed)
        if state.leader != NO_LEADER:
            self._fetchers.follow(followed)

    def pause_while_offline(self, topic: str, index: int) -> None:
        """Stop fetching a partition whose log dir has failed, so that its leader does not wait."""
        self._fetchers.pause_while_offline(topic, index)

    def forget(self, topic: str, index: int) -> None:
        """Stop following: this broker leads the partition, or has no replica of it."""
        followed = self._partitions.find_followed(topic, index)
        if followed is not None:
            self._fetchers.forget(topic, index)
            self._partitions.remove_followed(topic, index)
            followed.close()
