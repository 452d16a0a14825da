"""What can happen to the metadata: the events that a store reports, on the event loop.

A change is reported after it is durable and after the image shows it, wherever it was made: by this
broker, or another one of the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from drumlin.metadata.image import PartitionState, Resource, TopicState


@dataclass(frozen=True, slots=True)
class TopicCreated:
    topic: TopicState
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """`keeps_records`: another topic has its name now, and nobody knows of a deletion."""

    topic: TopicState
    keeps_records: bool = False


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    """`topic` is the topic with them."""

    topic: TopicState
    partitions: tuple[PartitionState, ...]


@dataclass(frozen=True, slots=True)
class PartitionsChanged:
    """Leader, in-sync replicas or replicas of some partitions; `topic` is the topic with them."""

    topic: TopicState
    partitions: tuple[PartitionState, ...]


@dataclass(frozen=True, slots=True)
class BrokersChanged:
    """A broker has come, has gone, or is another process now; or another one is the controller."""


@dataclass(frozen=True, slots=True)
class ConfigsChanged:
    """`configs` is everything that is set for the resource now."""

    resource: Resource
    configs: Mapping[str, str]


Change = (
    TopicCreated
    | TopicDeleted
    | PartitionsAdded
    | PartitionsChanged
    | BrokersChanged
    | ConfigsChanged
)
