"""Formats ACLs as sentences, and as rows."""

from __future__ import annotations

import enum

from drumlin.broker.rights.acls import ANY_NAME, Kind, Pattern, Rule, Target
from drumlin.cli.terminal.output import Row


def word(member: enum.Enum) -> str:
    """A member of an enumeration in the form of the command line: `describe-configs`."""
    return member.name.lower().replace("_", "-")


def as_row(target: Target, rule: Rule) -> Row:
    return {
        "kind": word(target.kind),
        "name": target.name,
        "pattern": word(target.pattern),
        "principal": rule.principal,
        "permission": word(rule.permission),
        "operation": word(rule.operation),
        "host": rule.host,
    }


def in_words(target: Target, rule: Rule) -> str:
    """The ACL in one line, as `allow User:alice read on topics that begin with 'raw.'`."""
    said = f"{word(rule.permission)} {rule.principal} {word(rule.operation)} on {_named(target)}"
    return said if rule.host == ANY_NAME else f"{said} from {rule.host}"


def resource_in_words(kind: Kind, name: str) -> str:
    return "the cluster" if kind is Kind.CLUSTER else f"{_noun(kind)} {name!r}"


def _named(target: Target) -> str:
    if target.kind is Kind.CLUSTER:
        return "the cluster"
    if target.pattern is Pattern.PREFIXED:
        return f"{_noun(target.kind)}s that begin with {target.name!r}"
    if target.name == ANY_NAME:
        return f"every {_noun(target.kind)}"
    return resource_in_words(target.kind, target.name)


def _noun(kind: Kind) -> str:
    return kind.name.lower().replace("_", " ")
