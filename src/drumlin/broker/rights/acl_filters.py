"""Filters of ACLs, as DescribeAcls and DeleteAcls have them."""

from __future__ import annotations

from typing import Final, NamedTuple

from drumlin.broker.rights.acls import Kind, Operation, Pattern, Permission, Rule, Target

_ANY: Final = 1
#: The pattern that matches whatever applies to a resource with the name: literal, `*` or prefix.
_MATCH: Final = 2


class AclFilter(NamedTuple):
    """Matches ACLs; None and ANY match all."""

    kind: int
    name: str | None
    pattern: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    @property
    def problem(self) -> str | None:
        """The error if the filter has a value that no ACL can have, in Apache Kafka's words."""
        if self.kind not in (_ANY, *Kind) or self.pattern not in (_ANY, _MATCH, *Pattern):
            return "Unknown patternFilter."
        if self.operation not in (_ANY, *Operation) or self.permission not in (_ANY, *Permission):
            return "Unknown entryFilter."
        return None

    def matches_target(self, target: Target) -> bool:
        if self.kind not in (_ANY, target.kind):
            return False
        if self.pattern not in (_ANY, _MATCH, target.pattern):
            return False
        if self.name is None or self.name == target.name:
            return True
        return self.pattern == _MATCH and target.matches(self.name)

    def matches_rule(self, rule: Rule) -> bool:
        return (
            self.principal in (None, rule.principal)
            and self.host in (None, rule.host)
            and self.operation in (_ANY, rule.operation)
            and self.permission in (_ANY, rule.permission)
        )
