"""Rights (ACLs) that alice has on a secured Kafka, granted for a while and withdrawn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from rig.data.raw import RawClient
from rig.data.secured_listeners import Secured
from rig.waiting import wait_until

LITERAL, PREFIXED = 3, 4
TOPIC, GROUP, TRANSACTIONAL_ID = 2, 3, 5
READ, WRITE, CREATE, DESCRIBE, DESCRIBE_CONFIGS = 3, 4, 5, 8, 10
_ALLOW, _ANY = 3, 1


class Right(NamedTuple):
    """... that alice has for a while."""

    kind: int
    name: str
    operation: int
    pattern: int = LITERAL


@contextmanager
def granted(kafka: Secured, *rights: Right) -> Iterator[None]:
    with RawClient(kafka.port) as administrator:
        creations = [
            {
                "resource_type": each.kind,
                "resource_name": each.name,
                "resource_pattern_type": each.pattern,
                "principal": "User:alice",
                "host": "*",
                "operation": each.operation,
                "permission_type": _ALLOW,
            }
            for each in rights
        ]
        answer = administrator.ask("create_acls", 3, creations=creations)
        assert all(each.error_code == 0 for each in answer.results), answer
        wait_until(lambda: there(administrator) >= set(rights), "the rights to be granted")
    try:
        yield
    finally:
        withdraw(kafka, *rights)


def withdraw(kafka: Secured, *rights: Right) -> None:
    filters = [
        {
            "resource_type_filter": each.kind,
            "resource_name_filter": each.name,
            "pattern_type_filter": each.pattern,
            "principal_filter": "User:alice",
            "host_filter": "*",
            "operation": each.operation,
            "permission_type": _ALLOW,
        }
        for each in rights
    ]
    with RawClient(kafka.port) as administrator:
        answer = administrator.ask("delete_acls", 3, filters=filters)
        assert all(each.error_code == 0 for each in answer.filter_results), answer
        wait_until(lambda: not there(administrator) & set(rights), "the rights to be withdrawn")


def there(administrator: RawClient) -> set[Right]:
    """What the broker has heard of by now."""
    answer = administrator.ask(
        "describe_acls",
        3,
        resource_type_filter=_ANY,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter="User:alice",
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    return {
        Right(found.resource_type, found.resource_name, each.operation, found.pattern_type)
        for found in answer.resources
        for each in found.acls
    }
