"""Changes of metadata: the events that a store reports, on the event loop.

A change by this broker or another one is reported when it is durable and the image shows it.
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
    """`keeps_records`: another topic has the name now, but no deletion is known."""

    topic: TopicState
    keeps_records: bool = False


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    """Partitions were added. `topic` includes the new partitions."""

    topic: TopicState
    partitions: tuple[PartitionState, ...]


@dataclass(frozen=True, slots=True)
class PartitionsChanged:
    """The leader, ISR or replicas of some partitions have changed; `topic` includes the new
    states.
    """

    topic: TopicState
    partitions: tuple[PartitionState, ...]


@dataclass(frozen=True, slots=True)
class BrokersChanged:
    """A broker has started, died or restarted, or another broker is the controller."""


@dataclass(frozen=True, slots=True)
class ConfigsChanged:
    """A configuration has changed. `configs` is the resource's new configuration, as a whole."""

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
