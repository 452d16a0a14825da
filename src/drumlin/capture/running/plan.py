"""What is found in the database and made there before anything is written: tables, publication."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from drumlin.capture.changes import Table
from drumlin.capture.database import catalog, checks
from drumlin.capture.database.catalog import FoundTable, Server, Slot, quoted_name
from drumlin.capture.database.checks import Problem
from drumlin.capture.errors import CaptureRefused
from drumlin.capture.log.names import Names, check_distinct, topic_of
from drumlin.capture.log.position import Definition
from drumlin.capture.running.options import CaptureOptions

if TYPE_CHECKING:
    import psycopg


class Found(NamedTuple):
    """A database that can be captured."""

    server: Server
    slot: Slot | None
    tables: Sequence[FoundTable]  # to be captured
    others: Sequence[str]  # that match as well, and have come later
    has_publication: bool

    def definition(self, prefix: str, own_topic: str) -> Definition:
        """
        Raises:
            CaptureRefused: a table cannot give a topic its name.
        """
        tables = [
            Table(
                each.oid,
                each.schema,
                each.name,
                topic_of(prefix, each.schema, each.name),
                each.key,
                each.key_kinds,
            )
            for each in self.tables
        ]
        named = zip(self.tables, tables, strict=True)
        check_distinct([(quoted_name(each), table.topic) for each, table in named], own_topic)
        return Definition(self.server.system_id, self.server.database, tables)


def look(
    connection: psycopg.Connection[Any],
    options: CaptureOptions,
    names: Names,
    known: Definition | None,
) -> Found:
    """Check everything. `known`: the tables that are captured already; None: those that match.

    Raises:
        CaptureRefused: says all that is wrong, each with the statement that mends it.
    """
    server = catalog.server(connection)
    slot = catalog.slot(connection, names.slot)
    every = catalog.tables(connection)
    matching = checks.chosen(every, options.tables)
    others: list[str] = []
    tables = matching
    if known is not None:
        oids = {each.oid for each in known.tables}
        tables = [each for each in every if each.oid in oids]
        others = [each.full_name for each in matching if each.oid not in oids]
    problems = checks.server_problems(server, slot)
    if known is not None:
        problems += made_anew(known, every)
    if not every:
        problems.append(Problem(f"database {server.database} has no tables", "CREATE TABLE ..."))
    elif not tables:
        shown = ", ".join(each.full_name for each in every[:10])
        patterns = ", ".join(options.tables)
        problems.append(Problem(f"no table matches {patterns}", f"there are {shown}"))
    publication = catalog.publication(connection, names.publication)
    problems += checks.table_problems(tables, server)
    if tables:
        problems += checks.publication_problems(
            names.publication, publication, tables, every, server
        )
    refuse(problems)
    return Found(server, slot, tables, others, publication is not None)


def made_anew(known: Definition, every: Iterable[FoundTable]) -> list[Problem]:
    """Captured tables in whose place there is another one, of which the stream tells nothing."""
    oids = {(each.schema, each.name): each.oid for each in every}
    present = set(oids.values())
    return [
        Problem(
            f"table {each.full_name} was dropped and made anew, and the new one is not captured",
            "`drumlin capture remove`, then start again",
        )
        for each in known.tables
        if each.oid not in present and (each.schema, each.name) in oids
    ]


def refuse(problems: Iterable[Problem]) -> None:
    """
    Raises:
        CaptureRefused: there are some.
    """
    said = [str(each) for each in problems]
    if said:
        raise CaptureRefused(". ".join(said))


def publish(connection: psycopg.Connection[Any], found: Found, names: Names) -> None:
    """Make the publication, if it is not there."""
    if not found.has_publication:
        statement = checks.publication_statement(names.publication, found.tables, found.server)
        catalog.run(connection, statement)
