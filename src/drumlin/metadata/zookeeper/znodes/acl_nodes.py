"""ACLs in ZooKeeper, as Apache Kafka 3.9 stores and announces them. Pure.

A node has all ACLs of one resource pattern. The node of a literal pattern is below `/kafka-acl`,
that of a prefix below `/kafka-acl-extended/prefixed`; each of the two has its own announcements.
In the image the pattern is a resource called `KIND:PATTERN:name`, and each of its ACLs a key: the
JSON list of principal, host, operation and permission.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from drumlin.metadata.image import Resource, ResourceType
from drumlin.zookeeper.nodes import UnreadableNode, as_object, as_text, encode, versioned

_LITERAL: Final = "LITERAL"
_ROOTS: Final = {_LITERAL: "/kafka-acl", "PREFIXED": "/kafka-acl-extended/prefixed"}
#: The parents of announcements of changes, by pattern type.
_CHANGES: Final = {_LITERAL: "/kafka-acl-changes", "PREFIXED": "/kafka-acl-extended-changes"}
ACL_CHANGES: Final = tuple(_CHANGES.values())
_KINDS: Final = ("TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER")
_OPERATIONS: Final = (
    "ALL",
    "READ",
    "WRITE",
    "CREATE",
    "DELETE",
    "ALTER",
    "DESCRIBE",
    "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
    "IDEMPOTENT_WRITE",
    "CREATE_TOKENS",
    "DESCRIBE_TOKENS",
    "TWO_PHASE_COMMIT",
)
_PERMISSIONS: Final = ("ALLOW", "DENY")
_VERSION: Final = 1
#: Characters that ZooKeeper does not allow in a node's name.
_ILLEGAL: Final = re.compile("[/\0-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")


def _written(word: str) -> str:
    """A word as Kafka writes it: DESCRIBE_CONFIGS is DescribeConfigs."""
    return "".join(part.capitalize() for part in word.split("_"))


#: The parents of nodes with ACLs, and the prefixes of their resources' names.
ACL_PARENTS: Final[Mapping[str, str]] = {
    f"{root}/{_written(kind)}": f"{kind}:{pattern}:"
    for pattern, root in _ROOTS.items()
    for kind in _KINDS
}
#: The nodes that Kafka's authorizer creates when it starts.
PERSISTENT: Final = (*ACL_PARENTS, *ACL_CHANGES)


def is_storable(resource: Resource) -> bool:
    """Whether the resource pattern's name can be the name of a node; like Kafka, this store does
    not escape it.
    """
    name = _parts(resource)[2]
    return name not in (".", "..") and _ILLEGAL.search(name) is None


def acl_path(resource: Resource) -> str:
    kind, pattern, name = _parts(resource)
    return f"{_ROOTS[pattern]}/{_written(kind)}/{name}"


def acl_resource(parent: str, name: str) -> Resource:
    """The resource pattern of the node with this name below `parent`, one of `ACL_PARENTS`."""
    return Resource(ResourceType.ACL, ACL_PARENTS[parent] + name)


def encode_acls(keys: Iterable[str]) -> bytes:
    acls = []
    for key in keys:
        principal, host, operation, permission = json.loads(key)
        said = {"permissionType": _written(permission), "host": host}
        acls.append({"principal": principal, **said, "operation": _written(operation)})
    return encode({"acls": acls, "version": _VERSION})


def decode_acls(path: str, data: bytes) -> dict[str, str]:
    """The ACLs as keys.

    Raises:
        UnreadableNode: an ACL is not understood; it may be one that denies access.
    """
    listed = versioned(path, data, (_VERSION,)).get("acls")
    if not isinstance(listed, list):
        raise UnreadableNode(path, "its acls are not a list")
    return dict.fromkeys((_key(path, as_object(path, each, "an ACL")) for each in listed), "")


def _key(path: str, fields: Mapping[str, Any]) -> str:
    principal = as_text(path, fields.get("principal"), "a principal")
    if ":" not in principal:
        raise UnreadableNode(path, f"{principal!r} is no principal")
    host = as_text(path, fields.get("host"), "a host")
    operation = _known(path, fields.get("operation"), _OPERATIONS)
    permission = _known(path, fields.get("permissionType"), _PERMISSIONS)
    return json.dumps([principal, host, operation, permission])


def _known(path: str, value: Any, words: Iterable[str]) -> str:
    """The one of `words` that equals the value, ignoring case and underscores."""
    text = as_text(path, value, "a word")
    for word in words:
        if word.replace("_", "") == text.replace("_", "").upper():
            return word
    raise UnreadableNode(path, f"{text[:40]!r} is not known")


def encode_acl_change(resource: Resource) -> tuple[str, bytes]:
    """An announcement: the prefix of its path, and its content."""
    kind, pattern, name = _parts(resource)
    beginning = f"{_CHANGES[pattern]}/acl_changes_"
    if pattern == _LITERAL:
        return beginning, f"{kind}:{name}".encode()
    fields = {"version": _VERSION, "resourceType": kind, "name": name, "patternType": pattern}
    return beginning, encode(fields)


def decode_acl_change(path: str, data: bytes) -> list[Resource]:
    """The resource pattern whose ACLs have changed."""
    if path.startswith(f"{_CHANGES[_LITERAL]}/"):
        try:
            kind, _, name = data.decode().partition(":")
        except UnicodeDecodeError:
            raise UnreadableNode(path, "it is no text") from None
        return [_resource(path, kind, _LITERAL, name)]
    fields = versioned(path, data, (_VERSION,))
    parts = (as_text(path, fields.get(each), each) for each in ("resourceType", "patternType"))
    kind, pattern = parts
    return [_resource(path, kind, pattern, as_text(path, fields.get("name"), "its name"))]


def _resource(path: str, kind: str, pattern: str, name: str) -> Resource:
    known = _known(path, kind, _KINDS), _known(path, pattern, _ROOTS)
    return Resource(ResourceType.ACL, ":".join((*known, name)))


def _parts(resource: Resource) -> tuple[str, str, str]:
    kind, pattern, name = resource.name.split(":", 2)
    return kind, pattern, name
