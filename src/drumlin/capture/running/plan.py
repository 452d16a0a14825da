"""Checks the database's tables and creates the publication, before any record is written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from drumlin.capture.changes import Table
from drumlin.capture.database import catalog, checks, waiting
from drumlin.capture.database.catalog import FoundTable, Publication, Server, Slot, quoted
from drumlin.capture.database.checks import Problem
from drumlin.capture.database.failover import Identity
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
    has_publication: bool
    added: Sequence[FoundTable] = ()  # tables that match too, but were created later
    unpublished: Sequence[FoundTable] = ()  # added or unread tables to add to the publication
    left_out: Mapping[int, str] = MappingProxyType({})  # by oid: why a later table is not captured

    @property
    def identity(self) -> Identity:
        """The identity of the server that was checked."""
        return Identity(self.server.system_id, self.server.timeline)

    def definition(self, prefix: str, own_topic: str, form: str) -> Definition:
        """The definition of a capture of these tables.

        Raises:
            CaptureRefused: a table's name does not give a valid topic name.
        """
        tables = [as_table(each, prefix) for each in self.tables]
        check_topics(tables, own_topic)
        return Definition(self.server.system_id, self.server.database, tables, form=form)


def as_table(found: FoundTable, prefix: str) -> Table:
    """
    Raises:
        CaptureRefused: the table's name does not give a valid topic name.
    """
    topic = topic_of(prefix, found.schema, found.name)
    return Table(found.oid, found.schema, found.name, topic, found.key, found.key_kinds)


def check_topics(tables: Iterable[Table], own_topic: str) -> None:
    """
    Raises:
        CaptureRefused: two tables have the same topic, or a table has the position topic.
    """
    named = [(f"{quoted(each.schema)}.{quoted(each.name)}", each.topic) for each in tables]
    check_distinct(named, own_topic)


def look(
    connection: psycopg.Connection[Any],
    options: CaptureOptions,
    names: Names,
    known: Definition | None,
    was_interrupted: bool = False,
) -> Found:
    """Check everything. `known`: the captured tables; None: capture the tables that match.

    `was_interrupted`: a first snapshot has begun, so the publication was created by this capture.

    Raises:
        CaptureRefused: the message lists all problems, each with the statement that fixes it.
    """
    server = catalog.server(connection)
    slot = catalog.slot(connection, names.slot)
    problems = checks.server_problems(server, slot, options.is_failover)
    every = catalog.tables(connection, names.publication)
    matching = checks.chosen(every, options.tables)
    publication = catalog.publication(connection, names.publication)
    tables = matching
    added: list[FoundTable] = []
    unpublished: list[FoundTable] = []
    left_out: dict[int, str] = {}
    if known is not None:
        oids = {each.oid for each in known.tables}
        unread = {each.oid for each in known.unread}
        tables = [each for each in every if each.oid in oids]
        for each in matching:
            if each.oid not in oids:
                why = why_not(each, publication, names, options.prefix, server)
                if why is None:
                    added.append(each)
                else:
                    left_out[each.oid] = why
        others = [each for each in every if each not in added]
        problems += made_anew(known, others, left_out)
        if publication is not None:
            unpublished = [
                each
                for each in (*added, *tables)
                if each.oid not in publication.oids
                and (each in added or (each.oid in unread and publication.is_owner))
            ]
    elif was_interrupted and publication is not None and publication.is_owner:
        others = [each for each in matching if each.oid not in publication.oids]
        unpublished = [each for each in others if each.is_owner]
    if not every:
        problems.append(Problem(f"database {server.database} has no tables", "CREATE TABLE ..."))
    elif not tables and not added:
        shown = ", ".join(each.full_name for each in every[:10])
        patterns = ", ".join(options.tables)
        problems.append(Problem(f"no table matches {patterns}", f"there are {shown}"))
    problems += checks.table_problems(tables, server)
    refused_names = _refused_names(tables, options.prefix) if known is None else []
    if tables or added:
        published = [each for each in (*tables, *added) if each not in unpublished]
        problems += checks.publication_problems(
            names.publication, publication, published, every, server
        )
    refuse([*problems, *refused_names])
    has_publication = publication is not None
    return Found(server, slot, tables, has_publication, added, unpublished, left_out)


def has_changed(
    connection: psycopg.Connection[Any],
    options: CaptureOptions,
    names: Names,
    others: Collection[FoundTable],
    left_out: Mapping[int, str | None],
) -> bool:
    """Whether any of these tables can now be added to the capture, or cannot for a new reason.

    `left_out`: by oid, the reason why a table was left out; None: for another kind of reason.
    """
    if not others:
        return False
    publication = catalog.publication(connection, names.publication)
    server = catalog.server(connection)
    return any(
        each.oid not in left_out
        or left_out[each.oid] != why_not(each, publication, names, options.prefix, server)
        for each in others
    )


def why_not(
    table: FoundTable, publication: Publication | None, names: Names, prefix: str, server: Server
) -> str | None:
    """The reason why a table cannot be added to an existing capture; None: it can."""
    problems = checks.table_problems([table], server)
    is_published = publication is not None and table.oid in publication.oids
    if publication is not None and not is_published:
        if not (table.is_owner and publication.is_owner):
            cure = f"ALTER PUBLICATION {names.publication} ADD TABLE {catalog.only(table)}"
            why = f"user {server.user} may not publish table {table.full_name}"
            problems.append(Problem(why, f"have its owner run {cure}"))
        elif table.kind == "p" and not publication.is_by_root:
            cure = f"ALTER PUBLICATION {names.publication} SET (publish_via_partition_root)"
            problems.append(Problem(f"table {table.full_name} is partitioned", cure))
    return ". ".join(map(str, [*problems, *_refused_names([table], prefix)])) or None


def _refused_names(tables: Iterable[FoundTable], prefix: str) -> list[str]:
    """A sentence for each table whose name makes no valid topic name."""
    refused = []
    for each in tables:
        try:
            topic_of(prefix, each.schema, each.name)
        except CaptureRefused as error:
            refused.append(str(error))
    return refused


def publish_added(
    connection: psycopg.Connection[Any],
    found: Found,
    definition: Definition,
    names: Names,
    should_stop: Callable[[], bool],
) -> None:
    """Add to the publication the unread tables that are not in it."""
    oids = {each.oid for each in definition.tables}
    tables = [each for each in found.unpublished if each.oid in oids]
    if tables:
        named = ", ".join(catalog.only(each) for each in tables)
        statement = f"ALTER PUBLICATION {quoted(names.publication)} ADD TABLE {named}"
        waiting.result_of(connection, statement, should_stop)


def made_anew(
    known: Definition,
    every: Iterable[FoundTable],
    left_out: Mapping[int, str] = MappingProxyType({}),
) -> list[Problem]:
    """Problems of captured tables that were dropped and recreated, which the stream does not show.

    `left_out`: by oid, the reason why the new table cannot be captured.
    """
    oids = {(each.schema, each.name): each.oid for each in every}
    present, known_oids = set(oids.values()), {each.oid for each in known.tables}
    found = []
    for each in known.tables:
        other = oids.get((each.schema, each.name))
        if other is not None and each.oid not in present and other not in known_oids:
            cure = left_out.get(other, "start again with --tables that match it")
            why = f"table {each.full_name} was dropped and made anew, and is not captured"
            found.append(Problem(why, cure))
    return found


def refuse(problems: Iterable[Problem | str]) -> None:
    """Raise the problems, if there are any.

    Raises:
        CaptureRefused: there is a problem.
    """
    said = [str(each) for each in problems]
    if said:
        raise CaptureRefused(". ".join(said))


def publish(
    connection: psycopg.Connection[Any],
    found: Found,
    names: Names,
    should_stop: Callable[[], bool] = lambda: False,
) -> None:
    """Create the publication, if there is none. Waits for transactions that alter the tables."""
    if not found.has_publication:
        statement = checks.publication_statement(names.publication, found.tables, found.server)
        waiting.result_of(connection, statement, should_stop)
