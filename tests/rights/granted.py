"""Rights of the user alice, for as long as a test needs them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from drumlin.broker.rights.acls import CLUSTER_NAME, Kind, Operation, Pattern, Permission
from rig.brokers.secured_drumlin import SecuredDrumlin
from rig.data.raw import RawClient

#: The beginning of the names on which rights are granted.
PREFIX = "a-"


@contextlib.contextmanager
def granted(
    secured: SecuredDrumlin,
    *rights: tuple[Kind, Operation],
    permission: Permission = Permission.ALLOW,
) -> Iterator[None]:
    """Alice has these rights meanwhile: on the cluster, and on what begins with `PREFIX`."""
    with secured.connect() as root:
        _create(root, rights, permission)
        try:
            yield
        finally:
            revoke(root)


def _create(
    root: RawClient, rights: tuple[tuple[Kind, Operation], ...], permission: Permission
) -> None:
    creations = [
        {
            "resource_type": kind,
            "resource_name": CLUSTER_NAME if kind is Kind.CLUSTER else PREFIX,
            "resource_pattern_type": (
                Pattern.LITERAL if kind is Kind.CLUSTER else Pattern.PREFIXED
            ),
            "principal": "User:alice",
            "host": "*",
            "operation": operation,
            "permission_type": permission,
        }
        for kind, operation in rights
    ]
    answer = root.ask("create_acls", 3, creations=creations)
    assert all(each.error_code == 0 for each in answer.results), answer


def revoke(root: RawClient) -> None:
    """Take all rights of alice."""
    of_alice = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": "User:alice",
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    answer = root.ask("delete_acls", 3, filters=[of_alice])
    assert all(each.error_code == 0 for each in answer.filter_results), answer


def create_topic(secured: SecuredDrumlin, name: str, partitions: int = 1) -> None:
    """A topic, if there is none of that name yet."""
    with secured.connect() as root:
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1}
        answer = root.ask("create_topics", 7, topics=[topic], timeout=20_000)
        assert answer.topics[0].error_code in (0, 36), answer
