"""Requests about ACLs, to any broker of Drumlin or Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from drumlin.broker.rights.acl_filters import AclFilter
from drumlin.broker.rights.acls import Kind, Operation, Pattern, Permission, Rule, Target
from drumlin.cli.access.acl_words import in_words
from drumlin.cli.reach.cluster import Cluster, check
from drumlin.wire.protocol.create_acls import AclCreation, CreateAclsRequest
from drumlin.wire.protocol.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from drumlin.wire.protocol.describe_acls import DescribeAclsRequest

#: The pattern type of a filter that finds all ACLs which apply to a name.
MATCH: Final = 2


def create(cluster: Cluster, acls: Sequence[tuple[Target, Rule]]) -> None:
    """
    Raises:
        KafkaError: one of them was refused; the others were created.
    """
    creations = tuple(
        AclCreation(
            resource_type=target.kind,
            resource_name=target.name,
            resource_pattern_type=target.pattern,
            principal=rule.principal,
            host=rule.host,
            operation=rule.operation,
            permission_type=rule.permission,
        )
        for target, rule in acls
    )
    response = cluster.ask_controller("create_acls", CreateAclsRequest(creations=creations))
    for each, result in zip(acls, response.results, strict=True):
        check(result.error_code, in_words(*each), result.error_message)


def find(cluster: Cluster, filters: Iterable[AclFilter]) -> list[tuple[Target, Rule]]:
    """All ACLs that any of the filters matches, each once."""
    found: dict[tuple[Target, Rule], None] = {}
    for each in filters:
        request = DescribeAclsRequest(
            resource_type_filter=each.kind,
            resource_name_filter=each.name,
            pattern_type_filter=each.pattern,
            principal_filter=each.principal,
            host_filter=each.host,
            operation=each.operation,
            permission_type=each.permission,
        )
        response = cluster.ask_any("describe_acls", request)
        check(response.error_code, "ACLs", response.error_message)
        for resource in response.resources:
            found |= {_acl(resource, acl): None for acl in resource.acls}
    return sorted(found)


def delete(cluster: Cluster, filters: Iterable[AclFilter]) -> list[tuple[Target, Rule]]:
    """Delete all ACLs that any of the filters matches, and return them.

    Raises:
        KafkaError: some were not deleted.
    """
    wanted = tuple(
        DeleteAclsFilter(
            resource_type_filter=each.kind,
            resource_name_filter=each.name,
            pattern_type_filter=each.pattern,
            principal_filter=each.principal,
            host_filter=each.host,
            operation=each.operation,
            permission_type=each.permission,
        )
        for each in filters
    )
    response = cluster.ask_controller("delete_acls", DeleteAclsRequest(filters=wanted))
    removed: dict[tuple[Target, Rule], None] = {}
    for result in response.filter_results:
        check(result.error_code, "ACLs", result.error_message)
        for acl in result.matching_acls:
            check(acl.error_code, in_words(*_acl(acl, acl)), acl.error_message)
            removed[_acl(acl, acl)] = None
    return sorted(removed)


def _acl(resource: Any, acl: Any) -> tuple[Target, Rule]:
    """The ACL in a response.

    Raises:
        ValueError: it has an unknown number.
    """
    target = Target(
        Kind(resource.resource_type), Pattern(resource.pattern_type), resource.resource_name
    )
    operation, permission = Operation(acl.operation), Permission(acl.permission_type)
    return target, Rule(acl.principal, acl.host, operation, permission)
