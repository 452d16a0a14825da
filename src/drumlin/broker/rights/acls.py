"""Access control lists: who may do what, on which resource, from which host (KIP-11, KIP-290).

The names and numbers are Apache Kafka's. The ACLs of a resource are a configuration in the
metadata, so that all stores keep them: the resource's name says kind, pattern and name; each key is
one ACL.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from drumlin.addresses import plain_address
from drumlin.metadata.image import ClusterImage, Resource, ResourceType

#: The name that stands for all names of a kind, and for any host.
ANY_NAME: Final = "*"
#: The principal that stands for all.
EVERYBODY: Final = "User:*"
#: The only name of the kind CLUSTER.
CLUSTER_NAME: Final = "kafka-cluster"


class Kind(enum.IntEnum):
    """The kind of a resource."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Pattern(enum.IntEnum):
    """The type of the name in an ACL: literal or prefix."""

    LITERAL = 3
    PREFIXED = 4


class Operation(enum.IntEnum):
    """The operation that an ACL allows or denies."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(enum.IntEnum):
    DENY = 2
    ALLOW = 3


class Target(NamedTuple):
    """The resources that an ACL is about."""

    kind: Kind
    pattern: Pattern
    name: str

    def matches(self, name: str) -> bool:
        """Whether the target includes the resource of this name."""
        if self.pattern is Pattern.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, ANY_NAME)


class Rule(NamedTuple):
    """An ACL without its target."""

    #: Type and name: "User:alice".
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def is_for(self, principal: str, host: str) -> bool:
        if self.principal not in (principal, EVERYBODY):
            return False
        return self.host in (host, ANY_NAME) or (
            ":" in host and plain_address(self.host) == plain_address(host)  # has several forms
        )


#: Operation -> the operations whose permission includes it.
IMPLIED_BY: Final[Mapping[Operation, frozenset[Operation]]] = {
    Operation.DESCRIBE: frozenset(
        {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}


#: The operations that exist for each kind of resource, without ALL.
OPERATIONS: Final[Mapping[Kind, tuple[Operation, ...]]] = {
    Kind.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Kind.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Kind.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    Kind.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
    Kind.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    Kind.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
#: The same as sets of bits.
ALL_OPERATIONS: Final = {
    kind: sum(1 << each for each in operations) for kind, operations in OPERATIONS.items()
}


def resource_of(target: Target) -> Resource:
    """The resource that has the ACLs of a target."""
    kind, pattern, name = target
    return Resource(ResourceType.ACL, f"{kind.name}:{pattern.name}:{name}")


def target_of(resource: Resource) -> Target:
    """
    Raises:
        ValueError: the resource has no ACLs.
    """
    kind, pattern, name = resource.name.split(":", 2)
    try:
        return Target(Kind[kind], Pattern[pattern], name)
    except KeyError as unknown:
        raise ValueError(f"{resource.name!r} begins with an unknown word: {unknown}") from None


def key_of(rule: Rule) -> str:
    """The key of one ACL."""
    return json.dumps([rule.principal, rule.host, rule.operation.name, rule.permission.name])


def rule_of(key: str) -> Rule:
    """
    Raises:
        ValueError: the key is not that of an ACL.
    """
    try:
        principal, host, operation, permission = json.loads(key)
        return Rule(principal, host, Operation[operation], Permission[permission])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{key!r} is no ACL: {error!r}") from None


def acls_in(image: ClusterImage) -> Iterator[tuple[Target, frozenset[Rule]]]:
    """All ACLs in the metadata, by target."""
    for name in image.configured(ResourceType.ACL):
        resource = Resource(ResourceType.ACL, name)
        yield target_of(resource), frozenset(map(rule_of, image.configs(resource)))


class InvalidAcl(ValueError):
    """An ACL that cannot be created; the message is for the client."""


def checked_acl(
    kind: int,
    pattern: int,
    name: str,
    principal: str,
    host: str,
    operation: int,
    permission: int,
) -> tuple[Target, Rule]:
    """The ACL that a client wants to create.

    Raises:
        InvalidAcl: there is no such ACL.
    """
    if kind not in set(Kind):
        raise InvalidAcl("Invalid resourceType")
    if kind == Kind.CLUSTER and name != CLUSTER_NAME:
        raise InvalidAcl(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not name:
        raise InvalidAcl("Invalid empty resource name")
    if pattern not in set(Pattern):
        raise InvalidAcl("Invalid patternType")
    if operation not in set(Operation):
        raise InvalidAcl("Invalid operation")
    if permission not in set(Permission):
        raise InvalidAcl("Invalid permissionType")
    if ":" not in principal:
        raise InvalidAcl(
            f"Could not parse principal from `{principal}` (no colon is present separating the "
            "principal type from the principal name)"
        )
    return (
        Target(Kind(kind), Pattern(pattern), name),
        Rule(principal, host, Operation(operation), Permission(permission)),
    )
