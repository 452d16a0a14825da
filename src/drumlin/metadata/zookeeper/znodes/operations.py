"""The operations of ZooKeeper transactions that make up a mutation. Pure.

The size of a transaction is limited. A change of very many nodes needs several: the first one
decides, and a broker that finds later ones missing completes them (`following.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from drumlin.metadata.image import PartitionState, Resource, ResourceType, TopicState
from drumlin.metadata.rules.leadership import NO_EPOCH
from drumlin.metadata.zookeeper.znodes import layout, own_layout
from drumlin.metadata.zookeeper.znodes.eligible_json import eligible_of
from drumlin.metadata.zookeeper.znodes.layout import Folders, StateNode

#: ZooKeeper's `jute.maxbuffer` is 1 MiB, and each operation has a header besides path and data.
_TRANSACTION_BYTES_MAX: Final = 700_000
_NODE_BYTES_MAX: Final = 680_000
_OPERATION_BYTES: Final = 64
ANY_VERSION: Final = -1


class Create(NamedTuple):
    path: str
    data: bytes = b""
    is_ephemeral: bool = False
    is_sequence: bool = False


class Replace(NamedTuple):
    """Replaces the data of a node if the node has this version."""

    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Deletes a node if it has this version."""

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Fails the transaction unless the node exists and has this version."""

    path: str
    version: int = ANY_VERSION


Operation = Create | Replace | Delete | Check
Transaction = Sequence[Operation]


def broker_checks(node_id: int, epoch: int) -> tuple[Check, Check]:
    """The checks that a broker is registered in this epoch."""
    return (
        Check(own_layout.broker_epoch_path(node_id), epoch),
        Check(layout.broker_path(node_id), 0),  # the node's data is never replaced
    )


class BrokerFence(NamedTuple):
    """A fence around a broker's writes, which fail once it has lost its registration."""

    node_id: int
    epoch: int
    is_registered: bool = True

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks, which fail if the registration was lost."""
        checks = broker_checks(self.node_id, self.epoch)
        return checks if self.is_registered else checks[:1]


class ControllerFence(NamedTuple):
    """A controller's epoch, and the version of the epoch's znode: a fence around its writes."""

    epoch: int
    version: int

    @property
    def checks(self) -> tuple[Check, ...]:
        return (Check(layout.CONTROLLER_EPOCH, self.version),)


Fence = BrokerFence | ControllerFence


def none_at(path: str) -> tuple[Operation, Operation]:
    """Operations that make the transaction fail if the node exists, without firing watches."""
    return Create(path), Delete(path)


class NodeTooLarge(Exception):
    """A node would be larger than ZooKeeper allows."""


def transactions(
    operations: Iterable[Operation], first: Sequence[Operation]
) -> Iterator[list[Operation]]:
    """The operations in as few transactions as possible, each of which begins with `first`.

    Raises:
        NodeTooLarge: a single operation is too large.
    """
    part: list[Operation] = [*first]
    size = 0
    for each in operations:
        data_size = len(each.data) if isinstance(each, (Create, Replace)) else 0
        if data_size > _NODE_BYTES_MAX:
            raise NodeTooLarge(f"{each.path} would have {data_size} bytes")
        size += len(each.path) + data_size + _OPERATION_BYTES
        if size > _TRANSACTION_BYTES_MAX and len(part) > len(first):
            yield part
            part, size = [*first], len(each.path) + data_size + _OPERATION_BYTES
        part.append(each)
    yield part


def create_topic(
    topic: TopicState, configs: Mapping[str, str], epoch: int, *, has_configs: bool
) -> Iterator[Operation]:
    """Create a topic, with its configuration and its node in the first transaction."""
    path = layout.config_path(Resource(ResourceType.TOPIC, topic.name))
    data = layout.encode_configs(configs)
    yield Replace(path, data) if has_configs else Create(path, data)
    assignments = [each.assignment for each in topic.partitions]
    yield Create(
        layout.topic_path(topic.name), layout.encode_assignments(topic.topic_id, assignments)
    )
    yield Create(layout.partitions_path(topic.name))
    yield from create_partitions(topic.name, topic.partitions, epoch)


def add_partitions(
    topic: TopicState,
    stored: layout.TopicNode,
    added: Sequence[PartitionState],
    version: int,
    epoch: int,
) -> Iterator[Operation]:
    """Add partitions to a topic whose node has the content `stored` and this version."""
    assignments = [*stored.assignments(), *(each.assignment for each in added)]
    data = layout.encode_assignments(topic.topic_id, assignments)
    yield Replace(layout.topic_path(topic.name), data, version)
    yield from create_partitions(topic.name, added, epoch)


def create_partitions(
    name: str, partitions: Iterable[PartitionState], epoch: int
) -> Iterator[Operation]:
    for each in partitions:
        if each.leader_epoch != NO_EPOCH:
            yield Create(layout.partition_path(name, each.index))
            yield Create(layout.state_path(name, each.index), state_data(each, epoch))


def state_data(state: PartitionState, controller_epoch: int) -> bytes:
    eligible = eligible_of(state)
    node = StateNode(state.leader, state.leader_epoch, state.isr, controller_epoch, eligible)
    return layout.encode_state(node)


def mark_deleted(topic: TopicState, known_ids: Iterable[int]) -> Create:
    """Note the deletion of a topic, whose folders may be in any log dir of these brokers.

    These are all known brokers, even those without a replica. The deletion is forgotten once each
    broker has noted that it has no folders.
    """
    brokers = {*known_ids, *(each for state in topic.partitions for each in state.replicas)}
    folders: Folders = dict.fromkeys(sorted(brokers))
    return Create(layout.deleted_path(topic.topic_id), layout.encode_folders(folders))
