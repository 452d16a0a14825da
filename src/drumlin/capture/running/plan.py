"""Checks the database's tables and creates the publication, before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from drumlin.capture.changes import Table
from drumlin.capture.database import catalog, checks
from drumlin.capture.database.catalog import FoundTable, Server, Slot
from drumlin.capture.database.checks import Problem
from drumlin.capture.errors import CaptureRefused
from drumlin.capture.log.names import Names, topic_of
from drumlin.capture.log.position import Definition
from drumlin.capture.running.options import CaptureOptions

if TYPE_CHECKING:
    import psycopg


class Found(NamedTuple):
    """A database that can be captured."""

    server: Server
    slot: Slot | None
    tables: Sequence[FoundTable]  # to be captured
    others: Sequence[str]  # tables that match too, but were created later
    has_publication: bool

    def definition(self, prefix: str) -> Definition:
        """The definition of a capture of these tables.

        Raises:
            CaptureRefused: a table's name makes no valid topic name.
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
        return Definition(self.server.system_id, self.server.database, tables)


def look(
    connection: psycopg.Connection[Any],
    options: CaptureOptions,
    names: Names,
    known: Definition | None,
) -> Found:
    """Check everything. `known`: the tables that are captured already; None: those that match.

    Raises:
        CaptureRefused: the message lists all problems, each with the statement that fixes it.
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


def refuse(problems: Iterable[Problem]) -> None:
    """Raise the problems, if there are any.

    Raises:
        CaptureRefused: there is a problem.
    """
    said = [str(each) for each in problems]
    if said:
        raise CaptureRefused(". ".join(said))


def publish(connection: psycopg.Connection[Any], found: Found, names: Names) -> None:
    """Create the publication, if there is none."""
    if not found.has_publication:
        statement = checks.publication_statement(names.publication, found.tables, found.server)
        catalog.run(connection, statement)
