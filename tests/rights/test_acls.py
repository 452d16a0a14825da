"""CreateAcls, DescribeAcls and DeleteAcls, as an administrator and as a user without rights."""

from __future__ import annotations

from typing import Any

from rig.brokers.secured_drumlin import SecuredDrumlin


def _acl(**changes: Any) -> dict[str, Any]:
    return {
        "resource_type": 2,
        "resource_name": "a",
        "resource_pattern_type": 3,
        "principal": "User:alice",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
        **changes,
    }


def _filter(**changes: Any) -> dict[str, Any]:
    return {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
        **changes,
    }


def test_created_described_deleted(secured: SecuredDrumlin) -> None:
    with secured.connect() as root:
        acls = [_acl(), _acl(operation=4), _acl(resource_name="a", resource_pattern_type=4)]
        answer = root.ask("create_acls", 3, creations=acls)
        assert [each.error_code for each in answer.results] == [0, 0, 0]
        answer = root.ask("describe_acls", 3, **_filter(resource_name_filter="a"))
        found = {(each.pattern_type, len(each.acls)) for each in answer.resources}
        assert found == {(3, 2), (4, 1)}
        matching = _filter(resource_name_filter="abc", pattern_type_filter=2)
        answer = root.ask("describe_acls", 3, **matching)
        assert [each.pattern_type for each in answer.resources] == [4]
        answer = root.ask("delete_acls", 3, filters=[_filter(operation=4), _filter()])
        assert [len(each.matching_acls) for each in answer.filter_results] == [1, 2]
        assert not root.ask("describe_acls", 3, **_filter()).resources


def test_by_whom_nobody_asked(secured: SecuredDrumlin) -> None:
    with secured.login("alice") as alice:
        answer = alice.ask("create_acls", 3, creations=[_acl(), _acl(operation=4)])
        assert [each.error_code for each in answer.results] == [31, 31]
        assert alice.ask("describe_acls", 3, **_filter()).error_code == 31
        answer = alice.ask("delete_acls", 3, filters=[_filter()])
        assert [each.error_code for each in answer.filter_results] == [31]
