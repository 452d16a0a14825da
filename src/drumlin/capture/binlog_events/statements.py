"""The effects of a statement in the binlog on tables, other than changes with row events. Pure.

The server logs each change of the schema as the text that its user typed.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import Final, NamedTuple

from drumlin.capture.binlog_events.events import Query

#: The statements that change rows; the binlog has their text only if it does not log rows.
_CHANGE_ROWS: Final = frozenset(
    ("INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "CALL", "WITH", "SELECT", "DO", "EXECUTE")
)
_TOKEN: Final = re.compile(
    r"""\s+ | /\*(?!M?!).*?\*/ | --(?=[\s\x00]).*?(?:\n|$) | \#.*?(?:\n|$)
    | /\*M?!\d* | \*/
    | (?P<back>`(?:[^`]|``)*`) | (?P<double>"(?:[^"\\]|\\.|"")*") | (?P<single>'(?:[^'\\]|\\.|'')*')
    | (?P<word>[\w$\x80-\U0010ffff]+) | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)


class Deed(Enum):
    """The kind of an effect on a table, or on all tables of a schema."""

    EMPTIED = auto()  # truncated, dropped, or replaced by an empty one
    ROWS_MOVED = auto()  # rows were added or removed, without events in the binlog
    RENAMED = auto()
    ALTERED = auto()
    CREATED = auto()
    CREATED_IF_MISSING = auto()  # created, or it already existed
    WRITTEN = auto()  # rows were changed, and the binlog has the statement instead of row events


class Effect(NamedTuple):
    """An effect. `table`: None: all tables of the schema. `schema`: None: unknown."""

    deed: Deed
    schema: str | None
    table: str | None


class _Token(NamedTuple):
    text: str
    is_name: bool  # quoted as a name, so it is not a keyword

    @property
    def keyword(self) -> str:
        return "" if self.is_name else self.text.upper()


def effects(query: Query) -> list[Effect]:
    """All effects of a statement; none if it changes neither tables nor rows."""
    words = _Words(list(_tokens(query)), query.schema)
    verb = words.take()
    if verb in _CHANGE_ROWS:
        return [_written(verb, words)]
    if verb == "TRUNCATE":
        words.skip("TABLE")
        return [Effect(Deed.EMPTIED, *words.table())]
    if verb == "DROP":
        return _dropped(words)
    if verb == "RENAME" and words.skip("TABLE", "TABLES"):
        words.skip_if_exists()
        return _renamed(words)
    if verb == "ALTER":
        return _altered(words)
    if verb == "CREATE":
        return _created(words)
    return []


def verb_of(query: Query) -> str:
    """The first words of a statement, without its values."""
    found = [each.keyword for each in _tokens(query)]
    return " ".join(found[:2])


def _tokens(query: Query) -> Iterator[_Token]:
    for match in _TOKEN.finditer(query.text):
        if match["back"] is not None:
            yield _Token(match["back"][1:-1].replace("``", "`"), True)
        elif match["double"] is not None and query.has_ansi_quotes:
            yield _Token(match["double"][1:-1].replace('""', '"'), True)
        elif match["word"] is not None:
            yield _Token(match["word"], False)
        elif match["sign"] is not None:
            yield _Token(match["sign"], False)
        elif match["double"] is not None or match["single"] is not None:
            yield _Token("''", False)


class _Words:
    """The words of a statement, and the position up to which they were read."""

    def __init__(self, tokens: Sequence[_Token], schema: str) -> None:
        self._tokens, self._schema, self._at = tokens, schema, 0

    @property
    def keyword(self) -> str:
        return self._tokens[self._at].keyword if self._at < len(self._tokens) else ""

    def take(self) -> str:
        found = self.keyword
        self._at += 1
        return found

    def skip(self, *words: str) -> bool:
        if self.keyword in words and self.keyword:
            self._at += 1
            return True
        return False

    def skip_if_exists(self) -> None:
        if self.skip("IF"):
            self.skip("NOT")
            self.skip("EXISTS")

    def name(self) -> str:
        found = self._tokens[self._at].text if self._at < len(self._tokens) else ""
        self._at += 1
        return found

    def table(self) -> tuple[str, str]:
        """A table's schema and name."""
        first = self.name()
        if self.skip("."):
            return first, self.name()
        return self._schema, first

    def rest(self) -> list[str]:
        """The keywords that follow, outside of parentheses."""
        depth, found = 0, []
        for each in self._tokens[self._at :]:
            if each.keyword == "(":
                depth += 1
            elif each.keyword == ")":
                depth -= 1
            elif depth == 0:
                found.append(each.keyword)
        return found


def _written(verb: str, words: _Words) -> Effect:
    if verb in ("INSERT", "REPLACE", "UPDATE", "DELETE"):
        while words.skip("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "QUICK", "IGNORE"):
            pass
        has_into = words.skip("INTO", "FROM")
        if has_into or verb != "DELETE":
            return Effect(Deed.WRITTEN, words.table()[0], None)
    return Effect(Deed.WRITTEN, None, None)


def _dropped(words: _Words) -> list[Effect]:
    if words.skip("DATABASE", "SCHEMA"):
        words.skip_if_exists()
        return [Effect(Deed.EMPTIED, words.name(), None)]
    if not words.skip("TABLE", "TABLES"):  # temporary tables, views, users, ...
        return []
    words.skip_if_exists()
    found = [Effect(Deed.EMPTIED, *words.table())]
    while words.skip(","):
        found.append(Effect(Deed.EMPTIED, *words.table()))
    return found


def _renamed(words: _Words) -> list[Effect]:
    found = []
    while words.keyword:
        found.append(Effect(Deed.RENAMED, *words.table()))
        while words.keyword and not words.skip("TO"):
            words.take()
        found.append(Effect(Deed.RENAMED, *words.table()))
        if not words.skip(","):
            break
    return found


def _altered(words: _Words) -> list[Effect]:
    is_lossy = False
    while words.keyword in ("ONLINE", "OFFLINE", "IGNORE"):
        is_lossy |= words.take() == "IGNORE"
    if not words.skip("TABLE"):
        return []
    words.skip_if_exists()
    table = words.table()
    rest = words.rest()
    pairs = list(itertools.pairwise(rest))
    is_renamed = any(
        one == "RENAME" and other not in ("COLUMN", "INDEX", "KEY") for one, other in pairs
    )
    has_moved = any(
        one in ("DROP", "TRUNCATE", "EXCHANGE", "CONVERT", "DISCARD", "IMPORT")
        and other in ("PARTITION", "TABLE", "TABLESPACE")
        for one, other in pairs
    )
    if is_renamed:
        return [Effect(Deed.RENAMED, *table)]
    if has_moved or is_lossy:
        return [Effect(Deed.ROWS_MOVED, *table)]
    return [Effect(Deed.ALTERED, *table)]


def _created(words: _Words) -> list[Effect]:
    is_replaced = False
    if words.skip("OR"):
        is_replaced = words.skip("REPLACE")
    if not words.skip("TABLE"):
        return []
    deed = Deed.CREATED_IF_MISSING if words.keyword == "IF" else Deed.CREATED
    words.skip_if_exists()
    table = words.table()
    found = [Effect(Deed.EMPTIED, *table)] if is_replaced else []
    return [*found, Effect(deed, *table)]
