"""Configurations in ZooKeeper, whatever has them: where a node is, what it has, and how a change of
it is announced. Pure.

ACLs are in nodes of their own (`acl_nodes.py`), all others below `/config` (`layout.py`). The node
of a user has quotas besides, which stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from drumlin.metadata.image import Resource, ResourceType
from drumlin.metadata.zookeeper.znodes import layout
from drumlin.metadata.zookeeper.znodes.acl_nodes import (
    ACL_CHANGES,
    acl_path,
    decode_acl_change,
    decode_acls,
    encode_acl_change,
    encode_acls,
)
from drumlin.metadata.zookeeper.znodes.operations import Check, Create, Delete, Operation, Replace

#: The configurations of a user that the image has: SCRAM's mechanisms.
_OF_USERS: Final = "SCRAM-"

#: The parents of announcements, and how these are read; None for what is not used here.
ANNOUNCED: Final[Mapping[str, Callable[[str, bytes], Resource | None]]] = {
    layout.CONFIG_CHANGES: layout.decode_config_change,
    **dict.fromkeys(ACL_CHANGES, decode_acl_change),
}


def node_path(resource: Resource) -> str:
    """The path of the node with the resource's configuration."""
    return acl_path(resource) if _is_acl(resource) else layout.config_path(resource)


def decode_node(resource: Resource, data: bytes) -> dict[str, str]:
    """All that the node has."""
    if _is_acl(resource):
        return decode_acls(acl_path(resource), data)
    return layout.decode_configs(layout.config_path(resource), data)


def shown(resource: Resource, configs: Mapping[str, str]) -> dict[str, str]:
    """What the image has of a node's configuration."""
    if resource.type is not ResourceType.USER:
        return dict(configs)
    return {key: text for key, text in configs.items() if key.startswith(_OF_USERS)}


def put_node(
    resource: Resource, configs: Mapping[str, str], version: int | None
) -> Iterator[Operation]:
    """Replace what the node has. `version`: that of the node; None if there is none.

    A node without ACLs is removed, as in Kafka.
    """
    path = node_path(resource)
    data = encode_acls(configs) if _is_acl(resource) else layout.encode_configs(configs)
    if version is None:
        yield Create(path, data)
    elif _is_acl(resource) and not configs:
        yield Delete(path, version)
    else:
        yield Replace(path, data, version)


def change_node(
    resource: Resource, configs: Mapping[str, str], version: int | None
) -> Iterator[Operation]:
    """Like `put_node`, and announce it."""
    yield from put_node(resource, configs, version)
    if resource.type is ResourceType.TOPIC:
        yield Check(layout.topic_path(resource.name))  # fails if the topic has been deleted
    if _is_acl(resource):
        beginning, change = encode_acl_change(resource)
    else:
        beginning = layout.CONFIG_CHANGE_PREFIX
        change = layout.encode_config_change(resource)
    yield Create(beginning, change, is_sequence=True)


def _is_acl(resource: Resource) -> bool:
    return resource.type is ResourceType.ACL
