"""Names as a user types them: patterns, and suggestions for unknown names."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

import click

from drumlin.cli.terminal import output

if TYPE_CHECKING:  # brings Arrow along
    from drumlin.client.client import Client

_WILDCARDS: Final = frozenset("*?[")


def is_pattern(name: str) -> bool:
    return not _WILDCARDS.isdisjoint(name)


def chosen(kind: str, requested: Sequence[str], existing: Collection[str]) -> list[str]:
    """The names that the user asked for: plain names, or all that match a pattern.

    A pattern matches no internal topic unless it begins as their names do.

    Raises:
        output.Failure: there is no such name, or nothing matches.
    """
    names: dict[str, None] = {}
    for each in requested:
        if each in existing or not is_pattern(each):
            found = [each] if each in existing else []
        else:
            found = fnmatch.filter(sorted(existing), each)
            if not each.startswith("__"):
                found = [name for name in found if not name.startswith("__")]
        if not found:
            raise output.Failure(missing(kind, each, existing))
        names |= dict.fromkeys(found)
    return list(names)


def matching(expressions: Sequence[str], existing: Collection[str]) -> list[str]:
    """The topics whose whole names match a regular expression; as for patterns, internal ones only
    where an expression begins as their names do.

    Raises:
        click.BadParameter: a text is not a regular expression.
        output.Failure: nothing matches one of them.
    """
    names: dict[str, None] = {}
    for each in expressions:
        try:
            expression = re.compile(each)
        except re.error as error:
            raise click.BadParameter(f"{each!r} is no regular expression: {error}") from None
        is_internal = each.removeprefix("^").startswith("__")
        found = [name for name in sorted(existing) if expression.fullmatch(name)]
        found = [name for name in found if is_internal or not name.startswith("__")]
        if not found:
            raise output.Failure(f"no topic matches {each!r}")
        names |= dict.fromkeys(found)
    return list(names)


def missing(kind: str, name: str, existing: Collection[str]) -> str:
    """The error about a name that does not exist."""
    if is_pattern(name):
        return f"no {kind} matches {name!r}"
    return f"there is no {kind} {name!r}{suggestion(name, existing)}"


def suggestion(name: str, known: Collection[str]) -> str:
    """A "did you mean" question, if a known name is similar."""
    import difflib

    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def check_known(kind: str, requested: Sequence[str] | None, known: Collection[str]) -> None:
    """Refuse unknown values: an empty result would look like an answer.

    Raises:
        click.BadParameter: a value is not among `known`, ignoring case.
    """
    names = {each.lower() for each in known}
    for each in requested or ():
        if each.lower() not in names:
            near = suggestion(each.lower(), names)
            raise click.BadParameter(f"{each!r} is no {kind}{near} (there are {', '.join(known)})")


def existing_partitions(
    client: Client, topic: str, requested: Sequence[int] | None
) -> Sequence[int]:
    """The partitions to read: the given ones, or all.

    Raises:
        output.Failure: there is no such topic, or no such partition of it.
    """
    topics = client.list_topics(internal=True)
    if topic not in topics:  # fail at once: the client would wait for a missing topic
        raise output.Failure(missing("topic", topic, topics))
    existing = client.partitions(topic)
    first, last = min(existing), max(existing)
    for each in set(requested or ()) - set(existing):
        shown = f"{first} to {last}" if last > first else str(first)
        raise output.Failure(f"topic {topic!r} has no partition {each}, only {shown}")
    return requested or existing
