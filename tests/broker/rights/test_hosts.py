"""Rules for a host, in any form in which an IPv6 address is written."""

from __future__ import annotations

import pytest

from drumlin.broker.rights.acls import Kind, Operation, Pattern, Permission, Rule, Target
from drumlin.broker.rights.authorizer import Authorizer

_TOPIC = Target(Kind.TOPIC, Pattern.LITERAL, "orders")


def _allows(permission: Permission, rule_host: str, client_host: str) -> bool:
    authorizer = Authorizer((), allows_without_acls=False)
    rules = {Rule("User:alice", rule_host, Operation.READ, permission)}
    if permission is Permission.DENY:
        rules.add(Rule("User:alice", "*", Operation.ALL, Permission.ALLOW))
    authorizer.put(_TOPIC, frozenset(rules))
    return authorizer.allows("User:alice", client_host, Operation.READ, Kind.TOPIC, "orders")


@pytest.mark.parametrize(
    ("rule_host", "client_host", "is_same"),
    [
        ("0:0:0:0:0:0:0:1", "::1", True),  # Java writes what Kafka compares so
        ("::1", "::1", True),
        ("2001:DB8::0A", "2001:db8::a", True),
        ("fe80:0:0:0:0:0:0:1%2", "fe80::1%eth0", True),
        ("::2", "::1", False),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.2", "10.0.0.1", False),
        ("nowhere", "::1", False),
    ],
)
def test_a_host_in_any_form(rule_host: str, client_host: str, is_same: bool) -> None:
    assert _allows(Permission.ALLOW, rule_host, client_host) is is_same
    assert _allows(Permission.DENY, rule_host, client_host) is not is_same
