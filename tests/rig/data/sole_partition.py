"""A partition that has one replica, in place of one that a broker hosts."""

from __future__ import annotations

from drumlin.metadata.image import PartitionState
from drumlin.replication.partition import LeaderContext, Partition
from drumlin.storage.log.partition_log import PartitionLog

_NODE_ID = 1


def sole_partition(log: PartitionLog, leader_epoch: int = 0) -> Partition:
    """Led here, with nobody to wait for."""
    state = PartitionState(log.partition, _NODE_ID, leader_epoch, (_NODE_ID,), (_NODE_ID,))
    context = LeaderContext(
        _NODE_ID, lambda *_: True, lambda _: None, lambda: 30_000.0, lambda *_: None, lambda _: True
    )
    return Partition(log, state, context)
