"""Reading of the metadata in ZooKeeper, many nodes at once. Blocking.

An unreadable node is reported as a problem of its topic or configuration, and does not affect
others.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from drumlin.config.topic import parse_overrides
from drumlin.metadata.image import (
    PartitionState,
    ReplicaAssignment,
    Resource,
    ResourceType,
    TopicState,
)
from drumlin.metadata.rules.leadership import never_led
from drumlin.metadata.zookeeper.session.session import Session
from drumlin.metadata.zookeeper.states.states import known_state, read_state
from drumlin.metadata.zookeeper.znodes import (
    acl_nodes,
    config_nodes,
    layout,
    own_layout,
    owner_nodes,
    token_nodes,
)
from drumlin.metadata.zookeeper.znodes.layout import Folders, StateNode
from drumlin.metadata.zookeeper.znodes.own_layout import AdoptionNode
from drumlin.storage.directory.partition_metadata import decode_uuid
from drumlin.wire.error_codes import KafkaError
from drumlin.zookeeper.nodes import UnreadableNode

#: The parent of ZooKeeper's own nodes. It is at the root, so a chroot has no such node.
_ITS_OWN: Final = "zookeeper"


class SeenTopic(NamedTuple):
    """A topic, as read from its nodes."""

    name: str
    topic_id: UUID | None
    partitions: tuple[PartitionState, ...]
    version: int  # that of the topic's own node


class SeenTopics(NamedTuple):
    """Stored topics, names without a node, and problems of unreadable nodes."""

    found: list[SeenTopic]
    missing: list[str]
    problems: list[str]


def read_topics(
    session: Session, names: Sequence[str], known: Mapping[str, TopicState], *, is_all: bool
) -> SeenTopics:
    """Read these topics, and watch existing ones.

    is_all: return all topics, not only those that differ from the known ones.
    """
    paths = [layout.topic_path(name) for name in names]
    seen = SeenTopics([], [], [])
    found: list[tuple[str, layout.TopicNode, int]] = []
    for name, path, node in zip(names, paths, session.read(paths, is_watched=True), strict=True):
        if node is None:
            seen.missing.append(name)
            continue
        try:
            topic = layout.decode_topic(path, node.data)
        except UnreadableNode as error:
            seen.problems.append(str(error))
            continue
        if is_all or not _is_same(topic, known.get(name)):
            found.append((name, topic, node.version))
    places = [(name, index) for name, topic, _ in found for index in range(len(topic.replicas))]
    states = _read_states(session, places)
    for name, topic, version in _read_again(session, found):
        try:
            partitions = tuple(
                _state(states, name, index, topic.assignment(index))
                for index in range(len(topic.replicas))
            )
        except UnreadableNode as error:
            seen.problems.append(str(error))
        else:
            seen.found.append(SeenTopic(name, topic.topic_id, partitions, version))
    return seen


def _read_again(
    session: Session, found: Sequence[tuple[str, layout.TopicNode, int]]
) -> list[tuple[str, layout.TopicNode, int]]:
    """The topics' nodes, read again after their states; without new partitions.

    Replicas and state change in one transaction, and the replicas must not be older than the state.
    """
    paths = [layout.topic_path(name) for name, _, _ in found]
    current = []
    for (name, topic, version), node in zip(found, session.read(paths), strict=True):
        if node is not None and node.version != version:
            with contextlib.suppress(UnreadableNode):  # reported by the next read
                again = layout.decode_topic(layout.topic_path(name), node.data)
                count = len(topic.replicas)
                if again.topic_id == topic.topic_id and len(again.replicas) >= count:
                    topic = again._replace(replicas=again.replicas[:count])
        current.append((name, topic, version))
    return current


def _is_same(node: layout.TopicNode, known: TopicState | None) -> bool:
    return (
        known is not None
        and known.topic_id == node.topic_id
        and len(known.partitions) == len(node.replicas)
    )


_States = Mapping[tuple[str, int], tuple[StateNode, int] | UnreadableNode | None]


def _read_states(session: Session, places: Sequence[tuple[str, int]]) -> _States:
    paths = [layout.state_path(*place) for place in places]
    found: dict[tuple[str, int], tuple[StateNode, int] | UnreadableNode | None] = {}
    for place, path, node in zip(places, paths, session.read(paths), strict=True):
        try:
            found[place] = None
            if node is not None:
                found[place] = read_state(session, path, node)
        except UnreadableNode as error:
            found[place] = error
    return found


def _state(states: _States, name: str, index: int, assignment: ReplicaAssignment) -> PartitionState:
    state = states[name, index]
    if isinstance(state, UnreadableNode):
        raise state
    if state is None:
        return never_led(index, assignment.replicas)
    return known_state(index, assignment, *state)


def config_names(session: Session, *, has_acls: bool, has_tokens: bool) -> list[Resource]:
    """The resources that have a configuration. `has_acls`, `has_tokens`: whether to include ACLs
    and delegation tokens.
    """
    kinds = layout.config_kinds()
    names = session.children_of(list(kinds))
    found = [
        layout.resource_named(kind, name)
        for kind, each in zip(kinds.values(), names, strict=True)
        for name in each
    ]
    for entity in _entities(session):
        found += owner_nodes.owners_at(entity)
    parents = list(acl_nodes.ACL_PARENTS) if has_acls else []
    for parent, each in zip(parents, session.children_of(parents), strict=True):
        found += [acl_nodes.acl_resource(parent, name) for name in each]
    if has_tokens:
        found += [*map(token_nodes.token_resource, session.children(token_nodes.TOKENS))]
    return found


def _entities(session: Session) -> list[str]:
    """The paths of users and owners of quotas, below `/config`."""
    found = _below(session, owner_nodes.FOLDERS)
    users = [each for each in found if each.startswith(f"{owner_nodes.USERS}/")]
    return found + _below(session, [f"{each}/{owner_nodes.CLIENTS}" for each in users])


def _below(session: Session, folders: Sequence[str]) -> list[str]:
    names = session.children_of([f"/config/{each}" for each in folders])
    return [
        f"{folder}/{name}" for folder, each in zip(folders, names, strict=True) for name in each
    ]


def read_configs(
    session: Session, resources: Sequence[Resource]
) -> tuple[dict[Resource, dict[str, str]], list[str]]:
    """The configurations of resources (empty without a node), and problems of unreadable ones.

    A topic's configuration with an invalid value counts as unreadable. Configurations of brokers
    and groups are checked where they are used.
    """
    paths = [config_nodes.node_path(each) for each in resources]
    found, problems = {}, []
    for resource, path, node in zip(resources, paths, session.read(paths), strict=True):
        try:
            stored = {} if node is None else config_nodes.decode_node(resource, node.data)
            configs = config_nodes.shown(resource, stored)
            if resource.type is ResourceType.TOPIC:
                parse_overrides(configs)
        except UnreadableNode as error:
            problems.append(str(error))
        except KafkaError as error:
            problems.append(f"ZooKeeper's {path} cannot be used: {error.message}")
        else:
            found[resource] = configs
    return found, problems


def read_deleted(
    session: Session, names: Iterable[str] | None = None
) -> tuple[dict[UUID, Folders], list[str]]:
    """Deleted topics with the log dirs of their folders, and problems of unreadable nodes."""
    if names is None:
        names = session.children(layout.DELETED)
    found: dict[UUID, Folders] = {}
    problems = []
    paths = [f"{layout.DELETED}/{name}" for name in names]
    for path, node in zip(paths, session.read(paths), strict=True):
        if node is None:
            continue
        try:
            topic_id = decode_uuid(path.rpartition("/")[2])
            found[topic_id] = layout.decode_folders(path, node.data)
        except UnreadableNode as error:
            problems.append(str(error))
        except ValueError:
            problems.append(f"ZooKeeper's {path} is not called by a topic's id")
    return found, problems


def read_cluster_id(session: Session) -> str | None:
    """The id of the cluster in this chroot; None if there is none.

    Raises:
        UnreadableNode: the content is not a cluster id.
    """
    (node,) = session.read([layout.CLUSTER_ID])
    return None if node is None else layout.decode_cluster_id(node.data)


def read_adoption(session: Session) -> AdoptionNode | None:
    """The progress of the adoption of an embedded store; None if there was none.

    Raises:
        UnreadableNode: the progress is unknown.
    """
    (node,) = session.read([own_layout.ADOPTION])
    return None if node is None else own_layout.decode_adoption(node.data)


def every_node(session: Session) -> list[str]:
    """The paths of all nodes of the chroot, parents before children; without ZooKeeper's own."""
    roots = [f"/{each}" for each in session.children("/") if each != _ITS_OWN]
    return ["/", *(path for root in roots for path in tree_below(session, root))]


def tree_below(session: Session, path: str) -> list[str]:
    """The paths of a node and its descendants, parents before children."""
    found: list[str] = []
    level = [path]
    while level:
        found += level
        names = session.children_of(level)
        level = [
            f"{parent}/{name}" for parent, each in zip(level, names, strict=True) for name in each
        ]
    return found
