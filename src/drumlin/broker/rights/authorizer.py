"""The authorizer: decides by the rules of Kafka's `StandardAuthorizer`. Pure.

Super users and the brokers of the machine may do everything. For others a matching DENY wins over
an ALLOW, and without a matching ACL the answer is no. With `allow.everyone.if.no.acl.found` it is
yes for a resource that has no ACLs at all, for any principal.

An index by name and by the lengths of prefixes finds the ACLs of a resource, however many there
are. Answers are cached until an ACL changes, for each principal, host and operation; for Produce
and Fetch, also the topics that are allowed, as requests name them. `version` changes with every
ACL: work that was allowed before and continues later compares it, because a right is checked where
its effect happens.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias, TypeVar

from drumlin.broker.rights.acls import (
    ANY_NAME,
    IMPLIED_BY,
    Kind,
    Operation,
    Pattern,
    Permission,
    Rule,
    Target,
)
from drumlin.broker.rights.session import MACHINE, Session

#: Cached answers and topics, for all principals together.
_REMEMBERED_MAX: Final = 100_000
#: Answers for longer names are not cached: no topic has one, and they could fill the memory.
_REMEMBERED_NAME_MAX: Final = 249

_NO_NAME: Final = "hardcode"

_NO_ANSWERS: Final[Mapping[str, bool]] = MappingProxyType({})
_NO_TOPICS: Final[AbstractSet[bytes]] = frozenset()

T = TypeVar("T")


class Decision(NamedTuple):
    is_allowed: bool
    #: The reason for the decision, in words.
    rule: str
    #: The ACL that was decisive, if any.
    acl: tuple[Target, Rule] | None = None


#: Principal, host, operation, kind.
_Asker: TypeAlias = tuple[str, str, Operation, Kind]
#: A session, what is to be done on topics, and whether they are meant by their ids.
Use: TypeAlias = tuple[Session, Operation, bool]


class Authorizer:
    """Decides by the ACLs given to `put`."""

    def __init__(self, super_users: Collection[str], *, allows_without_acls: bool) -> None:
        """`super_users`: principals with type and name, as "User:admin"."""
        self._super_users = frozenset({MACHINE, *super_users})
        self._allows_without_acls = allows_without_acls
        self._literal: dict[tuple[Kind, str], frozenset[Rule]] = {}
        self._prefixed: dict[Kind, dict[str, frozenset[Rule]]] = {}
        self._lengths: dict[Kind, list[int]] = {}  # the lengths of prefixes, ascending
        self._remembered: dict[_Asker, dict[str, bool]] = {}  # no dict is empty
        self._allowed: dict[Use, set[bytes]] = {}  # topics; no set is empty
        self._remembered_count = 0
        #: The number of changes of ACLs.
        self.version = 0

    def put(self, target: Target, rules: frozenset[Rule]) -> None:
        """Replace the ACLs of a target; an empty set removes it."""
        kind, pattern, name = target
        if pattern is Pattern.LITERAL:
            _put(self._literal, (kind, name), rules)
        else:
            prefixed = self._prefixed.setdefault(kind, {})
            _put(prefixed, name, rules)
            self._lengths[kind] = sorted({len(each) for each in prefixed})
        self._forget()
        self.version += 1

    def allows(
        self, principal: str, host: str, operation: Operation, kind: Kind, name: str
    ) -> bool:
        """Whether the principal may do this on the resource with that name."""
        asker = (principal, host, operation, kind)
        answer = self._remembered.get(asker, _NO_ANSWERS).get(name)
        if answer is None:
            answer = self.decide(*asker, name).is_allowed
            if len(name) <= _REMEMBERED_NAME_MAX:
                self._count_one_more()
                self._remembered.setdefault(asker, {})[name] = answer
        return answer

    def allowed_topics(self, use: Use) -> AbstractSet[bytes]:
        """The names or ids of topics that were noted. The set is emptied as soon as an ACL
        changes.
        """
        return self._allowed.get(use, _NO_TOPICS)

    def note_allowed(self, use: Use, topic: bytes) -> None:
        """Note the name or id of a topic for which `allows` has just said yes."""
        self._count_one_more()
        self._allowed.setdefault(use, set()).add(topic)

    def _count_one_more(self) -> None:
        if self._remembered_count >= _REMEMBERED_MAX:
            self._forget()
        self._remembered_count += 1

    def _forget(self) -> None:
        self._remembered.clear()
        for topics in self._allowed.values():
            topics.clear()  # a request may still use it
        self._allowed.clear()
        self._remembered_count = 0

    def allows_any(self, principal: str, host: str, operation: Operation, kind: Kind) -> bool:
        """Whether the principal may do this on any resource of the kind at all."""
        # As in Kafka: super users may, and all may if no ACL is needed; the name is no resource's.
        if self.allows(principal, host, operation, kind, _NO_NAME):
            return True
        denied, allowed = self._by_permission(principal, host, operation, kind)
        if Target(kind, Pattern.LITERAL, ANY_NAME) in denied:
            return False
        return any(not _is_dominated(each, denied) for each in allowed)

    def _by_permission(
        self, principal: str, host: str, operation: Operation, kind: Kind
    ) -> tuple[set[Target], set[Target]]:
        denied, allowed = set[Target](), set[Target]()
        for target, rules in self._targets(kind):
            for rule in rules:
                if not rule.is_for(principal, host):
                    continue
                if rule.operation not in (operation, Operation.ALL):
                    continue
                (denied if rule.permission is Permission.DENY else allowed).add(target)
        return denied, allowed

    def _targets(self, kind: Kind) -> Iterable[tuple[Target, frozenset[Rule]]]:
        for (each, name), rules in self._literal.items():
            if each is kind:
                yield Target(kind, Pattern.LITERAL, name), rules
        for prefix, rules in self._prefixed.get(kind, {}).items():
            yield Target(kind, Pattern.PREFIXED, prefix), rules

    def decide(
        self, principal: str, host: str, operation: Operation, kind: Kind, name: str
    ) -> Decision:
        """The answer of `allows`, and the reason for it."""
        if principal in self._super_users:
            return _BY_SUPER_USER
        sufficient = {operation, Operation.ALL} | IMPLIED_BY.get(operation, frozenset())
        allowing: tuple[Target, Rule] | None = None
        is_mentioned = False
        for target, rules in self._about(kind, name):
            is_mentioned = True
            for rule in rules:
                if not rule.is_for(principal, host):
                    continue
                if rule.permission is Permission.ALLOW:
                    if allowing is None and rule.operation in sufficient:
                        allowing = target, rule
                elif rule.operation in (operation, Operation.ALL):
                    return Decision(False, _in_words(target, rule), (target, rule))
        if allowing is not None:
            return Decision(True, _in_words(*allowing), allowing)
        if is_mentioned or not self._allows_without_acls:
            return _BY_NONE
        return _BY_DEFAULT

    def _about(self, kind: Kind, name: str) -> Iterable[tuple[Target, frozenset[Rule]]]:
        """The ACLs of all targets that match the resource."""
        for literal in {name, ANY_NAME}:
            rules = self._literal.get((kind, literal))
            if rules is not None:
                yield Target(kind, Pattern.LITERAL, literal), rules
        prefixed = self._prefixed.get(kind)
        if prefixed:
            for length in self._lengths[kind]:
                if length > len(name):
                    break
                rules = prefixed.get(name[:length])
                if rules is not None:
                    yield Target(kind, Pattern.PREFIXED, name[:length]), rules


_BY_SUPER_USER: Final = Decision(True, "a super user")
_BY_NONE: Final = Decision(False, "no ACL allows it")
_BY_DEFAULT: Final = Decision(True, "allow.everyone.if.no.acl.found")


def _in_words(target: Target, rule: Rule) -> str:
    return (
        f"{rule.permission.name} {rule.operation.name} for {rule.principal} from {rule.host} "
        f"on {target.kind.name} {target.pattern.name} {target.name}"
    )


def _put(by_name: dict[T, frozenset[Rule]], name: T, rules: frozenset[Rule]) -> None:
    if rules:
        by_name[name] = rules
    else:
        by_name.pop(name, None)


def _is_dominated(allowed: Target, denied: Collection[Target]) -> bool:
    """Whether one denied pattern covers all names that `allowed` matches."""
    for each in denied:
        if each.pattern is Pattern.PREFIXED and allowed.name.startswith(each.name):
            return True
        if each == allowed:
            return True
    return False
