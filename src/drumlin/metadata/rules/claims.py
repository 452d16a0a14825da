"""Checks of claims in requests about brokers and epochs, against the metadata. Pure.

Any client may send such requests. A claim that the metadata does not support is either ahead of
this broker's metadata, or a lie that would fence honest brokers. It is refused with a retriable
error, as the metadata may support it later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from drumlin.metadata.names import TRANSACTION_STATE

if TYPE_CHECKING:
    from uuid import UUID

    from drumlin.metadata.image import ClusterImage


def is_process(image: ClusterImage, node_id: int, broker_epoch: int) -> bool:
    """Whether a broker is alive with exactly this broker epoch (KIP-903)."""
    broker = image.brokers.get(node_id)
    return broker is not None and broker.epoch == broker_epoch


def may_coordinate(image: ClusterImage, coordinator_epoch: int) -> bool:
    """Whether a transaction coordinator may have this epoch, which is a leader epoch of its
    partition.
    """
    topic = image.topics.get(TRANSACTION_STATE)
    partitions = () if topic is None else topic.partitions
    return coordinator_epoch <= 0 or any(
        coordinator_epoch <= each.leader_epoch for each in partitions
    )


def may_lead(image: ClusterImage, topic_id: UUID, index: int, leader_epoch: int) -> bool:
    """Whether a partition may have this leader epoch; true for an unknown partition."""
    topic = image.topics_by_id.get(topic_id)
    state = None if topic is None else topic.partition(index)
    return state is None or leader_epoch <= state.leader_epoch
