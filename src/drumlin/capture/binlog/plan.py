"""Checks a MariaDB's settings and tables, before any record is written."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from drumlin.capture.binlog import catalog, checks, connections
from drumlin.capture.binlog.catalog import FoundTable, Server
from drumlin.capture.binlog.changes import ANEW
from drumlin.capture.binlog.connections import DatabaseDenied
from drumlin.capture.binlog.stream import Stream
from drumlin.capture.binlog_events.charsets import Charsets
from drumlin.capture.binlog_events.gtids import GtidPosition
from drumlin.capture.binlog_events.statements import Deed
from drumlin.capture.changes import Table
from drumlin.capture.database.checks import Problem, matches
from drumlin.capture.errors import CaptureRefused
from drumlin.capture.log.names import check_distinct, topic_of
from drumlin.capture.log.position import BinlogPosition, Definition
from drumlin.capture.running.options import CaptureOptions
from drumlin.capture.running.plan import refuse

if TYPE_CHECKING:
    import pymysql


#: A range of server ids that administrators hardly use.
SERVER_IDS: Final = (1 << 31, (1 << 32) - 1)


class Found(NamedTuple):
    """A database that can be captured."""

    server: Server
    charsets: Charsets
    tables: Sequence[FoundTable]  # to be captured
    others: Sequence[FoundTable]  # tables that match too, but are not captured

    def definition(self, prefix: str, own_topic: str) -> Definition:
        """The definition of a capture of these tables.

        Raises:
            CaptureRefused: a table's name does not give a valid topic name.
        """
        tables = [
            Table(
                number,
                each.schema,
                each.name,
                topic_of(prefix, each.schema, each.name),
                each.key,
                each.key_kinds,
            )
            for number, each in enumerate(self.tables, 1)
        ]
        named = [(each.full_name, each.topic) for each in tables]
        check_distinct(named, own_topic)
        return Definition(self.server.identity, "", tables)


def look(
    connection: pymysql.Connection[Any], options: CaptureOptions, known: Definition | None
) -> Found:
    """Check everything. `known`: the captured tables; None: capture the tables that match.

    Raises:
        CaptureRefused: the message lists all problems, each with the statement that fixes it.
    """
    server = catalog.server(connection)
    refuse(checks.version_problems(server))
    connections.prepare(connection)
    charsets = catalog.charsets(connection, server.version)
    problems = checks.server_problems(server)
    every = catalog.names(connection)
    database = connections.address_of(options.url).database
    here = [each for each in every if database is None or _is(each.schema, database, server)]
    matching = [each for each in here if matches(each.full_name, options.tables)]
    if known is None:
        tables, others = matching, []
        if not matching:
            problems.append(_no_table(here, options))
    else:
        names = {(each.schema, each.name) for each in known.tables}
        tables = [each for each in every if (each.schema, each.name) in names]
        others = [each for each in matching if (each.schema, each.name) not in names]
    tables = catalog.described(connection, tables)
    problems += checks.table_problems(tables, charsets)
    problems += _unreadable(connection, tables, server)
    refuse(problems)
    if known is None:
        _check_stream(options.url, server)
    return Found(server, charsets, tables, others)


def _check_stream(url: str, server: Server) -> None:
    """Begin a stream and end it, to find errors before the tables are read, which may take long.

    Raises:
        CaptureRefused: the user may not read the binlog.
    """
    number = random.randint(*SERVER_IDS)
    try:
        Stream(url, server.settings["gtid_binlog_pos"], number).close()
    except DatabaseDenied as error:
        user = connections.quoted_user(server.user)
        raise CaptureRefused(f"{error}: GRANT REPLICATION SLAVE ON *.* TO {user}") from None


class Added(NamedTuple):
    """Tables that were created while the capture was running."""

    tables: Sequence[Table]  # to add to the definition
    left_out: Sequence[str]  # a sentence for each other table: why it cannot be added


def added(
    connection: pymysql.Connection[Any],
    found: Found,
    definition: Definition,
    created: Collection[str],
    prefix: str,
    own_topic: str,
) -> Added:
    """The tables to capture among those that were created."""
    tables: list[Table] = []
    left_out = []
    number = max((each.oid for each in definition.tables), default=0)
    wanted = [each for each in found.others if each.full_name in created]
    for each in catalog.described(connection, wanted):
        problems = checks.table_problems([each], found.charsets)
        problems += _unreadable(connection, [each], found.server)
        try:
            refuse(problems)
            topic = topic_of(prefix, each.schema, each.name)
            number += 1
            table = Table(number, each.schema, each.name, topic, each.key, each.key_kinds)
            named = [(one.full_name, one.topic) for one in (*definition.tables, *tables, table)]
            check_distinct(named, own_topic)
            tables.append(table)
        except CaptureRefused as error:
            left_out.append(str(error))
    return Added(tables, left_out)


def is_wanted(
    server: Server, options: CaptureOptions, there: set[str], left_out: Collection[str]
) -> Callable[[str, str, Deed], bool]:
    """A function that tells whether to capture a table that is created.

    `there`: the other tables that existed when the process began, or were renamed since.
    `left_out`: tables that cannot be captured.
    """
    database = connections.address_of(options.url).database

    def wants(schema: str, name: str, deed: Deed) -> bool:
        full_name = f"{schema}.{name}"
        if deed is Deed.RENAMED:
            there.add(full_name)
            return False
        if full_name in left_out:
            return False
        if deed is Deed.CREATED_IF_MISSING and full_name in there:
            return False  # it may have existed before, with rows
        is_here = database is None or _is(schema, database, server)
        return is_here and matches(full_name, options.tables)

    return wants


def _is(schema: str, database: str, server: Server) -> bool:
    return schema == (database.lower() if server.has_small_names else database)


def _no_table(tables: Sequence[FoundTable], options: CaptureOptions) -> Problem:
    if not tables:
        return Problem("the user sees no tables", "CREATE TABLE ..., or GRANT SELECT ON ... TO ...")
    shown = ", ".join(each.full_name for each in tables[:10])
    return Problem(f"no table matches {', '.join(options.tables)}", f"there are {shown}")


def _unreadable(
    connection: pymysql.Connection[Any], tables: Iterable[FoundTable], server: Server
) -> list[Problem]:
    """Problems of tables that the user can see, but may not read."""
    found = []
    for each in tables:
        name = f"{connections.quoted(each.schema)}.{connections.quoted(each.name)}"
        try:
            connections.rows(connection, f"SELECT * FROM {name} LIMIT 0")  # noqa: S608
        except DatabaseDenied:
            cure = f"GRANT SELECT ON {name} TO {connections.quoted_user(server.user)}"
            found.append(Problem(f"user {server.user} may not read table {each.full_name}", cure))
    return found


def check_same_server(definition: Definition, position: BinlogPosition, server: Server) -> None:
    """
    Raises:
        CaptureRefused: the server lacks transactions that the topics have; or it is another
            server, and its binlog cannot prove that it has the same history.
    """
    reached, there = GtidPosition.parse(position.gtids), server.settings["gtid_binlog_pos"]
    ends = GtidPosition.parse(there)
    for domain, gtid in reached.items():
        if domain not in ends or ends[domain].sequence < gtid.sequence:
            raise CaptureRefused(
                f"the server's binlog ends at {there or 'its beginning'}, and the topics are at "
                f"{reached} already: it was reset, or restored to an earlier state: {ANEW}"
            )
    if position.last is None and definition.system_id != server.identity:
        raise CaptureRefused(
            f"this capture is of the server {definition.system_id}; --url leads to "
            f"{server.identity}: take another --name, or {ANEW}"
        )
