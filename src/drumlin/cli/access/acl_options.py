"""The options that name principals, operations and resources, and their parsing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Final, NamedTuple

from drumlin.addresses import is_address
from drumlin.broker.rights.acl_filters import AclFilter
from drumlin.broker.rights.acls import (
    ALL_OPERATIONS,
    ANY_NAME,
    CLUSTER_NAME,
    Kind,
    Operation,
    Pattern,
    Permission,
    Rule,
    Target,
)
from drumlin.cli.access.acl_words import word
from drumlin.cli.reach.completion import complete_group, complete_topic
from drumlin.cli.terminal.commands import Option
from drumlin.cli.terminal.output import Failure

_ANY: Final = 1
_EXIT_USAGE: Final = 2
_USER: Final = "User:"

Users = Annotated[
    list[str] | None, Option("--user", "-u", metavar="NAME", help="User:NAME; repeatable.")
]
Principals = Annotated[
    list[str] | None,
    Option("--principal", metavar="TYPE:NAME", help="Like --user, of any type; repeatable."),
]
Operations = Annotated[
    list[str] | None,
    Option("--operation", "-o", metavar="WORD", help="all, read, write, create, …; repeatable."),
]
Topics = Annotated[
    list[str] | None,
    Option("--topic", "-t", metavar="NAME", help="A topic; repeatable.", complete=complete_topic),
]
Groups = Annotated[
    list[str] | None,
    Option("--group", "-g", metavar="NAME", help="A group; repeatable.", complete=complete_group),
]
TransactionalIds = Annotated[
    list[str] | None, Option("--transactional-id", metavar="ID", help="Repeatable.")
]
Clusters = Annotated[bool, Option("--cluster", help="The cluster itself.")]
Tokens = Annotated[list[str] | None, Option("--delegation-token", metavar="ID", help="Repeatable.")]
Hosts = Annotated[
    list[str] | None,
    Option("--host", metavar="ADDRESS", help="Only from this address; repeatable."),
]


class Question(NamedTuple):
    """A question to decide: whether a principal may do an operation on a resource."""

    principal: str
    operation: Operation
    kind: Kind
    name: str


class ResourceOptions(NamedTuple):
    """The resources that a command line names."""

    topics: list[str] | None
    groups: list[str] | None
    transactional_ids: list[str] | None
    cluster: bool
    tokens: list[str] | None

    @property
    def are_given(self) -> bool:
        return any(self)

    def named(self) -> list[tuple[Kind, str]]:
        """The kind and name of each resource.

        Raises:
            Failure: no resource is named.
        """
        found = [*self._named()]
        if not found:
            raise Failure("say on what: --topic, --group, --cluster, …", _EXIT_USAGE)
        return found

    def _named(self) -> Iterator[tuple[Kind, str]]:
        yield from ((Kind.TOPIC, each) for each in self.topics or ())
        yield from ((Kind.GROUP, each) for each in self.groups or ())
        yield from ((Kind.TRANSACTIONAL_ID, each) for each in self.transactional_ids or ())
        if self.cluster:
            yield Kind.CLUSTER, CLUSTER_NAME
        yield from ((Kind.DELEGATION_TOKEN, each) for each in self.tokens or ())

    def acls(
        self,
        principals: Sequence[str],
        hosts: Sequence[str],
        operations: Sequence[Operation],
        pattern: Pattern,
        permission: Permission,
    ) -> list[tuple[Target, Rule]]:
        """The ACLs: each rule for each resource.

        Raises:
            Failure: a resource has no such operation, or there is no resource.
        """
        return [
            (
                Target(kind, Pattern.LITERAL if kind is Kind.CLUSTER else pattern, name),
                Rule(principal, host, _checked(operation, kind), permission),
            )
            for kind, name in self.named()
            for principal in principals
            for operation in operations
            for host in hosts
        ]

    def questions(
        self, principals: Sequence[str], operations: Sequence[Operation]
    ) -> list[Question]:
        """
        Raises:
            Failure: see `acls`.
        """
        return [
            Question(principal, _checked(operation, kind), kind, name)
            for kind, name in self.named()
            for principal in principals
            for operation in operations
        ]

    def filters(
        self,
        principals: Sequence[str],
        operations: Sequence[Operation] = (),
        pattern: int | None = None,
    ) -> list[AclFilter]:
        """Filters for every combination of the given values; without any, one that matches all."""
        resources: list[tuple[int, str | None]] = [*self._named()]
        whose: Sequence[str | None] = principals or [None]
        which: Sequence[int] = operations or [_ANY]
        return [
            AclFilter(kind, name, pattern or _ANY, principal, None, operation, _ANY)
            for kind, name in resources or [(_ANY, None)]
            for principal in whose
            for operation in which
        ]


def principals_of(
    users: list[str] | None, principals: list[str] | None, *, is_needed: bool = False
) -> list[str]:
    """
    Raises:
        Failure: none is given, though one is needed, or one has no type.
    """
    for each in users or ():
        if not each:
            raise Failure("--user: a user must have a name", _EXIT_USAGE)
        if each.startswith(_USER):
            message = f"--user takes the name alone, {each.removeprefix(_USER)!r} and not {each!r}"
            raise Failure(f"{message}; if that is the name: --principal {_USER}{each}", _EXIT_USAGE)
    for each in principals or ():
        if not all(each.partition(":")):
            raise Failure(f"{each!r} is not TYPE:NAME", _EXIT_USAGE)
    found = [*(f"{_USER}{each}" for each in users or ()), *(principals or ())]
    if is_needed and not found:
        raise Failure("say who: --user NAME", _EXIT_USAGE)
    return list(dict.fromkeys(found))


def hosts_of(hosts: list[str] | None) -> list[str]:
    """
    Raises:
        Failure: one is no address, and would never be a client's.
    """
    for each in hosts or ():
        if each != ANY_NAME and not is_address(each):
            message = f"{each!r} is no IP address; names and ranges of addresses cannot be given"
            raise Failure(f"--host: {message}", _EXIT_USAGE)
    return list(dict.fromkeys(hosts or ()))


def operations_of(words: list[str] | None) -> list[Operation]:
    """
    Raises:
        Failure: a word is not an operation.
    """
    known = {word(each): each for each in Operation}
    for each in words or ():
        if each.lower() not in known:
            raise Failure(f"{each!r} is no operation; there are {', '.join(known)}", _EXIT_USAGE)
    return list(dict.fromkeys(known[each.lower()] for each in words or ()))


def _checked(operation: Operation, kind: Kind) -> Operation:
    if operation is not Operation.ALL and not ALL_OPERATIONS[kind] >> operation & 1:
        there = [word(each) for each in Operation if ALL_OPERATIONS[kind] >> each & 1]
        noun = kind.name.lower().replace("_", " ")
        message = f"a {noun} has no operation {word(operation)}; it has all, {', '.join(there)}"
        raise Failure(message, _EXIT_USAGE)
    return operation
