"""The names of a capture in PostgreSQL and in the log, and those of its topics. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from drumlin.capture.errors import CaptureRefused

_OWN_TOPIC: Final = "drumlin-capture."
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class Names:
    """The names of the slot, publication, topic and transactional id of the capture `name`.

    Raises:
        CaptureRefused: PostgreSQL does not allow a slot of this name.
    """

    def __init__(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise CaptureRefused(
                f"--name {name!r}: small letters, digits and _ make the name of a capture, "
                "at most 48 of them, and no digit is the first"
            )
        self.name = name
        self.slot = f"drumlin_{name}"
        self.publication = f"drumlin_{name}"
        self.transactional_id = f"drumlin.capture.{name}"
        #: The capture's position topic.
        self.topic = f"{_OWN_TOPIC}{name}"


def own_topic_pattern() -> str:
    """A pattern that matches the position topics of all captures."""
    return re.escape(_OWN_TOPIC) + _NAME.pattern


def name_of(own_topic: str) -> str:
    """The name of the capture that keeps its position in this topic."""
    return own_topic.removeprefix(_OWN_TOPIC)


def check_distinct(topics: Iterable[tuple[str, str]], own: str) -> None:
    """Check that no two tables share a topic.

    Brokers do not allow two topics whose names differ only in '.' and '_'.

    Args:
        topics: tables and their topics.
        own: the capture's position topic.

    Raises:
        CaptureRefused: two tables would share a topic, or a table would use the position topic.
    """
    table_of = {own.replace(".", "_"): "the capture itself"}
    for table, topic in topics:
        other = table_of.get(topic.replace(".", "_"))
        if other is not None:
            raise CaptureRefused(
                f"{other} and table {table} would both have the topic {topic!r}, or names that "
                "differ in '.' and '_' only: leave one of them out by --tables, or take another "
                "--prefix"
            )
        table_of[topic.replace(".", "_")] = f"table {table}"


def topic_of(prefix: str, schema: str, table: str) -> str:
    """The topic of a table's rows.

    Raises:
        CaptureRefused: no topic can have that name.
    """
    topic = f"{prefix}.{schema}.{table}" if prefix else f"{schema}.{table}"
    if not _TOPIC.fullmatch(topic):
        raise CaptureRefused(
            f"table {schema}.{table}: no topic can be called {topic!r}: "
            "letters, digits, '.', '_' and '-' make its name; leave the table out by --tables"
        )
    return topic
