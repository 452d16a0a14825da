"""The users that ask: each has one right, or all but one, or all of them by a rule of some form.

What they have rights on begins with `PREFIX`, and is there, or is not. A user of whom nothing is
said here has no rights; "root" is a super user. Their passwords are their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from drumlin.broker.rights.acls import (
    ANY_NAME,
    CLUSTER_NAME,
    EVERYBODY,
    OPERATIONS,
    Kind,
    Operation,
    Pattern,
    Permission,
)

PREFIX: Final = "a-"
#: Topics on which everybody may do what is said of them, beside what a user may do.
PUBLIC, FORBIDDEN, UNPRODUCED = "public", f"{PREFIX}forbidden", f"{PREFIX}unproduced"
_EVERYWHERE: Final = "*"
_HERE, _ELSEWHERE = "127.0.0.1", "192.0.2.7"
NOBODY, ROOT = "nobody", "root"
#: Whose rights are what a test makes them.
OWNER: Final = "owner-of-some"


class Rule(NamedTuple):
    """One ACL of a user."""

    kind: Kind
    operation: Operation = Operation.ALL
    pattern: Pattern = Pattern.PREFIXED
    name: str = PREFIX
    permission: Permission = Permission.ALLOW
    host: str = _EVERYWHERE

    def creation(self, principal: str) -> dict[str, Any]:
        """It as CreateAcls has it."""
        name, pattern = self.name, self.pattern
        is_any = (name, pattern) == (ANY_NAME, Pattern.LITERAL)
        if self.kind is Kind.CLUSTER:
            name, pattern = CLUSTER_NAME, Pattern.LITERAL
        elif self.kind is Kind.USER and not is_any:
            name = f"User:{name}"
        elif self.kind is Kind.DELEGATION_TOKEN:
            name, pattern = ANY_NAME, Pattern.LITERAL  # brokers choose their names
        return {
            "resource_type": self.kind,
            "resource_name": name,
            "resource_pattern_type": pattern,
            "principal": principal,
            "host": self.host,
            "operation": self.operation,
            "permission_type": self.permission,
        }


def _rights(kind: Kind) -> Iterator[Operation]:
    yield from OPERATIONS[kind]


def of_all_kinds(**fields: Any) -> list[Rule]:
    """A rule on resources of each kind."""
    return [Rule(kind, **fields) for kind in Kind]


def _single(kind: Kind) -> Iterator[tuple[str, list[Rule]]]:
    """One right each; the same with all rights on other kinds; all rights but one."""
    others = [Rule(other) for other in Kind if other is not kind]
    for operation in (*_rights(kind), Operation.ALL):
        name = f"{kind.name}-{operation.name}"
        right = Rule(kind, operation)
        yield f"{name}-only", [right]
        yield f"{name}-and-others", [right, *others]
        denied = [*of_all_kinds(), right._replace(permission=Permission.DENY)]
        yield f"{name}-denied", denied
    yield f"{kind.name}-none-but-others", others


_LITERAL, _DENY = Pattern.LITERAL, Permission.DENY
_NAMES: Final = ("topic", "produced", "group", "txn")


def literal(**fields: Any) -> list[Rule]:
    """Rules on single resources of each kind."""
    return [
        rule._replace(pattern=_LITERAL, name=f"{PREFIX}{name}")
        for rule in of_all_kinds(**fields)
        for name in _NAMES
    ]


#: All rights, or what is left of them, by rules of each form.
FORMS: Final[dict[str, list[Rule]]] = {
    "prefixed": of_all_kinds(),
    "literal": literal(),
    "wildcard": of_all_kinds(pattern=_LITERAL, name=ANY_NAME),
    "prefixed-star": of_all_kinds(name="*"),
    "literal-denied": [*of_all_kinds(), *literal(permission=_DENY)],
    "prefixed-denied": [*literal(), *of_all_kinds(permission=_DENY)],
    "wildcard-denied": [
        *of_all_kinds(),
        *of_all_kinds(pattern=_LITERAL, name=ANY_NAME, permission=_DENY),
    ],
    "longer-prefix-denied": [*of_all_kinds(), *of_all_kinds(name=f"{PREFIX}to", permission=_DENY)],
    "shorter-prefix-denied": [*of_all_kinds(name=f"{PREFIX}to"), *of_all_kinds(permission=_DENY)],
    "from-here": of_all_kinds(host=_HERE),
    "from-elsewhere": of_all_kinds(host=_ELSEWHERE),
    "from-here-denied": [*of_all_kinds(), *of_all_kinds(permission=_DENY, host=_HERE)],
    "from-elsewhere-denied": [*of_all_kinds(), *of_all_kinds(permission=_DENY, host=_ELSEWHERE)],
}
_SINGLE: Final = {kind: dict(_single(kind)) for kind in Kind}
_FOR_ALL: Final = [
    Rule(Kind.TOPIC, Operation.READ, _LITERAL, PUBLIC),
    *(Rule(Kind.TOPIC, Operation.ALL, _LITERAL, each, _DENY) for each in (FORBIDDEN, UNPRODUCED)),
]
USERS: Final = {
    NOBODY: [],
    **{name: rules for each in _SINGLE.values() for name, rules in each.items()},
    **FORMS,
    ROOT: [],
    OWNER: [],
}


def concerned(kinds: Iterable[Kind]) -> list[str]:
    """Those to ask where rights on resources of these kinds are needed.

    Rights on other kinds must help nobody, so all of them together are enough.
    """
    needed = set(kinds)
    users = [NOBODY]
    for kind, single in _SINGLE.items():
        if kind in needed:
            is_alone = len(needed) == 1
            users += [each for each in single if not (is_alone and each.endswith("-others"))]
        else:
            users += [each for each in single if each == f"{kind.name}-ALL-only"]
    return [*users, *FORMS, ROOT]


def creations() -> list[dict[str, Any]]:
    """All rules, as CreateAcls has them."""
    rules = [(f"User:{user}", rule) for user, rules in USERS.items() for rule in rules]
    rules += [(EVERYBODY, rule) for rule in _FOR_ALL]
    found = [rule.creation(principal) for principal, rule in rules]
    return [each for number, each in enumerate(found) if each not in found[:number]]
