"""What brokers say of themselves in requests, held against the metadata. Pure.

Any client may send these requests. What goes beyond the metadata is news that this broker has not
got yet, or a lie that would fence those who say the truth: it is never believed, and refused in a
way that has its sender try again, when the news may be there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from drumlin.metadata.names import TRANSACTION_STATE

if TYPE_CHECKING:
    from uuid import UUID

    from drumlin.metadata.image import ClusterImage


def is_process(image: ClusterImage, node_id: int, broker_epoch: int) -> bool:
    """Whether a broker is alive in this very broker epoch (KIP-903)."""
    broker = image.brokers.get(node_id)
    return broker is not None and broker.epoch == broker_epoch


def may_coordinate(image: ClusterImage, coordinator_epoch: int) -> bool:
    """Whether a transaction coordinator may be in this epoch, in which its partition is led."""
    topic = image.topics.get(TRANSACTION_STATE)
    partitions = () if topic is None else topic.partitions
    return coordinator_epoch <= 0 or any(
        coordinator_epoch <= each.leader_epoch for each in partitions
    )


def may_lead(image: ClusterImage, topic_id: UUID, index: int, leader_epoch: int) -> bool:
    """Whether a partition may be led in this epoch. Of one that is not known, nothing is."""
    topic = image.topics_by_id.get(topic_id)
    state = None if topic is None else topic.partition(index)
    return state is None or leader_epoch <= state.leader_epoch
