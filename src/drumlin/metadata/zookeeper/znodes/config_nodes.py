"""Configurations in ZooKeeper, of all types of resources: their nodes' paths and contents, and the
announcements of changes. Pure.

ACLs and delegation tokens have their own parent nodes (`acl_nodes.py`, `token_nodes.py`); all other
configurations are below `/config` (`layout.py`). A user's credentials and quotas share a node
(`owner_nodes.py`).
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
from drumlin.metadata.zookeeper.znodes.owner_nodes import OWNERS, part_of, written
from drumlin.metadata.zookeeper.znodes.token_nodes import (
    TOKEN_CHANGES,
    decode_token,
    decode_token_change,
    encode_token,
    encode_token_change,
    token_path,
)

#: The parents of announcements, and the functions that decode these.
ANNOUNCED: Final[Mapping[str, Callable[[str, bytes], list[Resource]]]] = {
    layout.CONFIG_CHANGES: layout.decode_config_change,
    **dict.fromkeys(ACL_CHANGES, decode_acl_change),
    TOKEN_CHANGES: decode_token_change,
}

#: Types of resources whose node is removed when it has no contents.
_REMOVED: Final = (ResourceType.ACL, ResourceType.TOKEN)


def node_path(resource: Resource) -> str:
    """The path of the node with the resource's configuration."""
    if resource.type is ResourceType.TOKEN:
        return token_path(resource)
    return acl_path(resource) if _is_acl(resource) else layout.config_path(resource)


def decode_node(resource: Resource, data: bytes) -> dict[str, str]:
    """The whole content of the node."""
    if _is_acl(resource):
        return decode_acls(acl_path(resource), data)
    if resource.type is ResourceType.TOKEN:
        return decode_token(token_path(resource), data)
    if resource.type in OWNERS and not data:  # only a parent of other nodes; Kafka creates it empty
        return {}
    return layout.decode_configs(layout.config_path(resource), data)


def shown(resource: Resource, configs: Mapping[str, str]) -> dict[str, str]:
    """The part of a node's configuration that belongs to this resource in the image."""
    return part_of(resource, configs) if resource.type in OWNERS else dict(configs)


def put_node(
    resource: Resource, configs: Mapping[str, str], version: int | None
) -> Iterator[Operation]:
    """Replace the node's content. `version`: the node's version; None if there is no node.

    A node without ACLs, or without a token, is removed, as in Kafka.
    """
    path = node_path(resource)
    if resource.type in _REMOVED and not configs:
        if version is not None:
            yield Delete(path, version)
        return
    data = _encoded(resource, configs)
    yield Create(path, data) if version is None else Replace(path, data, version)


def _encoded(resource: Resource, configs: Mapping[str, str]) -> bytes:
    if _is_acl(resource):
        return encode_acls(configs)
    if resource.type is ResourceType.TOKEN:
        return encode_token(configs)
    return layout.encode_configs(written(configs) if resource.type in OWNERS else configs)


def change_node(
    resource: Resource, configs: Mapping[str, str], version: int | None
) -> Iterator[Operation]:
    """Like `put_node`, and announce the change."""
    yield from put_node(resource, configs, version)
    if resource.type is ResourceType.TOPIC:
        yield Check(layout.topic_path(resource.name))  # fails if the topic has been deleted
    if _is_acl(resource):
        beginning, change = encode_acl_change(resource)
    elif resource.type is ResourceType.TOKEN:
        beginning, change = encode_token_change(resource)
    else:
        beginning = layout.CONFIG_CHANGE_PREFIX
        change = layout.encode_config_change(resource)
    yield Create(beginning, change, is_sequence=True)


def _is_acl(resource: Resource) -> bool:
    return resource.type is ResourceType.ACL
