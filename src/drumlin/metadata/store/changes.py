"""Changes of metadata: the events that a store reports, on the event loop.

A change is reported when it is durable and the image shows it, whether this broker has made it or
another broker of the cluster.
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
    """`keeps_records`: another topic has its name now, though no deletion is known."""

    topic: TopicState
    keeps_records: bool = False


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    """`topic` is the topic including the new partitions."""

    topic: TopicState
    partitions: tuple[PartitionState, ...]


@dataclass(frozen=True, slots=True)
class PartitionsChanged:
    """Leader, ISR or replicas of some partitions have changed; `topic` includes the new states."""

    topic: TopicState
    partitions: tuple[PartitionState, ...]


@dataclass(frozen=True, slots=True)
class BrokersChanged:
    """A broker has started, died or restarted; or the controller is another broker."""


@dataclass(frozen=True, slots=True)
class ConfigsChanged:
    """`configs` is the whole configuration of the resource now."""

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
