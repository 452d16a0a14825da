"""Decides whether a principal may do an operation, and why, by a cluster's ACLs and settings."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final, NamedTuple

from drumlin.broker.rights.acl_filters import AclFilter
from drumlin.broker.rights.acls import Rule, Target
from drumlin.broker.rights.authorizer import Authorizer
from drumlin.cli.access import acl_requests
from drumlin.cli.access.acl_options import Question
from drumlin.cli.access.acl_words import as_row, in_words, resource_in_words, word
from drumlin.cli.reach.cluster import Cluster
from drumlin.peer.peer_error import only
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.protocol.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

_ANY: Final = 1
_BROKER: Final = 4
_SUPER_USERS: Final = "super.users"
_WITHOUT_ACLS: Final = "allow.everyone.if.no.acl.found"


class Decision(NamedTuple):
    """A decision and its reason. `acl`: the ACL that has decided."""

    question: Question
    is_allowed: bool
    why: str
    acl: tuple[Target, Rule] | None

    def __str__(self) -> str:
        asked = self.question
        what = f"{word(asked.operation)} on {resource_in_words(asked.kind, asked.name)}"
        is_so = "is allowed" if self.is_allowed else "is not allowed"
        return f"{asked.principal}: {what} {is_so}: {self.why}"

    def row(self) -> dict[str, Any]:
        asked = self.question
        return {
            "principal": asked.principal,
            "operation": word(asked.operation),
            "kind": word(asked.kind),
            "name": asked.name,
            "is_allowed": self.is_allowed,
            "why": self.why,
            "acl": None if self.acl is None else as_row(*self.acl),
        }


def decide(cluster: Cluster, question: Question, host: str) -> Decision:
    """
    Raises:
        KafkaError: the user of this command may not see ACLs.
    """
    asked = AclFilter(question.kind, question.name, acl_requests.MATCH, None, None, _ANY, _ANY)
    found = acl_requests.find(cluster, [asked])
    settings = _settings(cluster)
    super_users = {each.strip() for each in (settings[_SUPER_USERS] or "").split(";")}
    by_target: dict[Target, set[Rule]] = defaultdict(set)
    for target, rule in found:
        by_target[target].add(rule)
    allows_without_acls = (settings[_WITHOUT_ACLS] or "false").lower() == "true"
    authorizer = Authorizer(super_users, allows_without_acls=allows_without_acls)
    for target, rules in by_target.items():
        authorizer.put(target, frozenset(rules))
    principal, operation, kind, name = question
    is_allowed, _, acl = authorizer.decide(principal, host, operation, kind, name)
    if acl is not None:
        why = in_words(*acl)
    elif principal in super_users:
        why = f"{_SUPER_USERS} has it"
    else:
        why = f"no ACL is about it, and {_WITHOUT_ACLS}=true" if is_allowed else "no ACL allows it"
    if not is_allowed and settings[_SUPER_USERS] is None:
        why += f" (unless {_SUPER_USERS} has it, which the cluster does not tell)"
    return Decision(question, is_allowed, why, acl)


def _settings(cluster: Cluster) -> dict[str, str | None]:
    """The two settings of the authorizer; None if the cluster does not return one."""
    found: dict[str, str | None] = dict.fromkeys((_SUPER_USERS, _WITHOUT_ACLS))
    node_id = cluster.broker_ids[0]
    resource = DescribeConfigsResource(
        resource_type=_BROKER, resource_name=str(node_id), configuration_keys=tuple(found)
    )
    request = DescribeConfigsRequest(resources=(resource,))
    response = cluster.ask_broker(node_id, "describe_configs", request)
    result = only(response.results, "the configuration of a broker")
    if result.error_code == ErrorCode.none:
        found |= {each.name: each.value for each in result.configs if each.name in found}
    return found
